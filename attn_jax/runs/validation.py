"""Validation during training: what is measured, and by which metric it is judged."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from attn_jax.config import Data, Experiment
from attn_jax.data.sentences import Example
from attn_jax.data.vocabulary import Vocabulary
from attn_jax.evaluation.assess import Assessment, assess
from attn_jax.evaluation.metrics import METRICS, in_words, ranking_metric
from attn_jax.models.seq2seq import Seq2Seq
from attn_jax.records import journal
from attn_jax.records.progress import Criterion
from attn_jax.training import processes
from attn_jax.translation.translator import Translator


def ranked_by(data: Data, examples: Sequence[Example]) -> Criterion:
    """The metric by which reports rank systems on such examples, the sides of which are cut."""
    references = [example.target.text for example in examples]
    metric = ranking_metric(in_words(data.target_level, references, data.bleu_tokenizer))
    return Criterion(metric, METRICS[metric])


def criterion_of(experiment: Experiment, examples: Sequence[Example]) -> Criterion:
    """The metric by which a run keeps its best checkpoint.

    Args:
      experiment: its `train.metric` may be `auto`.
      examples: of the validation, with sentences as their sides.
    """
    asked = experiment.train.metric
    if asked == "auto":
        return ranked_by(experiment.data, examples)
    return Criterion(asked, METRICS[asked])


def compared(experiment: Experiment, examples: Sequence[Example]) -> list[Criterion]:
    """The metrics that may disagree on the best validation: two usual ones, and that of the run."""
    usual = [Criterion("perplexity", METRICS["perplexity"]), ranked_by(experiment.data, examples)]
    return list(dict.fromkeys([*usual, criterion_of(experiment, examples)]))


def best_validation(workdir: Path) -> tuple[Criterion, dict[str, Any]]:
    """The best validation of a trained run, with the metric by which it is the best."""
    records = journal.read(workdir)
    metric = records[-1]["metric"]
    criterion = Criterion(metric, METRICS[metric])
    return criterion, max(records, key=criterion.goodness)


def validator(
    examples: Sequence[Example],
    source: Vocabulary,
    target: Vocabulary,
    data: Data,
    pictured: int,
) -> Callable[[Seq2Seq], Assessment]:
    """The function that measures a model on validation examples.

    Args:
      examples: of the validation, with sentences as their sides.
      source, target: the vocabularies.
      data: the options of the data.
      pictured: of how many sentences weights are kept.
    """

    def measured(model: Seq2Seq) -> Assessment:
        translator = Translator([model], source, target, data.max_length)
        assessment = assess(
            translator,
            examples,
            data.bleu_tokenizer,
            {},
            pictured,
            processes.share,
            processes.gathered,
        )
        if assessment.metrics["perplexity"] > 2 * len(
            target
        ):  # a model that has learned little yet is nearer
            print(
                "warning: the model is worse than one to which all tokens are equally probable; "
                "training may need a smaller train.learning_rate",
                file=sys.stderr,
            )
        return assessment

    return measured
