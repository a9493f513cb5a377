"""Translates lines: `./launch.sh translate --workdir=runs/mine < source.txt > target.txt`.

An empty line gives an empty line, and so does one that is too long with --too_long=skip. In a
terminal, without a file, it prompts for one sentence after another and shows what the model
attended to for each token. With --n_best it writes lines of the form
`number ||| text ||| log-probability ||| score`, where source lines are numbered from 0; as the text
can contain ` ||| ` too, read the numbers from both ends. With --buffer=1 it answers each line
before it reads the next, for programs that wait for the answer.
"""

import io
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

from absl import flags as absl_flags

from attn_jax.cli import flags
from attn_jax.cli.flags import FLAGS
from attn_jax.data.lines import read_data, text_lines
from attn_jax.data.sentences import Sentence
from attn_jax.data.text_checks import warn_of_unknown
from attn_jax.errors import InputError
from attn_jax.reporting.printing import strips
from attn_jax.translation.hypothesis import Hypothesis
from attn_jax.translation.loading import load
from attn_jax.translation.translator import Translator

BUFFER = 2048  # lines, whose attention weights are held in memory until they are written


def source_lines(path: str) -> Iterator[str]:
    """The lines of a file, or of standard input when no file is named, each as soon as it is there.

    Raises:
      InputError: the file cannot be read, or a line is not UTF-8.
    """
    if not path and sys.stdin is None:
        raise InputError("standard input is closed: name a file by --input")
    source = io.BytesIO(read_data(Path(path))) if path else sys.stdin.buffer
    return text_lines(source, path or "standard input")


def fitting(
    translator: Translator, lines: list[str], too_long: str, before: int = 0
) -> list[Sentence]:
    """The lines as sentences, of which those with too many tokens are cropped or emptied.

    Says on standard error how many these are.

    Args:
      translator: the model.
      lines: source lines.
      too_long: `crop`, `skip` (an empty line stands for the line) or `refuse`.
      before: how many lines of the text come before these.

    Raises:
      InputError: a line is too long, which is refused.
    """
    vocabulary, most = translator.source, translator.max_length
    numbered = enumerate(lines, start=before + 1)
    sentences = [vocabulary.cut_at(f"line {number}", line) for number, line in numbered]
    lengths = [len(sentence.tokens) for sentence in sentences]
    over = [number for number, length in enumerate(lengths) if length > most]
    if not over:
        return sentences
    if too_long == "refuse":
        raise InputError(
            f"line {before + over[0] + 1} has {lengths[over[0]]} tokens, more than the {most} that "
            "the run allows (--data.max_length): cut it into sentences, or give --too_long=crop or "
            "skip"
        )
    kept = most if too_long == "crop" else 0
    for number in over:
        whole = sentences[number]  # of whose text words are the words
        sentences[number] = Sentence(whole.text, whole.tokens[:kept], whole.words[:kept])
    done = {"crop": "cropped to that many", "skip": "skipped"}[too_long]
    more = ", …" if len(over) > 5 else ""
    print(
        f"warning: {len(over)} of {len(lines)} lines have more than {most} tokens and are {done}: "
        f"{', '.join(str(before + number + 1) for number in over[:5])}{more}",
        file=sys.stderr,
    )
    return sentences


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
        line = _asked()
        if not line:
            return
        try:  # a repeated sentence gets new samples
            (sentence,) = fitting(translator, [line], FLAGS.too_long)
            if not sentence.tokens:
                continue
            (hypotheses,) = translator.translate([sentence], first=turn, **options)
        except InputError as error:
            print(error, file=sys.stderr)
            continue
        warn_of_unknown(translator.source, [sentence])
        for hypothesis in hypotheses:
            print(f"\n{hypothesis.text}   ({hypothesis.log_probability:.2f} nats)")
            shades = strips(hypothesis.alignment, hypothesis.source.tokens, hypothesis.steps)
            print("\n".join(shades))


def _asked() -> str:
    try:
        return input("\n> ").strip()
    except (EOFError, KeyboardInterrupt):
        return ""


def define() -> None:
    """Defines the flags."""
    flags.define_models()
    flags.define_search()
    absl_flags.DEFINE_string(
        "input", "", "file of source sentences; standard input, or a prompt, when empty"
    )
    absl_flags.DEFINE_enum(
        "too_long",
        "refuse",
        ["refuse", "crop", "skip"],
        "what to do with a line of more than --data.max_length tokens: refuse it and all lines in "
        "its buffer, crop it to that many, or skip it, which gives an empty line",
    )
    absl_flags.DEFINE_integer(
        "buffer",
        BUFFER,
        "lines that are read and translated together before their translations are written; 1 "
        "answers each line before it reads the next",
        lower_bound=1,
    )


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
    lines, before, done = source_lines(FLAGS.input), 0, 0
    while some := list(itertools.islice(lines, FLAGS.buffer)):
        part = fitting(translator, some, FLAGS.too_long, before)
        warn_of_unknown(translator.source, part)
        filled = [bool(sentence.tokens) for sentence in part]
        sentences = list(itertools.compress(part, filled))
        translations = iter(translator.translate(sentences, first=done, **options))
        for number, any_token in enumerate(filled, start=before):
            for line in lines_of(number, next(translations) if any_token else []):
                print(line)
        sys.stdout.flush()
        before += len(part)
        done += len(sentences)
