"""How systems differ, how certain that is, and the ranks that follow from it."""

import itertools
from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd

from attn_jax.edits import edit_distance
from attn_jax.evaluation.metrics import spaced
from attn_jax.evaluation.significance import (
    FEWEST,
    bootstrapped,
    exchanged_p,
    holm,
    resampled_ratio,
)
from attn_jax.reporting.runs import Run
from attn_jax.reporting.systems import Systems, first_run, runs_of, same_tokens, shown_metrics

LEVEL = 0.05  # p-values below it count as a difference
ABOUT = (
    "The difference is that of the seeds that both systems have (of their first runs, if there are "
    "none). Its 95 % are over the test sentences (bootstrap), and so do not tell how much other "
    "seeds would differ. So is p, except that of exact match, which is of approximate "
    "randomisation. Holm: p-values adjusted for the comparison of all systems with one baseline, "
    "so that at most 5 % of such tables have any false difference below 0.05."
)
_RULE = (
    "A new rank begins with a system whose {} differs from that of every system of the rank above: "
    "it is worse in each seed that they share (in their first runs, if they share none), and over "
    "the sentences of all these seeds together ({}, p < 0.05). So the first and the last system "
    "of a rank may differ."
)
# By which test systems are said to differ in a metric.
TESTS = {
    "bleu": ("BLEU", "paired bootstrap, two-sided, 10,000 samples"),
    "exact_match": ("exact match", "approximate randomisation, two-sided, 10,000 draws"),
}
COLUMNS = ["metric", "first", "second", "seeds", "difference", "low", "high", "each_seed", "p"]

Shares = list[tuple[float, float]]  # of each sentence, a part and a whole
OF_TOKENS = ("perplexity", "token_accuracy", "symbol_error_rate")  # of one, not of other tokens
CLOSE = 1e-3  # of a metric as it was measured


def differences(systems: Systems) -> pd.DataFrame:
    """How each pair of systems differs in each metric, first in that of the ranks.

    Returns:
      A row for each metric and pair: `metric`; `first` and `second`, the better system and the
      other; `seeds` that both have, or 1, of their first runs, if they share none; the `difference`
      of the means over these seeds, the first minus the second, with `low` and `high`, its 95 %
      over test sentences; `each_seed`, whether the first is better in all of them by the metric of
      the ranks; `p`, and `p_holm`, adjusted for all pairs of systems. NaN stands where there are
      too few sentences.
    """
    sentences, rows = len(first_run(systems).sentences), []
    for metric, values in resampled(systems) if len(systems) > 1 else ():
        for first, second in itertools.combinations(systems, 2):
            pairs = paired(systems[first], systems[second])
            sampled = np.mean([values[id(one)] - values[id(other)] for one, other in pairs], axis=0)
            low, high = np.quantile(sampled[1:], (0.025, 0.975))
            if metric == "exact_match":
                # Of the counts over all seeds, in which the same sentences are swapped.
                hits = sum(int(one.counts.sum() - other.counts.sum()) for one, other in pairs)
                sums = np.sum([one.exchanged - other.exchanged for one, other in pairs], axis=0)
                p = exchanged_p(hits, sums)
            else:
                p = bootstrapped(sampled, sentences)
            each_seed = all(one.quality > other.quality for one, other in pairs)
            known = (low, high) if sentences >= FEWEST else (np.nan, np.nan)
            rows.append((metric, first, second, len(pairs), sampled[0], *known, each_seed, p))
    found = pd.DataFrame(rows, columns=COLUMNS)
    return found.assign(p_holm=_adjusted(found, ["metric"]))


def _adjusted(found: pd.DataFrame, families: list[str]) -> pd.Series:
    """The p-values of differences, adjusted over each family."""
    return found.groupby(families)["p"].transform(lambda p: holm(p.tolist()))


def from_each(found: pd.DataFrame) -> pd.DataFrame:
    """Differences in both directions: of each `system` from each `baseline`.

    `holm` are p-values adjusted for the comparison of all systems with one baseline.
    """
    of_first = found.rename(columns={"first": "system", "second": "baseline"})
    of_second = found.rename(columns={"first": "baseline", "second": "system"}).assign(
        difference=-found["difference"], low=-found["high"], high=-found["low"]
    )
    both = pd.concat([of_first, of_second], ignore_index=True)
    return both.assign(holm=_adjusted(both, ["metric", "baseline"]))


def of_ranks(found: pd.DataFrame, systems: Systems) -> pd.DataFrame:
    """The differences in the metric by which systems are ranked."""
    return found[found["metric"] == first_run(systems).measure]


