"""By which metrics systems are compared, and what each of them counts in a sentence."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from attn_jax.evaluation.edits import edit_distance
from attn_jax.evaluation.metrics import spaced
from attn_jax.evaluation.significance import resampled_ratio
from attn_jax.reporting.runs import Run
from attn_jax.reporting.systems import Systems, first_run, runs_of, same_tokens
from attn_jax.reporting.tables import shown_metrics

Counts = list[tuple[float, float]]  # of each sentence, a part and a whole
OF_TOKENS = ("perplexity", "token_accuracy", "symbol_error_rate")  # of one, not of other tokens
CLOSE = 1e-3  # of a metric as it was measured


def errors_in_words(run: Run) -> Counts:
    """Edits and words of the reference."""
    tokenizer = run.options["data.bleu_tokenizer"]
    said, wanted = (
        [text.split() for text in spaced([one[name] for one in run.sentences], tokenizer)]
        for name in ("text", "reference")
    )
    return [(edit_distance(*pair), len(pair[1])) for pair in zip(said, wanted, strict=True)]


def errors_in_symbols(run: Run) -> Counts:
    """Edits and tokens of the reference."""
    return [
        (edit_distance(one["text_tokens"], one["target"]), len(one["target"]))
        for one in run.sentences
    ]


def of_references(name: str) -> Callable[[Run], Counts]:
    """What is kept of each reference, and the number of its tokens with the end of the sentence."""

    def counts(run: Run) -> Counts:
        return [(one[name], len(one["target"]) + 1) for one in run.sentences if name in one]

    return counts


# What a metric counts, and its value for a ratio.
METRICS: dict[str, tuple[Callable[[Run], Counts], Callable[[np.ndarray], np.ndarray]]] = {
    "perplexity": (of_references("reference_log_probability"), lambda ratio: np.exp(-ratio)),
    "token_accuracy": (of_references("reference_correct"), lambda ratio: 100 * ratio),
    "word_error_rate": (errors_in_words, lambda ratio: 100 * ratio),
    "symbol_error_rate": (errors_in_symbols, lambda ratio: 100 * ratio),
}


def resampled(systems: Systems) -> Iterator[tuple[str, dict[Path, np.ndarray]]]:
    """The metrics by which all systems can be compared, that of the ranks first.

    Yields:
      The name of a metric, and its values for each run by its folder: on the test set and on
      bootstrap samples of it, [1 + samples]. Metrics whose counts do not give what the evaluations
      have measured are left out.
    """
    runs, measure = runs_of(systems), first_run(systems).measure
    yield measure, {run.folder: run.resampled for run in runs}
    for name in shown_metrics(systems):
        if name not in METRICS or (name in OF_TOKENS and not same_tokens(systems)):
            continue
        count, value = METRICS[name]
        counts = [count(run) for run in runs]
        if any(len(of_run) < len(runs[0].sentences) for of_run in counts):
            continue
        with np.errstate(over="ignore"):  # by a model that has diverged
            values = [value(resampled_ratio(np.array(of_run))) for of_run in counts]
        measured = [run.metrics[name] for run in runs]
        if not np.isfinite(values).all():
            continue
        if np.allclose([of_run[0] for of_run in values], measured, rtol=CLOSE, atol=CLOSE):
            yield name, {run.folder: of_run for run, of_run in zip(runs, values, strict=True)}
