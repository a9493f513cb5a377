"""TensorBoard's own reader reads what a run writes for it."""

import io

import numpy as np
import pytest
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from attn_jax.config import Experiment
from attn_jax.records import journal, run_files
from attn_jax.runs.validation import PICTURED, Events
from tests.stages import full
from tests.test_damage import train_in

pytestmark = full

OPTIONS = {
    "data.name": "copy",
    "data.examples": 200,
    "data.held_out": 10,
    "data.longest": 6,
    "model.embedding_size": 8,
    "model.annotation_size": 8,
    "model.hidden_size": 8,
    "model.readout_size": 8,
    "train.steps": 4,
    "train.valid_every": 2,
    "train.buckets": 1,
}


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
    """A run of four steps, to which two more were added."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    train_in(folder, OPTIONS)
    train_in(folder, {"train.steps": 6})
    return folder


@pytest.fixture(scope="module")
def read(workdir):
    return EventAccumulator(str(run_files.events(workdir))).Reload()


def test_scalars_are_those_of_the_journal(workdir, read):
    records = journal.read(workdir)
    assert [record["step"] for record in records] == [2, 4, 6]
    for tag, name in (
        ("train/loss", "train_loss"),
        ("valid/exact_match", "valid_exact_match"),
        ("cost/steps_per_second", "steps_per_second"),
    ):
        found = {event.step: event.value for event in read.Scalars(tag)}
        expected = {record["step"]: record[name] for record in records}
        assert found == pytest.approx(expected, rel=1e-5)


def test_alignments_are_pictures(read):
    for number in range(1, PICTURED + 1):
        images = read.Images(f"alignment/{number}")
        assert [image.step for image in images] == [2, 4, 6]
        pixels = np.asarray(Image.open(io.BytesIO(images[-1].encoded_image_string)).convert("L"))
        assert min(pixels.shape) > 100
        assert pixels.min() < 100 < 200 < pixels.max()  # weights and text on white


def test_options_are_a_text(read):
    (first, *_) = read.Tensors("options/text_summary")
    (text,) = first.tensor_proto.string_val
    assert "| data.name | copy |" in text.decode()
    assert "| train.steps | 4 |" in text.decode()


def test_what_was_done_in_vain_is_left_out(tmp_path):
    """A run that was killed after step 4 resumes from its checkpoint of step 2."""
    for step, values in ((0, {2: 1.0, 4: 2.0}), (2, {4: 3.0})):
        events = Events(tmp_path, Experiment(), step)
        for at, loss in values.items():
            events.write({"step": at, "train_loss": loss})
        events.close()
    read = EventAccumulator(str(run_files.events(tmp_path))).Reload()
    assert [(event.step, event.value) for event in read.Scalars("train/loss")] == [(2, 1), (4, 3)]
