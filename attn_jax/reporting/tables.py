"""Tables that compare systems, each figure as mean ± standard deviation over seeds."""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from attn_jax.attention.head_names import head_name
from attn_jax.evaluation.significance import interval
from attn_jax.reporting.profiles import Profile
from attn_jax.reporting.runs import Run
from attn_jax.reporting.systems import Systems, first_run
from attn_jax.tokens import BETWEEN

TITLES = {
    "perplexity": "ppl",
    "token_accuracy": "token %",
    "exact_match": "exact %",
    "bleu": "BLEU",
    "chrf": "chrF",
    "ter": "TER",
    "word_error_rate": "word err. %",
    "symbol_error_rate": "symbol err. %",
    "alignment_accuracy": "aligned %",
    "alignment_shift": "shift",
    "sharpness": "sharpness %",
}
# Metrics shown only for targets in words, and only for symbols or single words.
OF_TEXT = ("token_accuracy", "bleu", "chrf", "ter", "word_error_rate")
OF_SYMBOLS = ("exact_match", "symbol_error_rate")


P = "p vs best"
ABOUT_P = (
    "p vs best: how probable a difference from the best system, the first, of at least the size "
    "found would be if both were equally good, over the sentences of all seeds that they share."
)
ABOUT_ALIGNMENT = (
    "Aligned: how often the largest weight is on the source position that a target token comes "
    "from, at the best constant shift, in target steps."
)
ABOUT_SHARPNESS = (
    "Sharpness: the largest weight of a target token on a source position, mean over tokens, heads "
    "and layers. It does not say whether that position is the right one. Weights that need not sum "
    "to 1, as those of gmm, can be above 100 %."
)
ABOUT_HEADS = "Sharpness of a head: its largest weight of a target token, mean over tokens."
ABOUT_COST = (
    "Rates are those of training before the last validation. Seconds are those of all training "
    "steps, at the rate before each validation. Both leave out validation and, where possible, "
    "compilation. Runs of a sweep that trained at the same time shared the cores: alone, each "
    "would have been faster."
)
TO_LEARN = "to 99 %"
ABOUT_LEARNING = "To 99 %: steps until a validation had 99 % exact match."


def escaped(text: str) -> str:
    """A text as Markdown that shows all its signs; underscores within words do that anyway."""
    text = text.replace(BETWEEN, "\N{EM SPACE}")  # between two sources
    text = re.sub(r"[\x00-\x1f\x7f\x85\u2028\u2029]", "\N{REPLACEMENT CHARACTER}", text)
    return re.sub(r"[\\`*<&|\[\]~$]|(?<!\w)_|_(?!\w)", r"\\\g<0>", text)


class Table(NamedTuple):
    """A heading and rows of cells; the first cell of a row is its name."""

    heading: list[str]
    rows: list[list[str]]

    def markdown(self, cell: Callable[[str], str] = escaped) -> str:
        """The table as Markdown, with columns of numbers aligned to the right.

        Args:
          cell: makes Markdown of a cell; by default, it shows all signs as they are.
        """
        columns = zip(*self.rows, strict=True)
        rule = ["---:" if all(map(is_figure, column)) else "---" for column in columns]
        lines = [list(map(cell, row)) for row in [self.heading, *self.rows]]
        lines.insert(1, rule)
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def is_figure(cell: str) -> bool:
    """Whether a cell holds numbers, a dash in place of one, or nothing; "2 May 1998" is text."""
    return not re.search(r"[^\W\d_]", re.sub(r"\b(to|inf)\b", "", cell))


def mean_and_deviation(values: Sequence[float], digits: int = 2) -> str:
    """`mean ± sd`, with the sample standard deviation; a single value without a deviation.

    A dash if a value is NaN, which stands for none.
    """
    if np.isnan(values).any():
        return "–"  # noqa: RUF001
    if len(values) == 1 or np.isinf(values).any():  # an infinite mean has no deviation
        return f"{np.mean(values):.{digits}f}"
    return f"{np.mean(values):.{digits}f} ± {np.std(values, ddof=1):.{digits}f}"


def in_seconds(seconds: float) -> str:
    """A time in whole seconds; one of less than ten also in tenths."""
    return f"{seconds:,.0f}" if seconds >= 10 else f"{seconds:.1f}"


def p_cell(p: float) -> str:
    """A p-value with three digits; a dash for NaN, which stands for none."""
    return "<0.001" if p < 0.0005 else mean_and_deviation([p], 3)


def interval_over_seeds(values: Sequence[float]) -> str:
    """The 95 % confidence interval of the mean of a percentage over seeds.

    A dash for a single value, and for equal values, from which no deviation can be estimated.
    """
    if len(set(values)) == 1:
        return "–"  # noqa: RUF001
    low, high = interval(values)
    return f"{max(low, 0):.1f} to {min(high, 100):.1f}"


