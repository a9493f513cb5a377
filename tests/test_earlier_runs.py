"""Runs that an earlier version has made still load, decode as they did, and go on.

Each archive holds a run of 20 steps on `reverse`. Those whose names end in -39 were made by commit
4b39e92, before issue 40; the others on 26 November 2026, before checkpoints had digests of options
and vocabularies. Some have the state of their optimiser, and can go on.
"""

import contextlib
import json
import tarfile
from pathlib import Path

import numpy as np
import pytest

import attn_jax
from attn_jax.records import journal, run_files
from attn_jax.training.checkpoint import Checkpoints
from tests.stages import full
from tests.test_damage import train_in

pytestmark = full

ARCHIVES = Path(__file__).parent / "earlier_runs"
OFTEN = ("rnnsearch", "luong", "transformer", "mocha", "mocha-39", "transformer-39", "average-39")
NAMES = [file.name.removesuffix(".tar.xz") for file in sorted(ARCHIVES.glob("*.tar.xz"))]
RUNS = [pytest.param(n, marks=[] if n in OFTEN else pytest.mark.slow) for n in NAMES]


def loading(name):
    """Expects the warning that a run without digests cannot be checked; others load without it."""
    if name.endswith("-39"):
        return contextlib.nullcontext()
    return pytest.warns(UserWarning, match="was written before digests were kept")


def unpacked(name, folder):
    with tarfile.open(ARCHIVES / f"{name}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder / name


@pytest.mark.parametrize("name", RUNS)
def test_a_run_of_an_earlier_version_decodes_as_it_did(name, tmp_path):
    run = unpacked(name, tmp_path)
    with loading(name):
        translator = attn_jax.load(run)
    lines = run_files.predictions(run, "test").read_text("utf-8").splitlines()
    sentences = list(map(json.loads, lines))
    with np.load(run_files.alignments(run, "test")) as arrays:
        weights = list(arrays.values())
    hypotheses = translator.translate([sentence["source_text"] for sentence in sentences])
    for hypothesis, sentence in zip(hypotheses, sentences, strict=True):
        assert hypothesis.text == sentence["text"]
        assert hypothesis.log_probability == pytest.approx(sentence["log_probability"], abs=1e-3)
    for hypothesis, before in zip(hypotheses, weights, strict=False):
        np.testing.assert_allclose(hypothesis.weights, before, atol=1e-4)


@pytest.mark.parametrize("name", ["rnnsearch", "luong", "rnnsearch-39", "average-39"])
def test_a_run_of_an_earlier_version_goes_on(name, tmp_path):
    run = unpacked(name, tmp_path)
    before = journal.read(run_files.journal(run))
    with loading(name):
        train_in(run, {"train.steps": 24})
    after = journal.read(run_files.journal(run))
    assert [line["step"] for line in after] == [10, 20, 24]
    assert after[:2] == before
    assert after[2]["valid_perplexity"] < before[1]["valid_perplexity"] * 1.02
    checkpoints = Checkpoints(run_files.checkpoints(run))
    assert "options" in checkpoints.facts(checkpoints.latest)
    attn_jax.load(run, "last")  # without a warning
