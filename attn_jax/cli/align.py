"""Aligns translated text, scores the alignment, and draws it.

`./launch.sh align --workdir=runs/en-fr --sources=a.en --targets=a.fr > a.links`
writes, for each pair of lines, a line of links between words (`source-target`, from 0), or with
`--unit=token` between the model's tokens, such as characters. With `--reverse=runs/fr-en`, it
combines the links of both directions; with `--gold=FILE`, it scores them. All other output goes to
standard error.
"""

import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from absl import flags as absl_flags

from attn_jax.alignment.extraction import (
    EXTRACTIONS,
    SYMMETRIZATIONS,
    Extraction,
    Symmetrization,
    turned,
)
from attn_jax.alignment.units import (
    UNITS,
    Texts,
    check_same_tokens,
    cut,
)
from attn_jax.attention.head_names import HEADS, Head
from attn_jax.cli import flags
from attn_jax.cli.flags import FLAGS
from attn_jax.config.reading import read
from attn_jax.data.alignment_files import Gold, Links, pharaoh, read_gold
from attn_jax.data.parallel_text import read_complete
from attn_jax.data.sentences import words_of
from attn_jax.errors import InputError
from attn_jax.evaluation.significance import FEWEST
from attn_jax.files import writing
from attn_jax.reporting.printing import print_table
from attn_jax.runs.aligning import (
    Alignment,
    Development,
    check_opposite,
    draw_all,
    table_of_errors,
    write_page,
)
from attn_jax.translation.loading import load

TABLES = {Extraction: EXTRACTIONS, Symmetrization: SYMMETRIZATIONS, Head: HEADS}
read_value = partial(read, tables=TABLES)


def read_text(sources: str, targets: str) -> Texts:
    """The sentences of two files."""
    read_sources, read_targets = zip(*read_complete((Path(sources), Path(targets))), strict=True)
    return read_sources, read_targets


def read_gold_of(path: str, pairs: Texts) -> list[Gold]:
    """The gold links of some pairs."""
    sizes = [
        (len(words_of(source)), len(words_of(target)))
        for source, target in zip(*pairs, strict=True)
    ]
    return read_gold(Path(path), sizes, FLAGS.gold_first)


def read_development() -> Development | None:
    """The pairs and gold links to choose a head and shift on; None if no flag names them.

    Raises:
      InputError: only some of the flags are given, or the files do not fit together.
    """
    paths = FLAGS.dev_sources, FLAGS.dev_targets, FLAGS.dev_gold
    if not any(paths):
        return None
    if not all(paths):
        raise InputError("give all of --dev_sources, --dev_targets and --dev_gold, or none")
    pairs = read_text(FLAGS.dev_sources, FLAGS.dev_targets)
    return pairs, read_gold_of(FLAGS.dev_gold, pairs)


def print_errors(links: dict[str, list[Links]], golds: list[Gold]) -> None:
    """Prints how well links match the gold links."""
    print_table("against the gold links", table_of_errors(links, golds), sys.stderr)
    compared = sum(any(made) for made in links.values())
    if len(golds) < FEWEST and compared > 1:
        why = f"{len(golds)} pairs are too few to tell links apart: p needs at least {FEWEST}"
        print(f"warning: {why}", file=sys.stderr)


def check_flags() -> None:
    """Raises InputError if flags do not fit together."""
    chosen = [name for name in ("head", "shift", "dev_gold") if FLAGS[name].present]
    if FLAGS.of != "weights" and chosen:
        raise InputError(f"--{chosen[0]} chooses among weights: leave it out with --of={FLAGS.of}")
    if "dev_gold" in chosen[1:]:
        raise InputError(f"give --{chosen[0]} or --dev_gold, which chooses it")
    if FLAGS["gold_first"].present and not (FLAGS.gold or FLAGS.dev_gold):
        raise InputError("--gold_first needs --gold or --dev_gold")
    if FLAGS.unit == "token" and (FLAGS.gold or FLAGS.dev_gold):
        raise InputError("--unit=token makes links of tokens, and gold links are of words")
    if FLAGS["symmetrization"].present and not FLAGS.reverse:
        raise InputError("--symmetrization combines two directions: give --reverse")
    agreed = FLAGS.reverse and FLAGS.symmetrization.startswith("agreement")
    if agreed and FLAGS["links"].present and not (FLAGS.gold or FLAGS.dev_gold):
        raise InputError("--links is of one direction: --symmetrization=agreement makes its own")
    if FLAGS.weights and not (
        FLAGS.weights.endswith(".npz") and Path(FLAGS.weights).parent.is_dir()
    ):
        raise InputError(f"--weights must be a file .npz in a folder that exists: {FLAGS.weights}")
    if FLAGS.page and not (FLAGS.page.endswith(".html") and Path(FLAGS.page).parent.is_dir()):
        raise InputError(f"--page must be a file .html in a folder that exists: {FLAGS.page}")
    if FLAGS.figures and Path(FLAGS.figures).is_file():
        raise InputError(f"--figures must be a folder, and {FLAGS.figures} is a file")


