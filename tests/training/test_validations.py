"""What is said of validations."""

import math

from attn_jax.records.progress import Criterion, Progress
from attn_jax.training.validations import disagreement, record_of, summary, worsening


def records(*perplexities):
    return [
        {"step": 500 * nth, "valid_perplexity": value} for nth, value in enumerate(perplexities, 1)
    ]


def told(*perplexities):
    """After which validations something is said, counted from 1."""
    lines = records(*perplexities)
    return [nth for nth in range(1, len(lines) + 1) if worsening(lines[:nth])]


def test_validation_that_gets_worse_and_worse_is_told_once_for_each_row():
    said = worsening(records(18.2, 43.0, 113.0))
    assert "risen 2 times in a row, from 18.20 at step 500 to 113.00 at step 1500" in said
    for flag in ("model.dropout", "train.label_smoothing", "train.steps", "train.patience"):
        assert flag in said
    assert told(18.2, 43.0, 113.0, 200.0, 300.0) == [3]
    assert told(9.0, 5.0, 5.2, 5.4, 5.6) == [5]
    assert told(5.0, 6.0, 7.0, 6.0, 7.0, 8.0) == [3, 6]


def test_ordinary_fluctuation_is_not_told():
    assert told(5.0, 5.1, 5.0, 5.1, 5.2, 5.1) == []
    assert told(50.0, 80.0, 20.0, 30.0, 10.0) == []
    assert told(9.0, 9.0, 9.0) == []
    assert told() == []


def test_metrics_that_disagree_on_the_best_validation_are_named():
    by_perplexity, by_bleu = Criterion("perplexity", False), Criterion("bleu", True)
    lines = records(18.2, 43.0, 113.0)
    for line, bleu in zip(lines, (16.7, 17.0, 18.5), strict=True):
        line["valid_bleu"] = bleu
    assert disagreement(lines, [by_perplexity, by_bleu], "1500") == (
        "the best validation was step 500 by perplexity (18.20), step 1500 by bleu (18.50); "
        "step 1500 is kept (see train.metric)"
    )
    assert disagreement(lines[:1], [by_perplexity, by_bleu], "500") is None


def test_a_record_leaves_skipped_steps_out_of_the_loss():
    before = Progress(validated=6, rates=(1.0, 9.0))
    progress = before.trained([1.0, math.nan], 0.5, 1).trained([3.0], 0.5, 0)
    record = record_of(9, progress, {"perplexity": 2.0}, "perplexity")
    assert (record["train_loss"], record["skipped"]) == (2.0, 1)
    assert (record["steps_per_second"], record["seconds"]) == (1.0, 1.0)
    record = record_of(7, before.trained([math.nan], 0.5, 1), {"perplexity": 2.0}, "perplexity")
    assert "loss nan" in summary(record)
