"""Translates lines: `./launch.sh translate --workdir=runs/mine < source.txt > target.txt`.

An empty line gives an empty line. In a terminal, without a file, it prompts for one sentence after
another and shows what the model attended to for each token. With --n_best it writes lines of the
form `number ||| text ||| log-probability ||| score`, where source lines are numbered from 0.
"""

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

from absl import flags as absl_flags

from attn_jax.data.text_files import decode_lines, read_data
from attn_jax.errors import InputError
from attn_jax.loading import load
from attn_jax.report.terminal import strips
from attn_jax.tokens import EOS, SPECIALS
from attn_jax.translator import Hypothesis, Translator
from experiments import flags
from experiments.examples import warn_of_unknown
from experiments.flags import FLAGS
from experiments.program import run

AT_ONCE = 2048  # lines, whose attention weights are held in memory until they are written


def read_source(path: str) -> list[str]:
    """The lines of a file, or of standard input when no file is named."""
    if not path and sys.stdin is None:
        raise InputError("standard input is closed: name a file by --input")
    data = read_data(Path(path)) if path else sys.stdin.buffer.read()
    return decode_lines(data, path or "standard input")


def best(_: int, hypotheses: list[Hypothesis]) -> Iterator[str]:
    """The best translation of a source line; an empty line if the source is empty."""
    yield hypotheses[0].text if hypotheses else ""


def n_best(number: int, hypotheses: list[Hypothesis]) -> Iterator[str]:
    """One line for each hypothesis of a source line, with the number of the source line."""
    for hypothesis in hypotheses:
        scores = f"{hypothesis.log_probability:.4f} ||| {hypothesis.score:.4f}"
        yield f"{number} ||| {hypothesis.text} ||| {scores}"


def converse(translator: Translator, options: dict) -> None:
    """Prompts for sentences until there are no more; prints translations and their alignments."""
    print("one sentence per line; an empty line ends the program", file=sys.stderr)
    for turn in itertools.count():
        sentence = _asked()
        if not sentence:
            return
        try:  # a repeated sentence gets new samples
            (hypotheses,) = translator.translate([sentence], first=turn, **options)
        except InputError as error:
            print(error, file=sys.stderr)
            continue
        warn_of_unknown(translator.source, [sentence])
        source = translator.source.split(sentence)
        for hypothesis in hypotheses:
            print(f"\n{hypothesis.text}   ({hypothesis.log_probability:.2f} nats)")
            written = [*hypothesis.tokens, SPECIALS[EOS]]
            print("\n".join(strips(hypothesis.alignment, source, written)))


def _asked() -> str:
    try:
        return input("\n> ").strip()
    except (EOFError, KeyboardInterrupt):
        return ""


def main() -> None:
    """Writes the translations of each line, or prompts for sentences in a terminal."""
    options = flags.search()
    lines_of = n_best if "n_best" in options else best
    options.setdefault("n_best", 1)
    flags.check_combination()
    translator = load([FLAGS.workdir, *FLAGS.also], combination=FLAGS.combination)
    if not FLAGS.input and sys.stdin and sys.stdin.isatty():
        converse(translator, options)
        return
    lines = read_source(FLAGS.input)
    warn_of_unknown(translator.source, lines)
    lengths = [len(translator.source.encode(line)) for line in lines]
    for number, length in enumerate(lengths, start=1):
        if length > translator.max_length:
            raise InputError(
                f"line {number} has {length} tokens, more than the {translator.max_length} "
                "that the run allows (--data.max_length): cut it into sentences"
            )
    done = 0
    for first in range(0, len(lines), AT_ONCE):
        part = slice(first, first + AT_ONCE)
        filled = list(map(bool, lengths[part]))
        sentences = list(itertools.compress(lines[part], filled))
        translations = iter(translator.translate(sentences, first=done, **options))
        done += len(sentences)
        for number, any_token in enumerate(filled, start=first):
            for line in lines_of(number, next(translations) if any_token else []):
                print(line)


if __name__ == "__main__":
    flags.define_models()
    flags.define_search()
    absl_flags.DEFINE_string(
        "input", "", "file of source sentences; standard input, or a prompt, when empty"
    )
    run(main)
