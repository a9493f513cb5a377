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
    """The runs that can be compared, under the name of their data set.

    They are of one test text, between the same sides, and one measure; what they were trained on
    may differ. No two names are the same as part of a file's.
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
    """A name as part of a file's: a link in a page holds no space."""
    return re.sub(r"[^\w.-]+", "-", name)


def by_system(cells: list[Cell]) -> Systems:
    """The runs that differ in nothing but the seed, under what tells them from the others.

    The system with the best mean of the measure by which they are ranked comes first, and of equal
    ones that of the lowest perplexity.
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
    """In what runs differ, but for the seed."""
    facts = [cell.facts for cell in cells]
    return [n for n in cells[0].facts if n != "seed" and len({own[n] for own in facts}) > 1]


def names_of(cells: list[Cell]) -> list[str]:
    """What to call the systems of which each of these is a run: no name is that of two.

    That is their label. Without one it is the options that vary; of several such options, those at
    their defaults are not told. Where that is one name for two, the options stand behind the label,
    and where it still is, all that vary are told, and which data and code.
    """
    usual = config.values(config.Experiment())
    different = varying_facts(cells)
    differing_options = [name for name in different if name not in ("data", "code")]
    varying = [name for name in differing_options if name != "label"]

    def options(cell: Cell) -> str:
        words = []
        for name in varying:
            value = cell.options[name]
            if name == "model.score":
                words.append(value)
            elif len(varying) == 1 or value != usual[name]:
                words.append(f"{name.removeprefix('model.')}={value}")
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