def define() -> None:
    """Defines the flags."""
    flags.define_workdir("folder of a run")
    flags.define_needed("sources", "file of source sentences")
    flags.define_needed("targets", "file of their translations")
    absl_flags.DEFINE_enum(
        "unit",
        "word",
        list(UNITS),
        "what is linked, weighed and drawn: words, or tokens as the model has them",
    )
    absl_flags.DEFINE_enum(
        "of",
        "weights",
        ["weights", "posterior", "viterbi"],
        "what links are made of: the weights that the model has before it knows a target word; the "
        "posterior, how probable each source word is given the target word too; or viterbi, the "
        "most probable alignment, of a run with hard attention, such as --model.readout=marginal",
    )
    absl_flags.DEFINE_string("head", "mean", "weights of: mean, or layer.head as in 2.1")
    absl_flags.DEFINE_integer(
        "shift", 0, "take for each target word the weights of so many steps later", -1000, 1000
    )
    absl_flags.DEFINE_string(
        "links", "argmax", "links of weights: argmax, threshold(least=0.3) or monotonic"
    )
    absl_flags.DEFINE_string("reverse", "", "folder of a run from target to source")
    absl_flags.DEFINE_string(
        "symmetrization",
        "grow_diag_final_and",
        f"with --reverse, links of both: {', '.join(SYMMETRIZATIONS)}(least=0.2)",
    )
    absl_flags.DEFINE_string(
        "gold", "", "file of gold links: lines of 0-0 (sure) and 1?2 (possible), or NAACL's format"
    )
    absl_flags.DEFINE_integer(
        "gold_first", 0, "number of the first word in gold lines, 0 or 1", 0, 1
    )
    for side in ("sources", "targets", "gold"):
        absl_flags.DEFINE_string(f"dev_{side}", "", f"{side} to choose the best head and shift on")
    absl_flags.DEFINE_string(
        "weights",
        "",
        "file .npz for the weights [T, S] between units: forward_0, …; with --reverse reverse_0, …",
    )
    absl_flags.DEFINE_string("figures", "", "folder for a heat map of each pair")
    absl_flags.DEFINE_string(
        "page", "", "file .html to look at all pairs in a browser, with every layer and head"
    )


def main() -> None:
    """Writes links to standard output, and scores, weights and pictures if flags ask for them."""
    check_flags()
    if FLAGS.figures:  # made first: if it cannot be, nothing has been computed in vain
        Path(FLAGS.figures).mkdir(parents=True, exist_ok=True)
    texts = read_text(FLAGS.sources, FLAGS.targets)
    golds = read_gold_of(FLAGS.gold, texts) if FLAGS.gold else None
    how = Alignment(
        FLAGS.unit,
        FLAGS.of,
        read_value(Head, FLAGS.head),
        FLAGS.shift,
        read_value(Extraction, FLAGS.links),
        read_development(),
    )
    symmetrize = read_value(Symmetrization, FLAGS.symmetrization)
    if FLAGS.reverse:
        check_opposite(FLAGS.workdir, FLAGS.reverse)
    translator = load(FLAGS.workdir)
    reverse = load(FLAGS.reverse) if FLAGS.reverse else None
    if FLAGS.unit == "word" and all(len(words_of(text)) == 1 for side in texts for text in side):
        print("each line is one word: --unit=token links what is in it", file=sys.stderr)
    pairs = cut(translator, texts)
    reversed_pairs = cut(reverse, (texts[1], texts[0])) if reverse else None
    if reversed_pairs and FLAGS.unit == "token":
        check_same_tokens(pairs, reversed_pairs)

    forward = how.weights("forward", translator, pairs)
    links = {"forward": list(map(how.extract, forward))}
    weights: dict[str, Any] = {f"forward_{nth}": of_pair for nth, of_pair in enumerate(forward)}
    chosen = "forward"
    directions = {"forward": forward}
    if reverse and reversed_pairs:
        backward = how.turned().weights("reverse", reverse, reversed_pairs)
        weights |= {f"reverse_{nth}": of_pair for nth, of_pair in enumerate(backward)}
        directions["reverse"] = [of_pair.T for of_pair in backward]
        links["reverse"] = [turned(how.extract(of_pair)) for of_pair in backward]
        # Others are only to be compared with the gold links.
        others = {name: one() for name, one in SYMMETRIZATIONS.items()} if golds else {}
        for name, combine in (others | {FLAGS.symmetrization: symmetrize}).items():
            links[name] = list(map(partial(combine, extract=how.extract), forward, backward))
        chosen = FLAGS.symmetrization
    if golds:
        print_errors(links, golds)
    if FLAGS.weights:
        with writing(Path(FLAGS.weights)) as (beside,), beside.open("wb") as file:
            np.savez(file, **weights)
    if FLAGS.figures:
        draw_all(Path(FLAGS.figures), translator, pairs, forward, FLAGS.unit)
    if FLAGS.page:
        write_page(Path(FLAGS.page), translator, texts, pairs, directions, golds, FLAGS.unit)
    # Printed last, since the reader of the links may close the pipe.
    for of_pair in links[chosen]:
        print(pharaoh(of_pair))
