"""What the validations of a run say: their records, and what a user should hear of them."""

import itertools
from collections.abc import Sequence
from typing import Any

from attn_jax.records.progress import Criterion, Progress

PERPLEXITY = "valid_perplexity"
RATES = ("steps_per_second", "target_tokens_per_second")
RISES = 2  # of perplexity in a row, before they are told
RISEN = 1.1  # the factor by which it rises in all: less is ordinary fluctuation


def record_of(
    step: int, progress: Progress, metrics: dict[str, float], metric: str
) -> dict[str, Any]:
    """The line of the journal on a validation.

    Args:
      step: steps done.
      progress: before the validation.
      metrics: of the validation.
      metric: the one that decides which validation is the best.
    """
    record = {
        "step": step,
        "train_loss": progress.train_loss(step),
        "skipped": progress.left_out,
    }
    record |= dict(zip(RATES, progress.rates, strict=True))
    record |= {f"valid_{name}": value for name, value in metrics.items()}
    return record | {"seconds": round(progress.seconds, 2), "metric": metric}


def summary(record: dict[str, Any]) -> str:
    """A line on a validation, for the terminal."""
    metric = record["metric"]
    return (
        f"step {record['step']}: loss {record['train_loss']:.3f}, validation {metric} "
        f"{record['valid_' + metric]:.2f}, {record['steps_per_second']:.1f} steps/s"
    )


def warnings(records: Sequence[dict[str, Any]]) -> list[str]:
    """What a user should hear after the last of some validations."""
    return list(filter(None, [skipped_steps(records[-1]), worsening(records)]))


def skipped_steps(record: dict[str, Any]) -> str | None:
    """A sentence on the steps that were skipped before a validation, if any were."""
    if not record["skipped"]:
        return None
    return (
        f"{record['skipped']} of the steps before step {record['step']} were skipped, since their "
        "loss or gradient was not finite (see train.skip)"
    )


def worsening(records: Sequence[dict[str, Any]]) -> str | None:
    """A sentence if perplexity has just got worse several times in a row.

    It is said once for each row, however long that becomes.
    """
    if not _has_risen(records) or _has_risen(records[:-1]):
        return None
    last, *before = _rising(records)
    first = before[-1]
    return (
        f"validation perplexity has risen {len(before)} times in a row, from "
        f"{first[PERPLEXITY]:.2f} at step {first['step']} to {last[PERPLEXITY]:.2f} at step "
        f"{last['step']}: the model may be learning its training pairs by heart. In a new run, "
        "model.dropout=0.3, train.label_smoothing=0.1 or fewer train.steps may help; in this "
        "one, train.patience=3 ends training once validation gets no better"
    )


def _rising(records: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
    """The last validations, latest first, of which each has a higher perplexity than the next."""
    latest_first = records[::-1]
    pairs = itertools.pairwise(latest_first)
    rises = itertools.takewhile(lambda p: p[0][PERPLEXITY] > p[1][PERPLEXITY], pairs)
    return latest_first[: 1 + len(list(rises))]


def _has_risen(records: Sequence[dict[str, Any]]) -> bool:
    last, *before = _rising(records)
    return len(before) >= RISES and last[PERPLEXITY] >= RISEN * before[-1][PERPLEXITY]


def diverged(record: dict[str, Any], best: int | None) -> str:
    """A sentence on a run whose validation perplexity is not finite.

    Args:
      record: of that validation.
      best: the step of its best checkpoint so far, if there is one.
    """
    kept = "" if best is None else f"; the best checkpoint, of step {best}, is kept"
    return (
        f"training has diverged: at step {record['step']} validation perplexity is not finite. "
        "Start again in a new folder with a lower train.learning_rate, a lower "
        f"train.clip_norm or more train.warmup_steps{kept}"
    )


def disagreement(
    records: Sequence[dict[str, Any]], criteria: Sequence[Criterion], kept: str
) -> str | None:
    """A sentence if metrics disagree on the best validation, else None.

    Args:
      records: all validations.
      criteria: the metrics.
      kept: the name of the checkpoint that is kept as the best.
    """
    best = {criterion: max(records, key=criterion.goodness) for criterion in criteria}
    if len({record["step"] for record in best.values()}) == 1:
        return None
    told = ", ".join(
        f"step {record['step']} by {by.metric} ({by.value(record):.2f})"
        for by, record in best.items()
    )
    return f"the best validation was {told}; step {kept} is kept (see train.metric)"
