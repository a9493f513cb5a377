"""What TensorBoard shows of a run while it trains: metrics, alignments and options."""

import io
import numbers
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from tensorboardX import SummaryWriter

from attn_jax import config
from attn_jax.config import Experiment
from attn_jax.evaluation.assess import Assessment
from attn_jax.models.seq2seq import Seq2Seq
from attn_jax.records import run_files
from attn_jax.reporting.alignments import heat_map
from attn_jax.reporting.style import png
from attn_jax.reporting.tables import Table
from attn_jax.tokens import written
from attn_jax.training import processes

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
        rows = [[name, text] for name, text in config.texts(experiment).items()]
        self._writer.add_text("options", Table(["option", "value"], rows).markdown(), step)
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
        for weights, sentence in zip(
            self._assessment.weights, self._assessment.sentences, strict=False
        ):
            alignment = weights.mean(axis=(0, 1))[:LONGEST, :LONGEST]
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
