"""The page of a comparison: `report.md` and the figures beside it."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from attn_jax.files import write_whole
from attn_jax.reporting import drawings, tables
from attn_jax.reporting.about import about, separated, signatures
from attn_jax.reporting.answer import answer
from attn_jax.reporting.cautions import cautions
from attn_jax.reporting.drawings import Drawing, seeds_drawn
from attn_jax.reporting.explanations import ABOUT, TITLE, explanations
from attn_jax.reporting.profiles import Profile, by_length
from attn_jax.reporting.ranking import about_ranks, p_values, ranks
from attn_jax.reporting.runs import Run
from attn_jax.reporting.sentences import telling_sentences
from attn_jax.reporting.style import save
from attn_jax.reporting.systems import Systems, by_data, by_system, first_run, stem
from attn_jax.reporting.tuning import Tuning, tuning

OUTPUTS = 3  # sentences whose translations are shown


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
    tuning: Tuning | None  # if systems were tuned


def compare(runs: list[Run]) -> Iterator[Comparison]:
    """Compares the runs of each data set."""
    firsts: dict[str, Run] = {}
    for name, group in by_data(runs).items():
        first = firsts.setdefault(group[0].data, group[0])
        apart = "" if first is group[0] else separated(first, group[0])
        systems = by_system(group)
        places, differences = ranks(systems), p_values(systems)
        quality = tables.quality(systems, places, differences)
        shown = quality, tables.cost(systems), by_length(systems), tuning(systems)
        yield Comparison(name, apart, systems, places, differences, *shown)


def write_report(comparisons: Iterable[Comparison], folder: Path) -> Path:
    """Writes the page of some comparisons into a folder and returns its path."""
    parts = ["# Comparison of attention mechanisms"]
    for comparison in comparisons:
        parts += section(comparison, folder)
    page = folder / "report.md"
    write_whole(page, "\n\n".join(parts) + "\n")
    return page


def tuned(tuning: Tuning | None) -> list[str]:
    """What systems got in searches, as Markdown; nothing if they were not tuned."""
    return [tuning.table.markdown(), *map(tables.escaped, tuning.notes)] if tuning else []


def section(comparison: Comparison, folder: Path) -> list[str]:
    """The section of the page on one data set; writes its figures into the folder."""
    systems, profile = comparison.systems, comparison.profile
    first = first_run(systems)
    curves = drawings.of_quality(systems, profile)

    def picture(drawing: Drawing) -> str:
        path = f"{stem(comparison.name)}-{drawing.kind}.png"
        save(drawing.draw(), folder / path)
        caption = tables.escaped(drawing.caption)
        return f"![{caption}]({path})\n\n*{caption}*"

    parts = [
        f"## {tables.escaped(comparison.name)}",
        *filter(None, [tables.escaped(comparison.apart)]),
        *map(tables.escaped, answer(systems)),
        *about(systems, profile),
        comparison.quality.markdown(),
        *tables.about_quality(comparison.quality),
        *about_ranks(systems),
        *filter(None, ["\n".join(f"- {tables.escaped(line)}" for line in cautions(systems))]),
        comparison.cost.markdown(),
        tables.about_cost(comparison.cost),
        *tuned(comparison.tuning),
        *explained(systems),
        *signatures(first),
    ]
    for kind, drawing in curves.items():
        parts.append(picture(drawing))
        if kind == "length":
            parts.append(tables.by_length(profile).markdown())
    indices = telling_sentences(systems, OUTPUTS)
    order = ", first those on which systems differ most" if len(systems) > 1 else ""
    parts.append(f"Some test sentences{order} ({tables.escaped(seeds_drawn(systems))}):")
    parts += [tables.outputs(systems, index).markdown() for index in indices]
    parts += map(picture, drawings.one_sentence(systems, indices[0]))
    for run, drawing in drawings.all_heads(systems, indices[0]):
        parts += [picture(drawing), tables.heads(run).markdown(), tables.ABOUT_HEADS]
    return parts


def explained(systems: Systems) -> Iterator[str]:
    """Whether weights matter, where that was measured."""
    measured = explanations(systems)
    if measured:
        yield f"{TITLE} {' '.join(ABOUT)}"
        yield measured.markdown()
