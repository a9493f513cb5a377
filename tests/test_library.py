"""Calls from Python leave the files that the programs leave, byte for byte but for times."""

import csv
import json
import re

import jax
import numpy as np
import pytest

import attn_jax
from tests.experiments.programs import SMALL, works
from tests.reporting.test_page import data_of
from tests.stages import full

pytestmark = full

OPTIONS = {
    "data.examples": 300,
    "data.held_out": 20,
    "data.longest": 6,
    "model.embedding_size": 8,
    "model.annotation_size": 16,
    "model.hidden_size": 16,
    "model.readout_size": 8,
    "train.steps": 20,
    "train.valid_every": 10,
    "train.buckets": 1,
}  # those of SMALL
# What depends on the clock, digests of it among them.
TIMES = {"steps_per_second", "target_tokens_per_second", "seconds", "digest"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A sweep with its report, and one run, as programs and as calls leave them."""
    programs, calls = tmp_path_factory.mktemp("programs"), tmp_path_factory.mktemp("calls")
    grid = "--grid.model.score=dot,last"
    works("sweep", f"--workdir={programs / 'sweep'}", *SMALL, grid, "--jobs=1")
    works("report", f"--workdir={programs / 'sweep'}")
    works("train", f"--workdir={programs / 'one'}", *SMALL)
    scores = {"model.score": ["dot", "last"]}
    attn_jax.sweep(OPTIONS, calls / "sweep", grid=scores, jobs=1)
    attn_jax.report(calls / "sweep")
    attn_jax.train(OPTIONS, calls / "one")
    return programs, calls


def files(folder):
    """The files but those whose names are drawn anew, and those that tell when."""
    found = {file.relative_to(folder): file for file in folder.rglob("*") if file.is_file()}
    return {
        name: file
        for name, file in found.items()
        if not {"checkpoints", "events", "state.json"} & {*name.parts}
        and file.name != "run.json"
        and file.suffix != ".log"
    }


def without_times(file):
    """The content of a file without times and rates."""
    if file.name == "metrics.jsonl":
        lines = map(json.loads, file.read_text().splitlines())
        return [{k: v for k, v in line.items() if k not in TIMES} for line in lines]
    if file.name == "manifest.json":  # digests are of files with times, too
        manifest = json.loads(file.read_text())
        return list(manifest["files"]), list(manifest["checkpoints"])
    if file.name == "runs.csv":
        with file.open() as lines:
            return [
                {k: v for k, v in row.items() if k not in TIMES} for row in csv.DictReader(lines)
            ]
    if file.name == "plan.json":  # the order of options is that in which they were given
        return json.loads(file.read_text())["runs"]
    if file.name == "report.md":
        times = r"( \| [\d,.]+){3} \|$|^Of these, .* trains in the shortest time.*\n\n"
        return re.sub(times, "", file.read_text(), flags=re.MULTILINE)
    if file.name == "report.html":  # speed is in its tables, and seconds are in its curves
        return [data["splits"] for data in data_of(file.read_text())["sets"]]
    return file.read_bytes()


def test_calls_leave_the_files_of_programs(folders):
    of_programs, of_calls = map(files, folders)
    assert of_programs.keys() == of_calls.keys()
    assert len(of_programs) > 30
    for name, file in of_programs.items():
        assert without_times(file) == without_times(of_calls[name]), name


@pytest.mark.parametrize("run", ["one", "sweep/model.score=dot"])
def test_calls_train_the_parameters_of_programs(folders, run):
    one, other = (attn_jax.load(folder / run).models for folder in folders)
    for ours, theirs in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_array_equal(ours, theirs)
