"""Tables that compare systems: views of frames as text, mean ± standard deviation over seeds."""

import functools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from attn_jax.attention.head_names import head_name
from attn_jax.evaluation.significance import interval
from attn_jax.reporting.comparisons import Comparison
from attn_jax.reporting.differences import about_ranks
from attn_jax.reporting.printing import (
    DASH,
    EXPLANATIONS,
    escaped,
    markdown,
    mean_and_deviation,
    p_cell,
)
from attn_jax.reporting.profiles import Profile
from attn_jax.reporting.runs import Run
from attn_jax.reporting.systems import TITLES, Systems, first_run, shown_metrics
from attn_jax.reporting.tuning import tuning

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
EXPLAINED = "Do the weights matter?"
ABOUT_EXPLANATIONS = (
    "Loss: by how many nats the log-probability of a token of the reference falls, in the mean, if "
    "the source token with its largest weight (mean over layers and heads) has no weight at its "
    "step, or another one, drawn at random, has none (Serrano and Smith 2019). A small loss does "
    "not show that the hidden token was not used: its neighbours' annotations and the decoder's "
    "state hold it too.",
    "Loss with equal weights: all weights of all steps are equal, in the model as it was trained "
    "(Wiegreffe and Pinter 2019). A large loss shows that this model relies on its weights, not "
    "that another would need any: for that, train one with model.score=mean. Points lost: the same "
    "for translations, by how much their BLEU falls, or for symbols and single words, the "
    "percentage that match exactly. Of a hundred sentences, it varies by some points.",
    "τ: Kendall's rank correlation of a target token's weights with the absolute values of "
    "gradient \N{MULTIPLICATION SIGN} input of the source tokens, mean over target tokens (Jain "
    "and Wallace 2019). A low one does not show that the weights are wrong: gradients are no "
    "ground truth either, and τ counts the order of small weights as much as that of large ones.",
)


class Titled(NamedTuple):
    """A table of texts, with what a reader needs to know of it."""

    title: str
    table: pd.DataFrame
    notes: Sequence[str]


def all_tables(comparison: Comparison) -> Iterator[Titled]:
    """The tables of a comparison; that of quality is first."""
    of_quality, of_cost = quality(comparison), cost(comparison)
    notes = [*about_quality(of_quality), *about_ranks(comparison.systems)]
    yield Titled("Quality", of_quality, notes)
    yield Titled("Cost", of_cost, [about_cost(of_cost)])
    if (tuned := tuning(comparison.systems)) is not None:
        yield Titled("Tuning", *tuned)
    if comparison.profile.tells_more:
        yield Titled("Length", length_table(comparison.profile), [])
    if (measured := explanation_table(comparison)) is not None:
        yield Titled(EXPLAINED, measured, ABOUT_EXPLANATIONS)


def as_markdown(comparison: Comparison) -> Iterator[str]:
    """The tables of a comparison as Markdown."""
    for title, table, notes in all_tables(comparison):
        yield f"**{title}**"
        yield markdown(table)
        yield from map(escaped, notes)


