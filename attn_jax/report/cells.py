"""The runs of a comparison, read from their folders."""

import dataclasses
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from attn_jax import config
from attn_jax.errors import InputError
from attn_jax.files import CONTENT, reading
from attn_jax.journal import JOURNAL, read


@dataclasses.dataclass(frozen=True)
class Cell:
    """One finished run."""

    options: dict[str, Any]
    evaluation: dict[str, Any]
    journal: list[dict[str, Any]]
    sentences: list[dict[str, Any]]
    weights: list[np.ndarray]  # of the first sentences, [L, N, T, S]
    content: str | None = None  # what its data are, wherever they lie

    @property
    def data(self) -> str:
        """The name of the data set."""
        return self.options["data.name"]

    @property
    def in_words(self) -> bool:
        """Whether the target is a text cut into words, which single signs are not."""
        return self.options["data.target_level"] in ("word", "subword")

    @property
    def measure(self) -> str:
        """The figure by which systems are ranked: BLEU of text, exact match of single signs."""
        return "bleu" if self.in_words else "exact_match"

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return self.options["seed"]


def read_cell(folder: Path) -> Cell:
    """The run that was evaluated in a folder.

    Raises:
      InputError: one of its files is missing or damaged.
    """
    options = config.values(config.read(folder / "flags.txt"))
    path = folder / CONTENT
    with reading(path):
        content = path.read_text("utf-8") if path.is_file() else None
    journal = read(folder / JOURNAL)
    path = folder / "evaluation.test.json"
    with reading(path):
        evaluation = json.loads(path.read_text("utf-8"))
        count = evaluation["sentences"]
    path = folder / "predictions.test.jsonl"
    with reading(path), path.open(encoding="utf-8") as file:
        # Whose text may hold signs that `splitlines` cuts.
        sentences = list(map(json.loads, file))
    path = folder / "alignments.test.npz"
    with reading(path), path.open("rb") as file, np.load(file) as arrays:
        weights = list(arrays.values())
    if not journal or not weights or len(sentences) != count:
        raise InputError(f"{folder} is damaged: its files do not go together")
    return Cell(options, evaluation, journal, sentences, weights, content)


def find_cells(root: Path) -> tuple[list[Cell], dict[Path, str]]:
    """The evaluated runs under a folder; and why other runs there are left out, by their folders.

    A run with the options of another, seed included, is that run again and says nothing new. Data
    of one content are taken to lie where the first of their runs had them.
    """
    cells: list[Cell] = []
    left_out: dict[Path, str] = {}
    first: dict[tuple, Path] = {}
    places: dict[str, dict[str, Any]] = {}
    for folder in sorted(file.parent for file in root.rglob("flags.txt")):
        if not (folder / "evaluation.test.json").is_file():
            left_out[folder] = "not evaluated on a test split"
            continue
        try:
            cell = read_cell(folder)
        except InputError as error:
            left_out[folder] = str(error)
            continue
        if cell.content is not None:
            here = {name: cell.options[name] for name in config.PLACES}
            there = places.setdefault(cell.content, here)
            cell = dataclasses.replace(cell, options=cell.options | there)
        options = tuple(cell.options.values())
        if first.setdefault(options, folder) == folder:
            cells.append(cell)
        else:
            left_out[folder] = f"the same as {first[options]}"
    return cells, left_out


def by_data(cells: list[Cell]) -> dict[str, list[Cell]]:
    """The runs that can be compared, under the name of their data set.

    They are of one test text and one measure; what they were trained on may differ.
    """
    groups: dict[tuple, list[Cell]] = {}
    for cell in cells:
        references = tuple(sentence["reference"] for sentence in cell.sentences)
        same = cell.data, cell.measure, cell.options["data.bleu_tokenizer"], references
        groups.setdefault(same, []).append(cell)
    named: dict[str, list[Cell]] = {}
    for group in groups.values():
        name = group[0].data
        number = 1 + sum(other.startswith(name) for other in named)
        named[name if number == 1 else f"{name}-{number}"] = group
    return named


def by_system(cells: list[Cell]) -> dict[str, list[Cell]]:
    """The runs that differ in nothing but the seed, under what tells them from the others.

    That is their label; without one, or where runs of one label differ, the options that vary; of
    several such options, those at their defaults are not told. The system with the best mean of the
    measure by which they are ranked comes first, and of equal ones that of the lowest perplexity.
    """
    distinct = {tuple((k, v) for k, v in cell.options.items() if k != "seed") for cell in cells}
    # With the scores that systems without a label may be called by: no name is that of two.
    labels = Counter(options["label"] or options["model.score"] for options in map(dict, distinct))
    usual = config.values(config.Experiment())
    varying = [
        name for name in usual if name != "seed" and len({cell.options[name] for cell in cells}) > 1
    ]

    def told(cell: Cell) -> str:
        if cell.options["label"] and labels[cell.options["label"]] == 1:
            return cell.options["label"]
        words = []
        for name in varying:
            value = cell.options[name]
            if name == "model.score":
                words.append(value)
            elif len(varying) == 1 or value != usual[name]:
                words.append(value if name == "label" else f"{name.removeprefix('model.')}={value}")
        return ", ".join(words) or cell.options["model.score"]

    systems: dict[str, list[Cell]] = {}
    for cell in cells:
        systems.setdefault(told(cell), []).append(cell)

    def mean(label: str, figure: str) -> float:
        return float(np.mean([cell.evaluation[figure] for cell in systems[label]]))

    def place(label: str) -> tuple[float, float]:
        return -mean(label, cells[0].measure), mean(label, "perplexity")

    return {label: systems[label] for label in sorted(systems, key=place)}
