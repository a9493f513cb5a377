"""Which runs are compared, which belong to one system, and the names of systems."""

import itertools
import re
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from attn_jax import config
from attn_jax.report.cells import Cell

Systems = dict[str, list[Cell]]  # runs by the name of their system, best system first


def by_data(cells: list[Cell]) -> dict[str, list[Cell]]:
    """Groups the runs that can be compared, by the name of their data set.

    The runs of a group have the same test set, sides and metrics; their training data may differ.
    Names are unique, also as part of a file name (see `stem`).
    """
    groups: dict[tuple, list[Cell]] = {}
    for cell in cells:
        references = tuple(sentence["reference"] for sentence in cell.sentences)
        how = cell.measure, cell.options["data.bleu_tokenizer"]
        same = cell.data, *how, references
        groups.setdefault(same, []).append(cell)
    named: dict[str, list[Cell]] = {}
    for group in groups.values():
        usual = group[0].data
        names = itertools.chain([usual], (f"{usual}-{nth}" for nth in itertools.count(2)))
        taken = set(map(stem, named))
        named[next(name for name in names if stem(name) not in taken)] = group
    return named


def stem(name: str) -> str:
    """A name as part of a file name, without spaces, which a link in Markdown cannot contain."""
    return re.sub(r"[^\w.-]+", "-", name)


def by_system(cells: list[Cell]) -> Systems:
    """Groups the runs that differ only in the seed, by the name of their system.

    Systems are sorted by the mean of the metric by which they are ranked, best first, and then by
    perplexity, lowest first.
    """
    groups: dict[tuple, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(cell.system, []).append(cell)

    def place(named: tuple[str, list[Cell]]) -> tuple[float, float]:
        _, own = named
        measures = [cell.evaluation[cell.measure] for cell in own]
        return -np.mean(measures), np.mean([cell.evaluation["perplexity"] for cell in own])

    names = names_of([own[0] for own in groups.values()])
    return dict(sorted(zip(names, groups.values(), strict=True), key=place))


def first_run(systems: Systems) -> Cell:
    """The first run of the best system."""
    return next(iter(systems.values()))[0]


def varying_facts(cells: Sequence[Cell]) -> list[str]:
    """The names of the facts in which runs differ, except for the seed."""
    facts = [cell.facts for cell in cells]
    return [n for n in cells[0].facts if n != "seed" and len({own[n] for own in facts}) > 1]


def names_of(cells: list[Cell]) -> list[str]:
    """A unique name for the system of each of these runs.

    The name is the label, or without one the options that vary. If the score varies, it is named,
    and others where they do not have their defaults; otherwise one or two options are always named,
    and more of them only where they do not have their defaults. If two systems have the same name,
    the options are appended to the label. If that is not enough, all facts that vary are listed,
    data, code and decoding included.
    """
    usual = config.values(config.Experiment())
    different = varying_facts(cells)
    differing_options = [name for name in different if name in usual]
    varying = [name for name in differing_options if name != "label"]

    def options(cell: Cell) -> str:
        told = [name for name in varying if cell.options[name] != usual[name]]
        if "model.score" not in varying and (len(varying) <= 2 or not told):
            told = varying
        words = []
        for name in varying:
            if name == "model.score":
                words.append(cell.options[name])
            elif name in told:
                words.append(f"{name.removeprefix('model.')}={cell.options[name]}")
        return ", ".join(words)

    def briefly(cell: Cell) -> str:
        return cell.options["label"] or options(cell) or cell.options["model.score"]

    def with_options(cell: Cell) -> str:
        return ", ".join(filter(None, [cell.options["label"], options(cell)])) or briefly(cell)

    def fully(cell: Cell) -> str:
        score = [] if differing_options else [cell.options["model.score"]]
        told = (f"{name.removeprefix('model.')}={cell.facts[name]}" for name in different)
        return ", ".join([*score, *told])

    def unless_common(names: list[str], name: Callable[[Cell], str]) -> list[str]:
        counts = Counter(names)
        return [
            name(cell) if counts[known] > 1 else known
            for known, cell in zip(names, cells, strict=True)
        ]

    names = unless_common(list(map(briefly, cells)), with_options)
    return unless_common(names, fully)
