"""Validation during training: what is measured, which metric judges it, and event files of it."""

import io
import numbers
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from tensorboardX import SummaryWriter

from attn_jax import config
from attn_jax.config import Data, Experiment
from attn_jax.data.sentences import Example
from attn_jax.data.vocabulary import Vocabulary
from attn_jax.drawing.alignments import heat_map
from attn_jax.drawing.style import png
from attn_jax.evaluation.assess import Assessment, assess
from attn_jax.evaluation.metrics import METRICS, in_words, ranking_metric
from attn_jax.models.seq2seq import Seq2Seq
from attn_jax.records import journal, run_files
from attn_jax.records.progress import Criterion
from attn_jax.reporting.printing import escaped
from attn_jax.tokens import written
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
            share=processes.share,
            gathered=processes.gathered,
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


PICTURED = 1  # validation sentences whose alignments are drawn, which takes about 0.2 s for each
LONGEST = 60  # tokens of a side that are drawn


class Events:
    """Writes event files of TensorBoard beside the journal of a run.

    Args:
      workdir: the folder of the run.
      experiment: its options.
      step: the number of steps done; TensorBoard leaves out what earlier files have beyond it.
    """

    def __init__(self, workdir: Path, experiment: Experiment, step: int):
        folder = run_files.events(workdir)
        # The suffix is for two sessions in one second, whose files would have the same name.
        self._writer = SummaryWriter(
            str(folder),
            purge_step=step + 1,
            filename_suffix=f".{step}",
            write_to_disk=processes.is_first(),
        )
        rows = [f"| {name} | {escaped(text)} |" for name, text in config.texts(experiment).items()]
        table = "\n".join(["| option | value |", "| --- | --- |", *rows])
        self._writer.add_text("options", table, step)
        self._assessment: Assessment | None = None

    def measured(
        self, assess: Callable[[Seq2Seq], Assessment]
    ) -> Callable[[Seq2Seq], dict[str, float]]:
        """The metrics of what a function measures; `write` draws its first sentences."""

        def metrics(model: Seq2Seq) -> dict[str, float]:
            self._assessment = assess(model)
            return self._assessment.metrics

        return metrics

    def write(self, record: dict[str, Any]) -> None:
        """Writes a record of the journal, and the alignments that were measured last."""
        step = record["step"]
        for name, value in record.items():
            if isinstance(value, numbers.Real) and name != "step":
                self._writer.add_scalar(tag_of(name), float(value), step)
        for number, image in enumerate(self._pictures(), start=1):
            self._writer.add_image(f"alignment/{number}", image, step, dataformats="HWC")
        self._writer.flush()

    def _pictures(self) -> Iterator[np.ndarray]:
        """Heat maps as pixels [height, width, 3], their titles the translations."""
        if self._assessment is None:
            return
        for place, pictured in self._assessment.pictured.items():
            sentence = self._assessment.sentences[place]
            alignment = pictured.hypothesis.weights.mean(axis=(0, 1))[:LONGEST, :LONGEST]
            steps, width = alignment.shape
            target = written(sentence["hypothesis"], steps)
            figure = heat_map(alignment, sentence["source"][:width], target, sentence["text"])
            yield np.asarray(Image.open(io.BytesIO(png(figure))).convert("RGB"))

    def close(self) -> None:
        """Ends the file."""
        self._writer.close()


def tag_of(name: str) -> str:
    """The tag of a figure of the journal, by which TensorBoard groups: `valid/bleu`."""
    group, _, rest = name.partition("_")
    return f"{group}/{rest}" if group in ("train", "valid") and rest else f"cost/{name}"
