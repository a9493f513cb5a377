"""What goes into a paper: `report.tex` with tables, figures as PDF and SVG, and `pairs.csv`."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from attn_jax.drawing.style import TWO_COLUMNS, save
from attn_jax.evaluation.metrics import METRICS
from attn_jax.files import write_whole
from attn_jax.reporting import tables
from attn_jax.reporting.about import searches
from attn_jax.reporting.comparisons import Comparison, all_pairs, write_csv
from attn_jax.reporting.differences import OF_TOKENS, TESTS, from_each, of_ranks, too_few
from attn_jax.reporting.printing import DASH, WIDE, bold, floating, in_seconds, latex, tabular
from attn_jax.reporting.report_md import Drawing, all_heads, of_quality, one_sentence
from attn_jax.reporting.systems import (
    TITLES,
    first_run,
    runs_of,
    same_tokens,
    shown_metrics,
    stem,
    trained,
)
from attn_jax.reporting.telling import telling_sentences

FIGURES = "pdf", "svg"
FORMATS = "latex", *FIGURES
LARGER_IS_BETTER = METRICS | {"ter": False, "alignment_accuracy": True}
MARKS = {0.001: "***", 0.01: "**", 0.05: "*"}  # of p-values below these
BASELINE = "\N{DAGGER}"
HEAD = (
    "% Tables and figures of a comparison, for \\input in a paper that has\n"
    "% \\usepackage[T1]{fontenc}\\usepackage{booktabs,graphicx}; from another folder, also\n"
    "% \\graphicspath{{paper/}}. Names with signs of other scripts need LuaLaTeX."
)


def write_paper(
    comparisons: Sequence[Comparison],
    folder: Path,
    formats: Collection[str],
    baseline: str = "",
    sentence: str = "",
) -> list[Path]:
    """Writes what goes into a paper.

    Args:
      comparisons: of some runs.
      folder: where to write; it is made if there is something to write.
      formats: of `FORMATS`; `latex` makes `report.tex`, with the figures if there are PDFs, and
        `pairs.csv`.
      baseline: the system from which others are marked to differ; by default, and where there is
        none of that name, the best.
      sentence: the one in figures, as `asked_for` finds it.

    Returns:
      The files.
    """
    if not formats:
        return []
    folder.mkdir(exist_ok=True)
    kinds = [kind for kind in FIGURES if kind in formats]
    written = [
        path
        for comparison in comparisons
        for drawing in _drawings(comparison, sentence)
        for path in _save(comparison, drawing, folder, kinds)
    ]
    if "latex" not in formats:
        return written
    parts = [HEAD]
    for comparison in comparisons:
        parts += tables_of(comparison, baseline)
        if "pdf" in formats:
            parts += figures_of(comparison, sentence)
    page, pairs = folder / "report.tex", folder / "pairs.csv"
    write_whole(page, "\n\n".join(parts) + "\n")
    write_csv(all_pairs(comparisons), pairs, index=False)
    return [page, pairs, *written]


def _drawings(comparison: Comparison, sentence: str) -> Iterator[Drawing]:
    systems = comparison.systems
    yield from of_quality(comparison)
    index = telling_sentences(systems, 1, sentence)[0]
    yield from one_sentence(systems, index)
    yield from (drawing for _, drawing in all_heads(systems, index))


def _save(
    comparison: Comparison, drawing: Drawing, folder: Path, kinds: Collection[str]
) -> Iterator[Path]:
    """Writes a figure for each width on which it can be read; yields the files."""
    for page in drawing.columns if kinds else ():
        figure = drawing.draw(page=page)
        for kind in kinds:
            path = folder / f"{stem(comparison.name)}-{drawing.kind}-{page.name}.{kind}"
            save(figure, path)
            yield path


def figures_of(comparison: Comparison, sentence: str) -> Iterator[str]:
    """The figures of a comparison, each for the fewest columns on which it can be read."""
    name = stem(comparison.name)
    for drawing in _drawings(comparison, sentence):
        page = min(drawing.columns, key=lambda page: page.width)
        content = rf"\includegraphics{{{name}-{drawing.kind}-{page.name}.pdf}}"
        label = f"fig:{name}-{drawing.kind}"
        yield floating("figure", content, f"{drawing.caption}.", label, page == TWO_COLUMNS)


def tables_of(comparison: Comparison, baseline: str) -> Iterator[str]:
    """The tables of a comparison: quality, cost and, if there are several, ranges of length."""
    systems, name = comparison.systems, stem(comparison.name)
    reference = baseline if baseline in systems else next(iter(systems))
    cost = tables.cost(comparison)
    told = {
        "quality": (_quality(comparison, reference), _about_quality(comparison, reference)),
        "cost": (tabular(cost, cost.map(latex)), f"Cost. {tables.about_cost(cost)}"),
    }
    if comparison.profile.tells_more:
        told["length"] = _by_length(comparison)
    for kind, (content, caption) in told.items():
        wide = content.splitlines()[2].count(" & ") >= WIDE
        text = f"{comparison.name}. {caption}"
        yield floating("table", content, text, f"tab:{name}-{kind}", wide)


def _quality(comparison: Comparison, reference: str) -> str:
    """The metrics of each system, the best in bold, with marks for significance."""
    names = shown_metrics(comparison.systems)
    plain = tables.quality(comparison)
    seeds = ["seeds"] if {*plain["seeds"]} - {DASH, "1"} else []
    plain = plain[["system", *seeds, *(TITLES[name] for name in names)]]
    cells = plain.map(latex)
    means = comparison.runs.groupby("system", sort=False)[names].mean()
    for name in names:
        title = TITLES[name]
        cells[title] = _with_best(plain[title], means[name], _direction(name, comparison))
    cells[TITLES[comparison.measure]] += _marks(comparison, reference)
    return tabular(plain, cells)


def _direction(name: str, comparison: Comparison) -> int:
    """1 if a metric is the better the larger it is, -1 if the smaller; 0 if it has no best."""
    if name not in LARGER_IS_BETTER or len(comparison.systems) < 2:
        return 0
    if name in OF_TOKENS and not same_tokens(comparison.systems):
        return 0
    return 1 if LARGER_IS_BETTER[name] else -1


def _with_best(plain: Iterable[str], means: Iterable[float], direction: int) -> list[str]:
    """Cells in LaTeX, of which the best, and those that show the same mean, are bold."""
    finite = [mean for mean in means if np.isfinite(mean)]
    if not direction or not finite:
        return list(map(latex, plain))
    best = max(finite, key=lambda mean: direction * mean)
    shown = {cell.split(" ± ")[0] for cell, mean in zip(plain, means, strict=True) if mean == best}
    return [bold(cell) if cell.split(" ± ")[0] in shown else latex(cell) for cell in plain]


def _marks(comparison: Comparison, reference: str) -> list[str]:
    """The mark of each system: that of the baseline, and those of systems that differ from it."""
    found = from_each(of_ranks(comparison.differences, comparison.systems))
    p_values = found[found["baseline"] == reference].set_index("system")["holm"]
    marks = {reference: r"$^{\dagger}$"} if len(p_values) else {}
    for label, p in p_values.items():
        mark = next((mark for level, mark in MARKS.items() if p < level), "")
        marks[str(label)] = f"$^{{{mark}}}$" if mark else ""
    return [marks.get(label, "") for label in comparison.systems]


def _about_quality(comparison: Comparison, reference: str) -> str:
    """The caption of the table of quality: the test, seeds and budget."""
    systems = comparison.systems
    first, runs = first_run(systems), runs_of(systems)
    seeds = sorted({run.seed for run in runs if run.seed is not None})
    over = f"mean ± standard deviation over seeds {', '.join(map(str, seeds))}"
    told = [
        f"Quality on {first.evaluation['sentences']:,} test sentences"
        + (f"; {over}." if len(seeds) > 1 else f", seed {seeds[0]}.")
    ]
    if len(systems) > 1:
        told += ["The best is bold.", _about_marks(comparison, reference)]
    return " ".join([*told, _budget(comparison), searches(systems)])


def _about_marks(comparison: Comparison, reference: str) -> str:
    systems = comparison.systems
    if why := too_few(systems):
        return f"No difference is marked: {why}."
    metric, test = TESTS[comparison.measure]
    levels = ", ".join(f"{mark} p < {level}" for level, mark in sorted(MARKS.items(), reverse=True))
    others = len(systems) - 1
    adjusted = f"; Holm-adjusted for {others} comparisons" if others > 1 else ""
    return (
        f"{metric[0].upper()}{metric[1:]}: {levels} of the difference from {BASELINE} {reference} "
        f"({test}, over the sentences of all shared seeds{adjusted})."
    )


def _budget(comparison: Comparison) -> str:
    """How long the runs were trained, and on what."""
    runs = runs_of(trained(comparison.systems))
    steps = _range([run.journal[-1]["step"] for run in runs], "{:,}".format)
    seconds = _range([run.seconds for run in runs], in_seconds)
    kinds = dict.fromkeys(
        of_session["devices"]["kind"] for run in runs for of_session in run.sessions
    )
    device = f" on {', '.join(kinds)}" if kinds else ""
    return f"Budget of a run: {steps} steps, {seconds} seconds{device}."


def _range(values: Sequence[float], told: Callable[[float], str]) -> str:
    low, high = told(min(values)), told(max(values))
    return low if low == high else f"{low} to {high}"


def _by_length(comparison: Comparison) -> tuple[str, str]:
    """The table of the first metric by source length, the best of each range in bold; a caption."""
    plain = tables.length_table(comparison.profile)
    title, figures = next(iter(comparison.profile.figures.items()))
    plain = plain.rename(columns={plain.columns[0]: "source tokens"})
    direction = 1 if len(comparison.systems) > 1 else 0
    cells = plain.map(latex)
    for nth, name in enumerate(comparison.profile.ranges):
        means = [values[:, nth].mean() for values in figures.values()]
        cells[name] = _with_best(plain[name], means, direction)
    return tabular(plain, cells), f"{title[0].upper()}{title[1:]} by source length in tokens."
