"""Aligns translated text, scores the alignment, and draws it.

`./launch.sh align --workdir=runs/en-fr --sources=a.en --targets=a.fr > a.links`
writes, for each pair of lines, a line of links between words (`source-target`, from 0), or with
`--unit=token` between the model's tokens, such as characters. With `--reverse=runs/fr-en`, it
combines the links of both directions; with `--gold=FILE`, it scores them. `--workdir=a.npz` takes
weights of another toolkit, with their pairs, in place of a run. All other output goes to standard
error.
"""

import dataclasses
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
    check_same_units,
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
    write_scores,
)
from attn_jax.runs.weighing import FILES, OfFile, OfRun, System
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


def texts_of(system: System) -> Texts:
    """The texts of pairs."""
    sources, targets = ([sentence.text for sentence in side] for side in system.pairs)
    return sources, targets


def read_system(workdir: str, sources: str, targets: str) -> System:
    """What aligns two files of text; or the pairs of a file of weights, in place of a run."""
    if Path(workdir).suffix in FILES:
        return OfFile(workdir)
    return OfRun(load(workdir), read_text(sources, targets))


def read_development(system: System, turned_round: bool = False) -> Development | None:
    """The pairs and gold links to choose a head and shift on; None if no flag names them.

    Args:
      system: whose head is chosen.
      turned_round: whether it is that of the opposite direction.
    """
    if not FLAGS.dev_gold:
        return None
    if not isinstance(system, OfRun):
        chosen_on = OfFile(FLAGS.dev_weights)
        return chosen_on, read_gold_of(FLAGS.dev_gold, texts_of(chosen_on))
    texts = read_text(FLAGS.dev_sources, FLAGS.dev_targets)
    golds = read_gold_of(FLAGS.dev_gold, texts)
    if turned_round:
        texts, golds = texts[::-1], [Gold(*map(turned, gold)) for gold in golds]
    return OfRun(system.translator, texts), golds


def print_errors(links: dict[str, list[Links]], golds: list[Gold]) -> None:
    """Prints how well links match the gold links."""
    print_table("against the gold links", table_of_errors(links, golds), sys.stderr)
    compared = sum(any(made) for made in links.values())
    if len(golds) < FEWEST and compared > 1:
        why = f"{len(golds)} pairs are too few to tell links apart: p needs at least {FEWEST}"
        print(f"warning: {why}", file=sys.stderr)


def check_files() -> None:
    """Raises InputError if flags do not name what is aligned."""
    is_file = Path(FLAGS.workdir).suffix in FILES
    if FLAGS.reverse and (Path(FLAGS.reverse).suffix in FILES) != is_file:
        raise InputError("--workdir and --reverse must be two runs, or two files of weights")
    texts = "sources", "targets"
    texts_of_dev = "dev_sources", "dev_targets"
    if is_file:
        given = [name for name in (*texts, *texts_of_dev) if FLAGS[name].value]
        if given:
            raise InputError(f"--{given[0]} is for a run: {FLAGS.workdir} has its own pairs")
        if bool(FLAGS.dev_weights) != bool(FLAGS.dev_gold):
            raise InputError("give both of --dev_weights and --dev_gold, or none")
        if FLAGS.dev_weights and FLAGS.reverse:
            raise InputError("--dev_weights is of one direction: with --reverse, give --head")
        return
    for name in texts:
        if not FLAGS[name].value:
            raise InputError(f"give --{name}")
    if FLAGS.dev_weights:
        raise InputError("--dev_weights is for a file of weights: give --dev_sources")
    dev = [bool(FLAGS[name].value) for name in (*texts_of_dev, "dev_gold")]
    if any(dev) and not all(dev):
        raise InputError("give all of --dev_sources, --dev_targets and --dev_gold, or none")


