"""Links of translated text from the weights of a run: which weights, their errors, pictures."""

import dataclasses
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from attn_jax.alignment.accuracy import alignment_counts, alignment_error
from attn_jax.alignment.extraction import Extraction
from attn_jax.alignment.judging import judged
from attn_jax.alignment.units import (
    UNITS,
    Reading,
    between,
    masses,
    of_head,
    read,
    readings,
    words,
)
from attn_jax.attention.head_names import Head
from attn_jax.data.alignment_files import Gold, Links
from attn_jax.drawing.alignments import heat_map
from attn_jax.drawing.heads import heads
from attn_jax.drawing.style import save
from attn_jax.drawing.viewer import write_viewer
from attn_jax.errors import InputError
from attn_jax.evaluation.significance import ratios_differ
from attn_jax.files import write_whole
from attn_jax.pairs import Weighed, word_indices
from attn_jax.reporting.printing import p_cell
from attn_jax.runs.weighing import System
from attn_jax.translation.loading import experiment_of, located

if TYPE_CHECKING:
    import pandas as pd

Development = tuple[System, list[Gold]]  # pairs to choose a reading on, and their gold links


@dataclasses.dataclass(frozen=True)
class Alignment:
    """Which weights links are made from, and how.

    Attributes:
      unit: what is linked: a name in `UNITS`.
      of: `weights`, `posterior` or `viterbi`, as in `Translator.align`.
      head: of weights, the head that is read.
      shift: of weights, how many steps after a token its weights are read.
      extract: from weights to links.
      development: pairs on which the head and the shift are chosen instead; None: there are none.
    """

    unit: str
    of: str
    head: Head
    shift: int
    extract: Extraction
    development: Development | None = None

    def weights(self, name: str, system: System) -> list[np.ndarray]:
        """The weights [T, S] between the units of each pair.

        Prints which weights were read, and warns of what the model does not know.

        Args:
          name: what messages call the direction.
          system: what aligns the pairs in this direction.
        """
        system.warn(name)
        return between(UNITS[self.unit], system.pairs, self._of_tokens(name, system))

    def _of_tokens(self, name: str, system: System) -> list[np.ndarray]:
        if self.of != "weights":
            return system.aligned(self.of)
        weights = system.weights()
        reading = self.reading(weights[0])
        shares = masses(weights, reading)
        told = f"{name}: {reading}; mean weight of target words on no source word "
        told += f"{shares['null_mass']:.1f} %"
        if system.knows_ends:
            told += (
                f", of the end of the sentence on the last source word {shares['end_mass']:.1f} %"
            )
        print(told, file=sys.stderr)
        return [read(of_pair, reading) for of_pair in weights]

    def reading(self, weights: np.ndarray) -> Reading:
        """Which of the weights [L, N, T, S] are read."""
        if self.development:
            return best_reading(*self.development, self.extract)
        layers, heads, *_ = weights.shape
        return Reading(self.head.place(layers, heads, "--head"), self.shift)


def best_reading(system: System, golds: list[Gold], extract: Callable) -> Reading:
    """The layer, head and shift whose links have the lowest error."""
    weights = system.weights()

    def error(reading: Reading) -> float:
        read_so = [read(of_pair, reading) for of_pair in weights]
        links = list(map(extract, between(words, system.pairs, read_so)))
        return alignment_error(links, golds)["alignment_error_rate"] if any(links) else 100.0

    layers, heads, *_ = weights[0].shape
    return min(readings(layers, heads), key=error)


def check_opposite(workdir: str, reverse: str) -> None:
    """Raises InputError if two runs are known to translate in the same direction."""
    (ours, _), (theirs, _) = located(Path(workdir)), located(Path(reverse))
    data, other = experiment_of(ours).data, experiment_of(theirs).data
    if data.source and (data.source, data.target) == (other.source, other.target):
        raise InputError(
            f"both runs translate from {data.source} to {data.target}: --reverse is for one from "
            f"{data.target} to {data.source}"
        )


