"""`report.md` and its figures, each of which can also be drawn for a paper."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from attn_jax.drawing import alignments
from attn_jax.drawing.beside import beside
from attn_jax.drawing.heads import heads
from attn_jax.drawing.style import ONE_COLUMN, TWO_COLUMNS, Page, Picture, save
from attn_jax.files import write_whole
from attn_jax.reporting import curves, forest, tables
from attn_jax.reporting.about import about, listed, of_each
from attn_jax.reporting.answer import answer
from attn_jax.reporting.cautions import cautions
from attn_jax.reporting.comparisons import Comparison
from attn_jax.reporting.printing import escaped, markdown
from attn_jax.reporting.runs import Run
from attn_jax.reporting.sentences import panel_of, reference_of
from attn_jax.reporting.systems import Systems, stem
from attn_jax.reporting.telling import MOST_DRAWN, telling_sentences

MOST_BARS = 20  # most steps drawn as bars, each about as high as two rows of a heat map
OUTPUTS = 3  # sentences whose translations are shown
SIZES = TWO_COLUMNS, ONE_COLUMN  # of figures in a paper


class Drawing(NamedTuple):
    """A figure of a comparison."""

    kind: str  # in the name of its file
    draw: Callable[..., Picture]  # takes `page`
    caption: str
    columns: tuple[Page, ...] = SIZES  # of a paper, on which it can be read


def of_quality(comparison: Comparison) -> Iterator[Drawing]:
    """Figures of quality, as far as there is something to draw."""
    systems, profile = comparison.systems, comparison.profile
    if len(systems) > 1:
        yield of_scores(comparison)
    several = any(len(runs) > 1 for runs in systems.values())
    bands = " (bands: lowest to highest over seeds)" if several else ""
    shared = ", at the steps that all seeds reached" if several else ""
    for kind, title, charts, remark in (
        ("length", "Quality by source length", curves.lengths(profile), ""),
        ("learning", "Learning curves", curves.learning(systems), shared),
        ("position", "Accuracy by source position", curves.positions(systems), ""),
    ):
        if found := list(charts):
            draw = partial(curves.draw, title, found)
            yield Drawing(kind, draw, f"{title}{remark}{bands}")


def of_scores(comparison: Comparison) -> Drawing:
    """The final scores of several systems."""
    told, measure = forest.scores(comparison), comparison.measure
    fitting = [page for page in SIZES if forest.is_legible(told, page)]
    return Drawing(
        "scores",
        partial(forest.draw, told, measure),
        f"Scores on the test set ({forest.MEASURES[measure]}), best system first. "
        f"{forest.about(told)} The vertical line is at the mean of {next(iter(told))}",
        tuple(fitting) or (TWO_COLUMNS,),
    )


def one_sentence(systems: Systems, index: int) -> Iterator[Drawing]:
    """Figures of one sentence: under the best system, also step by step, and under all systems.

    The best system is that with attention.
    """
    panels = {label: panel_of(runs[0], index) for label, runs in systems.items()}
    # The weights of a control show nothing of the sentence.
    attending = [label for label, (run, *_) in systems.items() if not run.is_control]
    label = (attending or list(systems))[0]
    panel, which = panels[label], systems[label][0].which
    weights, source, target = panel.alignment, panel.source, panel.written
    fitting = [page for page in SIZES if alignments.is_legible(page, source, target)]
    columns = tuple(fitting) or (TWO_COLUMNS,)
    yield Drawing(
        "alignment",
        partial(alignments.heat_map, weights, source, target, label),
        f"What {label} attends to as it writes each token ({which}{panel.cut(MOST_DRAWN)})",
        columns,
    )
    yield Drawing(
        "steps",
        partial(alignments.step_bars, weights[:MOST_BARS], source, target[:MOST_BARS], label),
        f"The same weights as bars, step by step ({label}{panel.cut(MOST_BARS)})",
        columns,
    )
    if len(panels) > 1:
        # Otherwise one system that does not end would leave the panels of all others empty.
        longest = max(len(panel.reference) for panel in panels.values())
        most = min(MOST_DRAWN, 2 * (longest + 1))
        is_cut = any(panel.cut(most) for panel in panels.values())
        cut = f"; at most the first {most} steps" if is_cut else ""
        shorter = {
            label: panel._replace(alignment=panel.alignment[:most])
            for label, panel in panels.items()
        }
        others = [label for label, (run, *_) in systems.items() if not reference_of(run, index)]
        unmarked = f" (not of {listed(others)}, whose tokens are others)" if others else ""
        caption = (
            "The same sentence under each system; what lies beyond its end is blue. Errors as its "
            "error rate counts them: tokens that are wrong or too many are red, and a red line "
            f"stands where tokens are missing{unmarked} ({seeds_drawn(systems)}{cut})"
        )
        yield Drawing("beside", partial(beside, shorter), caption, (TWO_COLUMNS,))


def seeds_drawn(systems: Systems) -> str:
    """The seed of the run that is drawn for each system."""
    return of_each((label, run.which) for label, (run, *_) in systems.items())


def all_heads(systems: Systems, index: int) -> Iterator[tuple[Run, Drawing]]:
    """One sentence under each layer and head of the systems that have several; and their runs."""
    for number, (label, (run, *_)) in enumerate(systems.items(), start=1):
        panel, weights = panel_of(run, index), run.weights[index][:, :, :MOST_DRAWN]
        if weights.shape[0] * weights.shape[1] > 1:
            known = accuracies(run)
            told = ", with its alignment accuracy" if known else ""
            which = f"{run.which}{panel.cut(MOST_DRAWN)}"
            yield (
                run,
                Drawing(
                    f"heads-{number}",
                    partial(heads, weights, panel.source, panel.written, known, label),
                    f"Each layer and head of {label} ({which}){told}",
                    (TWO_COLUMNS,),
                ),
            )


def accuracies(run: Run) -> dict[tuple[int, int], str]:
    """The alignment accuracy of each layer and head, where known, as a suffix of its title."""
    return {
        (entry["layer"], entry["head"]): f": {entry['alignment_accuracy']:.0f}%"
        for entry in run.evaluation["heads"]
        if "alignment_accuracy" in entry
    }


def write_report(comparisons: Iterable[Comparison], folder: Path, sentence: str = "") -> Path:
    """Writes the page of some comparisons into a folder and returns its path.

    Args:
      comparisons: of some runs.
      folder: where to write.
      sentence: the one in figures, as `asked_for` finds it.
    """
    parts = ["# Comparison of attention mechanisms"]
    for comparison in comparisons:
        parts += section(comparison, folder, sentence)
    page = folder / "report.md"
    write_whole(page, "\n\n".join(parts) + "\n")
    return page


def section(comparison: Comparison, folder: Path, sentence: str) -> list[str]:
    """The section of the page on one data set; writes its figures into the folder."""
    systems, profile = comparison.systems, comparison.profile

    def picture(drawing: Drawing) -> str:
        path = f"{stem(comparison.name)}-{drawing.kind}.png"
        save(drawing.draw(), folder / path)
        caption = escaped(drawing.caption)
        return f"![{caption}]({path})\n\n*{caption}*"

    parts = [
        f"## {escaped(comparison.name)}",
        *map(escaped, [*filter(None, [comparison.apart]), *answer(comparison)]),
        *filter(None, ["\n".join(f"- {escaped(line)}" for line in cautions(systems))]),
        *about(systems, profile, escaped, "`{}`".format),
        *tables.as_markdown(comparison),
        *map(picture, of_quality(comparison)),
    ]
    indices = telling_sentences(systems, OUTPUTS, sentence)
    order = ", first those on which systems differ most" if len(systems) > 1 else ""
    parts.append(f"Some test sentences{order} ({escaped(seeds_drawn(systems))}):")
    parts += [markdown(tables.outputs(systems, index)) for index in indices]
    parts += map(picture, one_sentence(systems, indices[0]))
    for run, drawing in all_heads(systems, indices[0]):
        parts += [picture(drawing), markdown(tables.head_table(run)), tables.ABOUT_HEADS]
    return parts