def shown_metrics(systems: Systems) -> list[str]:
    """The metrics that a table of quality has, in order."""
    measured = {name for runs in systems.values() for run in runs for name in run.metrics}
    hidden = {*(OF_SYMBOLS if first_run(systems).in_words else OF_TEXT)}
    if "alignment_accuracy" in measured:
        hidden.add("sharpness")
    return [name for name in TITLES if name in measured - hidden]


def metric_cell(name: str, runs: Sequence[Run]) -> str:
    """A metric of a system in a table of quality; empty if none of its runs has it."""
    values = [run.metrics[name] for run in runs if name in run.metrics]
    if name == "alignment_shift":
        return ", ".join(f"{value:+d}" for value in sorted(set(values)))
    return mean_and_deviation(values) if values else ""


def quality(systems: Systems, ranks: Sequence[int], p_values: Sequence[float]) -> Table:
    """The rank, p-value and metrics of each system on the test split; `ABOUT_P` says which p."""
    first = first_run(systems)
    known = shown_metrics(systems)
    seeded = any(len(runs) > 1 for runs in systems.values())
    compared = not np.isnan(p_values).all()
    rows = []
    for (label, runs), rank, p in zip(systems.items(), ranks, p_values, strict=True):
        row = [label, str(len(runs)), str(rank)]
        if compared:
            row.append(p_cell(p))
        if seeded:
            row.append(interval_over_seeds([run.quality for run in runs]))
        rows.append(row + [metric_cell(name, runs) for name in known])
    heading = ["system", "seeds", "rank"]
    heading += [P] if compared else []
    heading += [f"95 % of {TITLES[first.measure]}"] if seeded else []
    return Table([*heading, *(TITLES[name] for name in known)], rows)


def about_quality(quality: Table) -> list[str]:
    """Explanations of the columns of a table of quality that need one."""
    about = {
        P: ABOUT_P,
        TITLES["alignment_accuracy"]: ABOUT_ALIGNMENT,
        TITLES["sharpness"]: ABOUT_SHARPNESS,
    }
    return [text for title, text in about.items() if title in quality.heading]


def by_length(profile: Profile) -> Table:
    """The first metric of a profile, for each system and range of source length."""
    name, systems = next(iter(profile.figures.items()))
    rows = [
        [label, *(mean_and_deviation(values, 1) for values in figures.T)]
        for label, figures in systems.items()
    ]
    return Table([f"{name} by source tokens", *profile.ranges], rows)


def heads(run: Run) -> Table:
    """The sharpness of each layer and head of one run, and its alignment accuracy where known."""
    gold = "alignment_accuracy" in run.metrics
    rows = []
    for entry in run.evaluation["heads"]:
        row = [head_name(entry["layer"], entry["head"]), f"{entry['sharpness']:.1f}"]
        if gold:
            row += [f"{entry['alignment_accuracy']:.1f}", f"{entry['alignment_shift']:+d}"]
        rows.append(row)
    titles = ("sharpness", *(("alignment_accuracy", "alignment_shift") if gold else ()))
    return Table(["", *(TITLES[name] for name in titles)], rows)


def outputs(systems: Systems, index: int) -> Table:
    """A test sentence with its reference, and what the first run of each system wrote."""
    first = first_run(systems).sentences[index]
    rows = [["source", first["source_text"]], ["reference", first["reference"]]]
    rows += [[label, runs[0].sentences[index]["text"]] for label, runs in systems.items()]
    return Table(["test sentence", str(index + 1)], rows)


def steps_to_learn(runs: list[Run]) -> str:
    """Steps until the first validation with at least 99 % exact match; a dash if a run has none.

    Meant for symbols and single words: sentences do not reach this.
    """
    firsts = []
    for run in runs:
        learned = [line["step"] for line in run.journal if line["valid_exact_match"] >= 99]
        if not learned:
            return "–"  # noqa: RUF001
        firsts.append(learned[0])
    return mean_and_deviation(firsts, 0)


def about_cost(cost: Table) -> str:
    """Explanations of the columns of a table of cost."""
    return " ".join([ABOUT_COST, *([ABOUT_LEARNING] if TO_LEARN in cost.heading else [])])


def cost(systems: Systems) -> Table:
    """The cost of each system, as explained by `about_cost`."""
    in_words = first_run(systems).in_words
    learned = [] if in_words else [TO_LEARN]
    in_tenths = any(run.seconds < 10 for runs in systems.values() for run in runs)
    heading = ["system", "parameters", "steps", *learned, "steps/s", "target tokens/s", "seconds"]
    rows = []
    for label, runs in systems.items():
        last = [run.journal[-1] for run in runs]
        rows.append(
            [
                label,
                f"{runs[0].evaluation['parameters']:,}",
                mean_and_deviation([line["step"] for line in last], 0),
                *([] if in_words else [steps_to_learn(runs)]),
                mean_and_deviation([line["steps_per_second"] for line in last], 1),
                mean_and_deviation([line["target_tokens_per_second"] for line in last], 0),
                mean_and_deviation([run.seconds for run in runs], int(in_tenths)),
            ]
        )
    return Table(heading, rows)