def ranks(found: pd.DataFrame, systems: Systems) -> dict[str, int]:
    """The rank of each system, best first.

    A new rank begins with a system that is significantly worse than every one of the rank above,
    and in each seed.
    """
    ranked = of_ranks(found, systems)
    worse = ranked[ranked["each_seed"] & (ranked["p"] < LEVEL)]
    told = set(zip(worse["first"], worse["second"], strict=True))
    places: dict[str, int] = {}
    above: list[str] = []
    for place, label in enumerate(systems, start=1):
        begins = all((other, label) in told for other in above)
        rank = place if begins else places[above[-1]]
        above = [label] if begins else [*above, label]
        places[label] = rank
    return places


def about_ranks(systems: Systems) -> list[str]:
    """How the systems are ranked, or that their test set is too small for that; not of one."""
    if len(systems) == 1:
        return []
    why = too_few(systems)
    return [
        f"{why}, so all share a rank." if why else _RULE.format(*TESTS[first_run(systems).measure])
    ]


def too_few(systems: Systems) -> str:
    """That and why the test sentences are too few for any difference; empty if they are enough."""
    first = first_run(systems)
    sentences = len(first.sentences)
    lowest = 2.0 ** (1 - sentences)  # p-value of `exchanged_p`
    if first.in_words and sentences < FEWEST:
        why = f"a p-value of BLEU needs at least {FEWEST}"
    elif not first.in_words and lowest >= LEVEL:
        why = f"p cannot be below {lowest:.2g}"
    else:
        return ""
    return f"{sentences} test sentences are too few to tell systems apart ({why})"


def paired(first: list[Run], second: list[Run]) -> list[tuple[Run, Run]]:
    """The runs of two systems for the seeds that both have, or else the first run of each.

    What another toolkit has written is compared with all seeds.
    """
    shared = [
        (one, other)
        for one in first
        for other in second
        if one.seed == other.seed or not (one.trained and other.trained)
    ]
    return shared or [(first[0], second[0])]


def words_of(run: Run) -> list[tuple[list[str], list[str]]]:
    """The words that a run wrote, and those of the reference, of each sentence."""
    tokenizer = run.options["data.bleu_tokenizer"]
    said, wanted = (
        [text.split() for text in spaced([one[name] for one in run.sentences], tokenizer)]
        for name in ("text", "reference")
    )
    return list(zip(said, wanted, strict=True))


def errors_in_words(run: Run) -> Shares:
    """Edits and words of the reference."""
    return [(edit_distance(*pair), len(pair[1])) for pair in words_of(run)]


def errors_in_symbols(run: Run) -> Shares:
    """Edits and tokens of the reference."""
    return [
        (edit_distance(one["text_tokens"], one["target"]), len(one["target"]))
        for one in run.sentences
    ]


def of_references(name: str) -> Callable[[Run], Shares]:
    """What is kept of each reference, and the number of its tokens with the end of the sentence."""

    def counts(run: Run) -> Shares:
        return [(one[name], len(one["target"]) + 1) for one in run.sentences if name in one]

    return counts


# What a metric counts, and its value for a ratio.
COUNTED: dict[str, tuple[Callable[[Run], Shares], Callable[[np.ndarray], np.ndarray]]] = {
    "perplexity": (of_references("reference_log_probability"), lambda ratio: np.exp(-ratio)),
    "token_accuracy": (of_references("reference_correct"), lambda ratio: 100 * ratio),
    "word_error_rate": (errors_in_words, lambda ratio: 100 * ratio),
    "symbol_error_rate": (errors_in_symbols, lambda ratio: 100 * ratio),
}


def resampled(systems: Systems) -> Iterator[tuple[str, dict[int, np.ndarray]]]:
    """The metrics by which all systems can be compared, that of the ranks first.

    Yields:
      The name of a metric, and its values for each run by its `id`: on the test set and on
      bootstrap samples of it, [1 + samples]. Metrics whose counts do not give what the evaluations
      have measured are left out.
    """
    runs, measure = runs_of(systems), first_run(systems).measure
    yield measure, {id(run): run.resampled for run in runs}
    for name in shown_metrics(systems):
        if name not in COUNTED or (name in OF_TOKENS and not same_tokens(systems)):
            continue
        count, value = COUNTED[name]
        counts = [count(run) for run in runs]
        if any(len(of_run) < len(runs[0].sentences) for of_run in counts):
            continue
        with np.errstate(over="ignore"):  # by a model that has diverged
            values = [value(resampled_ratio(np.array(of_run))) for of_run in counts]
        measured = [run.metrics[name] for run in runs]
        if not np.isfinite(values).all():
            continue
        if np.allclose([of_run[0] for of_run in values], measured, rtol=CLOSE, atol=CLOSE):
            yield name, {id(run): of_run for run, of_run in zip(runs, values, strict=True)}