def table_of_errors(links: dict[str, list[Links]], golds: list[Gold]) -> "pd.DataFrame":
    """How well the links of each direction and combination match the gold links.

    The last column is the p-value of the difference from the links with the lowest error, by paired
    bootstrap.
    """
    import pandas as pd  # takes half a second, which other alignments save

    errors = {name: alignment_error(made, golds) for name, made in links.items() if any(made)}
    # 1 - AER of each sentence, as numerator and denominator.
    shares = {}
    for name in errors:
        of_possible, of_sure, made, sure = alignment_counts(links[name], golds).T
        shares[name] = np.stack([of_possible + of_sure, made + sure], axis=1)
    best = min(errors, key=lambda name: errors[name]["alignment_error_rate"], default="")
    heading = ["links", "AER %", "precision %", "recall %", "F1 %", f"p vs {best or 'best'}"]
    rows = []
    for name in links:
        if name not in errors:
            rows.append([name, "no links", *[""] * 4])
            continue
        error = errors[name]
        p = "" if name == best else p_cell(ratios_differ(shares[best], shares[name]))
        rows.append([name, *(f"{value:.1f}" for value in error.values()), p])
    return pd.DataFrame(rows, columns=heading)


def write_scores(file: Path, system: System, reading: Reading) -> None:
    """Writes what `judged` says of each pair, and its texts, as a table with tabs.

    Args:
      file: of the table, which is replaced if it exists.
      system: what aligns the pairs.
      reading: which weights are taken.
    """
    lines: list[str] = []
    for pair, *sides in zip(system.shown(), *system.pairs, strict=True):
        figures = judged(
            of_head(pair.weights, reading), word_indices(pair.source, pair.source_words)
        )
        if not lines:
            lines.append("\t".join([*figures, "source", "target"]))
        texts = (side.text.replace("\t", " ") for side in sides)
        lines.append("\t".join([*(f"{value:.4g}" for value in figures.values()), *texts]))
    write_whole(file, "\n".join(lines) + "\n")


def draw_all(folder: Path, system: System, weights: list[np.ndarray], unit: str) -> None:
    """Draws the weights between the units of each pair.

    If the model has several heads, also draws the weights of each head between tokens.
    """
    units = UNITS[unit]
    drawn = zip(weights, system.shown(), *system.pairs, strict=True)
    for number, (of_pair, shown, source, target) in enumerate(drawn, start=1):
        sources, _ = units(source)
        targets, _ = units(target)
        save(heat_map(of_pair, sources, targets), folder / f"alignment-{number}.png")
        if shown.weights[..., 0, 0].size > 1:
            figure = heads(shown.weights, shown.source, shown.target)
            save(figure, folder / f"heads-{number}.png")


def write_page(
    file: Path,
    system: System,
    directions: dict[str, list[np.ndarray]],
    golds: list[Gold] | None,
    unit: str,
) -> None:
    """Writes a page to look at the pairs: what links are made of, and the model's own weights.

    Args:
      file: of the page.
      system: what aligns the pairs, forward.
      directions: the weights [T, S] between the units of each pair, from which links are made.
      golds: the gold links of each pair, if known.
      unit: a name in `UNITS`.
    """
    units = UNITS[unit]
    sides = [[units(sentence)[0] for sentence in of_side] for of_side in system.pairs]
    links = [gold.possible for gold in golds] if golds else [()] * len(sides[0])
    systems = {
        f"{name}, {unit}s": list(
            map(Weighed, *sides, [of_pair[None, None] for of_pair in weights], links)
        )
        for name, weights in directions.items()
    }
    own = system.shown()
    # Of a model with one head, links may be made of the same weights.
    same = (
        np.array_equal(linked[None, None], pair.weights[:, :, : len(linked)])
        for linked, pair in zip(directions["forward"], own, strict=True)
    )
    if not all(same):
        systems["each layer and head, tokens"] = own
    texts = zip(*([sentence.text for sentence in side] for side in system.pairs), strict=True)
    write_viewer(file, list(texts), systems)