def over_seeds(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % confidence interval of the mean of a percentage over seeds.

    NaN for a single value, and for equal values, from which no deviation can be estimated.
    """
    if len(set(values)) == 1:
        return np.nan, np.nan
    low, high = interval(values)
    return max(low, 0.0), min(high, 100.0)


def interval_over_seeds(values: Sequence[float]) -> str:
    """The interval of `over_seeds` as text, a dash for none."""
    low, high = over_seeds(values)
    return DASH if np.isnan(low) else f"{low:.1f} to {high:.1f}"


def metric(values: pd.Series, digits: int = 2) -> str:
    """A metric of a system; empty if none of its runs has it."""
    known = values.dropna()
    if values.name == "alignment_shift":
        return ", ".join(f"{int(value):+d}" for value in sorted(set(known)))
    return mean_and_deviation(known, digits) if len(known) else ""


def _table(columns: dict[str, Any]) -> pd.DataFrame:
    """A table of texts, of columns by system."""
    return pd.DataFrame(columns).rename_axis("system").reset_index()


def quality(comparison: Comparison) -> pd.DataFrame:
    """The rank, p-value and metrics of each system on the test split; `ABOUT_P` says which p."""
    systems = comparison.runs.groupby("system", sort=False)
    measure, first = comparison.measure, systems.first()
    # What systems are ranked by stands beside their names.
    columns = {TITLES[measure]: systems[measure].agg(metric)}
    seeds = systems["seed"].count()  # none of another toolkit
    told = seeds.astype(str).where(seeds > 0, DASH)
    columns |= {"seeds": told, "rank": first["rank"].astype(str)}
    if first["p_vs_best"].notna().any():
        columns[P] = first["p_vs_best"].map(p_cell)
    if seeds.max() > 1:
        columns[f"95 % of {TITLES[measure]}"] = systems[measure].agg(interval_over_seeds)
    known = shown_metrics(comparison.systems)
    return _table(columns | {TITLES[name]: systems[name].agg(metric) for name in known})


def about_quality(quality: pd.DataFrame) -> list[str]:
    """Explanations of the columns of a table of quality that need one."""
    about = {
        P: ABOUT_P,
        TITLES["alignment_accuracy"]: ABOUT_ALIGNMENT,
        TITLES["sharpness"]: ABOUT_SHARPNESS,
    }
    return [text for title, text in about.items() if title in quality]


def cost(comparison: Comparison) -> pd.DataFrame:
    """The cost of each system, as explained by `about_cost`."""
    runs = comparison.runs.dropna(subset="parameters")  # without those of other toolkits
    in_words = first_run(comparison.systems).in_words
    systems = runs.groupby("system", sort=False)
    shown = {  # with their digits
        "steps": ("steps", 0),
        **({} if in_words else {TO_LEARN: ("steps_to_learn", 0)}),
        "steps/s": ("steps_per_second", 1),
        "target tokens/s": ("target_tokens_per_second", 0),
        "seconds": ("seconds", int(runs["seconds"].min() < 10)),
    }
    columns: dict[str, pd.Series] = {
        "parameters": systems["parameters"].first().map("{:,.0f}".format)
    }
    for title, (name, digits) in shown.items():
        columns[title] = systems[name].agg(functools.partial(mean_and_deviation, digits=digits))
    return _table(columns)


def about_cost(cost: pd.DataFrame) -> str:
    """Explanations of the columns of a table of cost."""
    return " ".join([ABOUT_COST, *([ABOUT_LEARNING] if TO_LEARN in cost else [])])


def explanation_table(comparison: Comparison) -> pd.DataFrame | None:
    """Whether the weights of systems matter, of those that measured it; None if none has."""
    if "weights_tokens" not in comparison.runs:
        return None
    runs = comparison.runs.dropna(subset="weights_tokens")
    systems = runs.groupby("system", sort=False)
    columns: dict[str, Any] = {"target tokens": systems["weights_tokens"].agg(_counts)}
    for name, title in EXPLANATIONS.items():
        column = f"weights_{name}"
        columns[title] = systems[column].agg(_explained) if column in runs else DASH
    return _table(columns)


def _counts(values: pd.Series) -> str:
    return ", ".join(f"{int(count):,}" for count in sorted(set(values)))


def _explained(values: pd.Series) -> str:
    return mean_and_deviation(values.dropna(), 3)


def length_table(profile: Profile) -> pd.DataFrame:
    """The first metric of a profile, for each system and range of source length."""
    name, systems = next(iter(profile.figures.items()))
    rows = [
        [label, *(mean_and_deviation(values, 1) for values in figures.T)]
        for label, figures in systems.items()
    ]
    return pd.DataFrame(rows, columns=[f"{name} by source tokens", *profile.ranges])


def head_table(run: Run) -> pd.DataFrame:
    """The sharpness of each layer and head of one run, and its alignment accuracy where known."""
    shown = {"sharpness": "{:.1f}", "alignment_accuracy": "{:.1f}", "alignment_shift": "{:+d}"}
    known = list(shown) if "alignment_accuracy" in run.metrics else ["sharpness"]
    rows = []
    for entry in run.evaluation["heads"]:
        cells = (shown[name].format(entry[name]) for name in known)
        rows.append([head_name(entry["layer"], entry["head"]), *cells])
    return pd.DataFrame(rows, columns=["", *(TITLES[name] for name in known)])


def outputs(systems: Systems, index: int) -> pd.DataFrame:
    """A test sentence with its reference, and what the first run of each system wrote."""
    first = first_run(systems).sentences[index]
    rows = [("source", first["source_text"]), ("reference", first["reference"])]
    rows += [(label, runs[0].sentences[index]["text"]) for label, runs in systems.items()]
    return pd.DataFrame(rows, columns=["test sentence", str(index + 1)])