def check_flags() -> None:
    """Raises InputError if flags do not fit together."""
    check_files()
    chosen = [name for name in ("head", "shift", "dev_gold") if FLAGS[name].present]
    if FLAGS.of != "weights" and chosen:
        raise InputError(f"--{chosen[0]} chooses among weights: leave it out with --of={FLAGS.of}")
    if "dev_gold" in chosen[1:]:
        raise InputError(f"give --{chosen[0]} or --dev_gold, which chooses it")
    if FLAGS.of != "weights" and FLAGS.scores:
        raise InputError(f"--scores is of weights: leave it out with --of={FLAGS.of}")
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
    if FLAGS.scores and not (FLAGS.scores.endswith(".tsv") and Path(FLAGS.scores).parent.is_dir()):
        raise InputError(f"--scores must be a file .tsv in a folder that exists: {FLAGS.scores}")
    if FLAGS.page and not (FLAGS.page.endswith(".html") and Path(FLAGS.page).parent.is_dir()):
        raise InputError(f"--page must be a file .html in a folder that exists: {FLAGS.page}")
    if FLAGS.figures and Path(FLAGS.figures).is_file():
        raise InputError(f"--figures must be a folder, and {FLAGS.figures} is a file")


def define() -> None:
    """Defines the flags."""
    flags.define_workdir("folder of a run; or weights of another toolkit, a file .npz or .json")
    absl_flags.DEFINE_string("sources", "", "file of source sentences, for a run")
    absl_flags.DEFINE_string("targets", "", "file of their translations")
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
    absl_flags.DEFINE_string("reverse", "", "folder of a run, or weights, from target to source")
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
    absl_flags.DEFINE_string("dev_weights", "", "of a file of weights, those to choose them on")
    absl_flags.DEFINE_string(
        "weights",
        "",
        "file .npz for the weights [T, S] between units: forward_0, …; with --reverse reverse_0, …",
    )
    absl_flags.DEFINE_string(
        "scores",
        "",
        "file .tsv for figures of the weights of each pair, which need no gold links: sharpness, "
        "coverage, the distance from uniform weights, and the share on special tokens",
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
    # Read before any model is loaded, which takes seconds.
    symmetrize = read_value(Symmetrization, FLAGS.symmetrization)
    head, extract = read_value(Head, FLAGS.head), read_value(Extraction, FLAGS.links)
    if FLAGS.reverse and Path(FLAGS.reverse).suffix not in FILES:
        check_opposite(FLAGS.workdir, FLAGS.reverse)
    system = read_system(FLAGS.workdir, FLAGS.sources, FLAGS.targets)
    reverse = read_system(FLAGS.reverse, FLAGS.targets, FLAGS.sources) if FLAGS.reverse else None
    texts = texts_of(system)
    golds = read_gold_of(FLAGS.gold, texts) if FLAGS.gold else None
    how = Alignment(
        FLAGS.unit,
        FLAGS.of,
        head,
        FLAGS.shift,
        extract,
        read_development(system),
    )
    if FLAGS.unit == "word" and all(len(words_of(text)) == 1 for side in texts for text in side):
        print("each line is one word: --unit=token links what is in it", file=sys.stderr)
    if reverse:
        check_same_units(system.pairs, reverse.pairs, FLAGS.unit)

    forward = how.weights("forward", system)
    links = {"forward": list(map(how.extract, forward))}
    weights: dict[str, Any] = {f"forward_{nth}": of_pair for nth, of_pair in enumerate(forward)}
    chosen = "forward"
    directions = {"forward": forward}
    if reverse:
        of_reverse = dataclasses.replace(how, development=read_development(reverse, True))
        backward = of_reverse.weights("reverse", reverse)
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
    if FLAGS.scores:
        write_scores(Path(FLAGS.scores), system, how.reading(system.shown()[0].weights))
    if FLAGS.figures:
        draw_all(Path(FLAGS.figures), system, forward, FLAGS.unit)
    if FLAGS.page:
        write_page(Path(FLAGS.page), system, directions, golds, FLAGS.unit)
    # Printed last, since the reader of the links may close the pipe.
    for of_pair in links[chosen]:
        print(pharaoh(of_pair))
