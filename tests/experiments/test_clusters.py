"""Sweeps on Slurm, submitit's processes, Dask and Ray end as if left alone."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import attn_jax
from attn_jax import config
from attn_jax.records import run_files, states
from attn_jax.runs.folder import steps_done
from attn_jax.runs.slurm import Slurm
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


def example(heading):
    """The Python code of docs/running.md with a word in it, without its data."""
    text = (Path(__file__).parents[2] / "docs" / "running.md").read_text("utf-8")
    (code,) = [one for one in re.findall(r"```python\n(.*?)```", text, re.S) if heading in one]
    return code


def made_by_example(monkeypatch, heading, root, seeds):
    """Has an example of the docs make a sweep with these flags."""
    given = config.values(config.read(flag_file(root)))
    sweep = attn_jax.sweep
    grid = {"seed": list(range(seeds))}
    monkeypatch.setattr(
        attn_jax,
        "sweep",
        lambda *_, executor, **__: sweep(given, root, grid=grid, executor=executor),
    )
    # As a module of its own, whose classes pickle by value.
    exec(compile(example(heading), heading, "exec"), {"__name__": "__main__"})


def flag_file(root):
    file = root.with_suffix(".flags")
    small = Path(SMALL[0].partition("=")[2]).read_text()
    known = {line.partition("=")[0]: line for line in [*small.splitlines(), *FLAGS[1:]]}
    file.write_text("\n".join(line for line in known.values() if line.startswith("--")))
    return file


@pytest.mark.filterwarnings("ignore")  # of the libraries
@pytest.mark.parametrize("library", ["dask", "ray"])
def test_executors_of_others_make_the_runs(tmp_path, alone, monkeypatch, library):
    pytest.importorskip({"dask": "distributed"}.get(library, library))
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    made_by_example(monkeypatch, library, tmp_path / "sweep", 6)
    equal(tmp_path / "sweep", alone, 6)


# The process with which submitit watches over a job ends by itself, some time after the job.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_jobs_of_submitit_of_which_one_is_told_to_end(tmp_path, alone):
    pytest.importorskip("submitit", reason="submitit is not installed")
    root, told = tmp_path / "sweep", []
    given = config.values(config.read(flag_file(root)))

    def tell_one():
        while not steps_done(root / "seed=1"):
            time.sleep(0.1)
        pid = states.read(root / "seed=1")["pid"]
        status = Path("/proc", str(pid), "status").read_text()
        os.kill(int(re.search(r"PPid:\s+(\d+)", status)[1]), signal.SIGUSR2)
        told.append("seed=1")

    teller = threading.Thread(target=tell_one, daemon=True)
    teller.start()
    slurm = Slurm(folder=tmp_path / "jobs", cluster="local")
    attn_jax.sweep(given, root, grid={"seed": [0, 1, 2, 3]}, executor=slurm)
    assert told
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
        asked = ["squeue", "--noheader", "--format=%i", "--states=running"]
        jobs = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()
        job = sorted(jobs, key=int)[1]  # jobs are submitted in the order of the runs
        subprocess.run(["scancel", "--signal=USR2", job], check=False)
    assert "resuming from step" in run_files.log(root, "seed=1").read_text()
    equal(root, alone, 6)
