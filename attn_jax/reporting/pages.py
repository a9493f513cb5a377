"""The page of a comparison: `report.md` and the figures beside it."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from matplotlib.figure import Figure

from attn_jax.files import write_whole
from attn_jax.reporting import alignments, curves, tables
from attn_jax.reporting.about import about, of_each, separated, signatures
from attn_jax.reporting.beside import Panel, beside
from attn_jax.reporting.profiles import Profile, by_length
from attn_jax.reporting.ranking import about_ranks, p_values, ranks
from attn_jax.reporting.runs import Run
from attn_jax.reporting.sentences import MOST_STEPS, sentence_of, telling_sentences
from attn_jax.reporting.style import save
from attn_jax.reporting.systems import Systems, by_data, by_system, first_run, runs_of, stem

OUTPUTS = 3  # sentences whose translations are shown
MOST_BARS = 20  # most steps drawn as bars, each about as high as two rows of a heat map


class Comparison(NamedTuple):
    """The systems of one data set, and their ranks, p-values, tables and profile."""

    name: str
    apart: str  # why its runs are apart from others of the same name, or nothing
    systems: Systems
    ranks: list[int]  # of each system
    p_values: list[float]  # of each system, of its difference from the best
    quality: tables.Table
    cost: tables.Table
    profile: Profile  # by source length


def compare(runs: list[Run]) -> Iterator[Comparison]:
    """Compares the runs of each data set."""
    firsts: dict[str, Run] = {}
    for name, group in by_data(runs).items():
        first = firsts.setdefault(group[0].data, group[0])
        apart = "" if first is group[0] else separated(first, group[0])
        systems = by_system(group)
        places, differences = ranks(systems), p_values(systems)
        quality = tables.quality(systems, places, differences)
        shown = quality, tables.cost(systems), by_length(systems)
        yield Comparison(name, apart, systems, places, differences, *shown)


def write_report(comparisons: Iterable[Comparison], folder: Path) -> Path:
    """Writes the page of some comparisons into a folder and returns its path."""
    parts = ["# Comparison of attention mechanisms"]
    for comparison in comparisons:
        parts += section(comparison, folder)
    page = folder / "report.md"
    write_whole(page, "\n\n".join(parts) + "\n")
    return page


def section(comparison: Comparison, folder: Path) -> list[str]:
    """The section of the page on one data set; writes its figures into the folder."""
    systems, profile = comparison.systems, comparison.profile
    first = first_run(systems)
    known = {label: runs for label, runs in systems.items() if all(run.has_gold for run in runs)}
    several = any(len(runs) > 1 for runs in systems.values())
    bands = " (bands: lowest to highest over seeds)" if several else ""

    def picture(kind: str, figure: Figure, caption: str) -> str:
        path, caption = f"{stem(comparison.name)}-{kind}.png", tables.escaped(caption)
        save(figure, folder / path)
        return f"![{caption}]({path})\n\n*{caption}*"

    parts = [
        f"## {tables.escaped(comparison.name)}",
        *filter(None, [tables.escaped(comparison.apart)]),
        *about(systems, profile),
        comparison.quality.markdown(),
        *tables.about_quality(comparison.quality),
        *about_ranks(systems),
        comparison.cost.markdown(),
        tables.about_cost(comparison.cost),
        *signatures(first),
    ]
    if profile.tells_more:
        drawn = curves.quality_by_length(profile)
        parts.append(picture("length", drawn, f"Quality by source length{bands}"))
        parts.append(tables.by_length(profile).markdown())
    if any(len(run.journal) > 1 for run in runs_of(systems)):
        drawn = curves.learning_curves(systems)
        shared = ", at the steps that all seeds reached" if several else ""
        parts.append(picture("learning", drawn, f"Learning curves{shared}{bands}"))
    if known:
        drawn = curves.accuracy_by_position(known)
        parts.append(picture("position", drawn, f"Accuracy by source position{bands}"))
    indices = telling_sentences(systems, OUTPUTS)
    order = ", first those on which systems differ most" if len(systems) > 1 else ""
    parts.append(f"Some test sentences{order} ({tables.escaped(seeds_drawn(systems))}):")
    parts += [tables.outputs(systems, index).markdown() for index in indices]
    parts += one_sentence(systems, indices[0], picture)
    return [*parts, *all_heads(systems, indices[0], picture)]


def one_sentence(systems: Systems, index: int, picture: Callable) -> Iterator[str]:
    """Figures of one sentence: under the best system, also step by step, and under all systems.

    The best system is that with attention.
    """
    panels, drawn = {}, {}
    for label, runs in systems.items():
        sentence = drawn[label] = sentence_of(runs[0], index)
        reference = runs[0].sentences[index]["target"]
        alignment = sentence.weights.mean(axis=(0, 1))
        panels[label] = Panel(alignment, sentence.source, sentence.target, reference)
    # The weights of a control show nothing of the sentence.
    attending = [label for label, (run, *_) in systems.items() if not run.is_control]
    label = (attending or list(systems))[0]
    panel, sentence = panels[label], drawn[label]
    yield picture(
        "alignment",
        alignments.heat_map(panel.alignment, panel.source, panel.written),
        f"What {label} attends to as it writes each token (seed {systems[label][0].seed}"
        f"{sentence.cut(MOST_STEPS)})",
    )
    yield picture(
        "steps",
        alignments.step_bars(panel.alignment[:MOST_BARS], panel.source, panel.written[:MOST_BARS]),
        f"The same weights as bars, step by step ({label}{sentence.cut(MOST_BARS)})",
    )
    if len(panels) > 1:
        # Otherwise one system that does not end would leave the panels of all others empty.
        longest = max(len(panel.reference) for panel in panels.values())
        most = min(MOST_STEPS, 2 * (longest + 1))
        is_cut = any(sentence.cut(most) for sentence in drawn.values())
        cut = f"; at most the first {most} steps" if is_cut else ""
        panels = {
            label: panel._replace(alignment=panel.alignment[:most])
            for label, panel in panels.items()
        }
        caption = (
            "The same sentence under each system; what lies beyond its end is blue. Errors as its "
            "error rate counts them: tokens that are wrong or too many are red, and a red line "
            f"stands where tokens are missing ({seeds_drawn(systems)}{cut})"
        )
        yield picture("beside", beside(panels), caption)


def seeds_drawn(systems: Systems) -> str:
    """The seed of the run that is drawn for each system."""
    return of_each((label, f"seed {run.seed}") for label, (run, *_) in systems.items())


def all_heads(systems: Systems, index: int, picture: Callable) -> Iterator[str]:
    """Layers and heads of the systems that have several: a figure of one sentence, and a table."""
    for number, (label, (run, *_)) in enumerate(systems.items(), start=1):
        sentence = sentence_of(run, index)
        if sentence.weights[..., 0, 0].size > 1:
            known = accuracies(run)
            drawn = alignments.heads(sentence.weights, sentence.source, sentence.written, known)
            percentages = ", with its alignment accuracy" if known else ""
            seed = f"seed {run.seed}{sentence.cut(MOST_STEPS)}"
            caption = f"Each layer and head of {label} ({seed}){percentages}"
            yield picture(f"heads-{number}", drawn, caption)
            yield tables.heads(run).markdown()
            yield tables.ABOUT_HEADS


def accuracies(run: Run) -> dict[tuple[int, int], str]:
    """The alignment accuracy of each layer and head, where known, as a suffix of its title."""
    return {
        (entry["layer"], entry["head"]): f": {entry['alignment_accuracy']:.0f}%"
        for entry in run.evaluation["heads"]
        if "alignment_accuracy" in entry
    }
