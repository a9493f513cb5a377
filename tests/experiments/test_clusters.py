"""Sweeps on Slurm, submitit's processes and Ray that lose workers end as if left alone."""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from attn_jax.records import run_files
from attn_jax.runs.folder import steps_done
from attn_jax.runs.on_slurm import Slurm, Submitted
from attn_jax.runs.sweeping import join_sweep
from tests.experiments.programs import SMALL, works

pytestmark = pytest.mark.slow

FLAGS = [
    *SMALL,
    "--data.name=copy",
    "--train.steps=600",
    "--train.valid_every=300",
    "--train.save_every=1s",
]
SCRIPT = Path(__file__).parents[1] / "slurm.sh"


def grid(seeds):
    return "--grid.seed=" + ",".join(map(str, range(seeds)))


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """A sweep that was left alone, of as many runs as the largest of the others."""
    root = tmp_path_factory.mktemp("alone")
    works("sweep", f"--workdir={root}", *FLAGS, grid(6), "--jobs=2")
    return root


def equal(root, alone, seeds):
    """Whether runs have the same predictions, metrics and weights, bit for bit."""
    for seed in range(seeds):
        ours, theirs = root / f"seed={seed}", alone / f"seed={seed}"
        for file in (run_files.predictions, run_files.evaluation):
            assert file(ours, "test").read_text() == file(theirs, "test").read_text()
        with (
            np.load(run_files.alignments(ours, "test")) as our_weights,
            np.load(run_files.alignments(theirs, "test")) as their_weights,
        ):
            assert list(our_weights) == list(their_weights)
            for name in our_weights:
                np.testing.assert_array_equal(our_weights[name], their_weights[name])


@contextlib.contextmanager
def working(*arguments, **environment):
    """A sweep by a program, which must succeed; its processes end with the body."""
    process = subprocess.Popen(
        [sys.executable, "-m", "attn_jax", "sweep", *arguments], env=os.environ | environment
    )
    try:
        yield process
        assert process.wait() == 0
    finally:
        process.terminate()
        process.wait()


def wait_for(process, condition):
    """Waits until something holds while a sweep is at work."""
    while not condition():
        assert process.poll() is None
        time.sleep(0.1)


def answers(port):
    """Whether a server of this machine takes connections."""
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def who_makes(root, number):
    """The parent of the worker for a run: the process that an engine has started."""
    for status in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):
            words = (status.parent / "cmdline").read_text().split("\0")
            if f"--workdir={root}" in words and f"--only={number}" in words:
                return int(re.search(r"PPid:\s+(\d+)", status.read_text())[1])
    return None


def test_runs_on_ray_whose_worker_is_killed(tmp_path, alone, monkeypatch):
    pytest.importorskip("ray", reason="Ray is not installed")
    root, port = tmp_path / "sweep", "6399"
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    start = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--num-cpus=1"]
    start += ["--object-store-memory=100000000"]
    at = f"127.0.0.1:{port}"
    head = ["--head", "--node-ip-address=127.0.0.1", f"--port={port}", "--include-dashboard=false"]
    nodes = []
    try:
        for words in (head, [f"--address={at}"]):
            nodes.append(subprocess.Popen([*start, *words]))
            wait_for(nodes[0], lambda: answers(int(port)))
        flags = [f"--workdir={root}", *FLAGS, grid(4), "--executor=ray", f"--ray.address={at}"]
        with working(*flags) as process:
            wait_for(process, lambda: steps_done(root / "seed=0"))
            os.kill(who_makes(root, 1), signal.SIGKILL)
    finally:
        for node in reversed(nodes):
            node.terminate()
            node.wait()
    assert "resuming from step" in run_files.log(root, "seed=0").read_text()
    equal(root, alone, 4)


# The process with which submitit watches over a job ends by itself, some time after the job.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_runs_of_submitit_that_are_told_to_end(tmp_path, alone, monkeypatch):
    pytest.importorskip("submitit", reason="submitit is not installed")
    root, told, are_over = tmp_path / "sweep", [], Submitted.are_over
    works("sweep", f"--workdir={root}", *FLAGS, grid(4), "--only=4")  # it plans the others too

    def tell_one(submitted):
        if not told and steps_done(root / "seed=1"):
            os.kill(who_makes(root, 2), signal.SIGUSR2)
            told.append("seed=1")
        return are_over(submitted)

    monkeypatch.setattr(Submitted, "are_over", tell_one)
    join_sweep(root, executor=Slurm(cluster="local"))
    assert "resuming from step" in run_files.log(root, "seed=1").read_text()
    equal(root, alone, 4)


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """A cluster of one node."""
    missing = [name for name in ("slurmctld", "slurmd", "sbatch", "munged") if not where(name)]
    if missing or os.geteuid():
        pytest.skip(f"needs {', '.join(missing) or 'root'}: see tests/slurm.sh")
    pytest.importorskip("submitit", reason="submitit is not installed")
    subprocess.run([SCRIPT, "start", tmp_path / "slurm"], check=True)
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm" / "slurm.conf"))
    yield
    subprocess.run([SCRIPT, "stop", tmp_path / "slurm"], check=True)


def where(name):
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")


def test_jobs_of_slurm_of_which_one_is_told_to_end(tmp_path, alone, slurm):
    root = tmp_path / "sweep"
    with working(f"--workdir={root}", *FLAGS, grid(6), "--executor=slurm") as process:
        wait_for(process, lambda: steps_done(root / "seed=1"))
        asked = ["squeue", "--noheader", "--array", "--format=%i", "--states=running"]
        jobs = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()
        (job,) = [job for job in jobs if job.endswith("_1")]
        subprocess.run(["scancel", "--signal=USR2", job], check=False)
    assert "resuming from step" in run_files.log(root, "seed=1").read_text()
    equal(root, alone, 6)
