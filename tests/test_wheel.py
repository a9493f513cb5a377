"""The wheel alone: it brings the command, the programs, the presets and a trained model."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.experiments.programs import SMALL
from tests.stages import full

pytestmark = full

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    """Runs the command of the wheel, installed apart from this checkout, in an empty folder."""
    built, installed = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    build = [*pip, "wheel", "--no-deps", "--no-build-isolation", f"--wheel-dir={built}", ROOT]
    subprocess.run(build, check=True)
    (wheel,) = built.glob("*.whl")
    subprocess.run([*pip, "install", "--no-deps", f"--target={installed}", wheel], check=True)
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0] for name in names if ".dist-info" not in name} == {"attn_jax"}

    def run(*words, cwd):
        script = installed / "bin" / "attn_jax"
        env = os.environ | {"PYTHONPATH": str(installed)}
        return subprocess.run([script, *words], cwd=cwd, env=env, capture_output=True, text=True)

    return run


def test_the_command_trains_and_reports(command, tmp_path):
    trained = command("train", "--workdir=runs/one", *SMALL, cwd=tmp_path)
    assert trained.returncode == 0, trained.stderr
    reported = command("report", "--workdir=runs", cwd=tmp_path)
    assert reported.returncode == 0, reported.stderr
    assert "| additive" in (tmp_path / "runs" / "report.md").read_text()


def test_the_command_sweeps_a_preset(command, tmp_path):
    grid = "--grid.model.score=dot,last"
    swept = command(
        "sweep", "--workdir=runs", "--flagfile=reverse.flags", *SMALL, grid, cwd=tmp_path
    )
    assert swept.returncode == 0, swept.stderr
    assert (tmp_path / "runs" / "model.score=dot" / "evaluation.test.json").is_file()


def test_the_command_translates_with_the_model_that_comes_along(command, tmp_path):
    (tmp_path / "dates.txt").write_text("mardi 3 mars 1998\n")
    read = command("translate", "--workdir=dates", "--input=dates.txt", cwd=tmp_path)
    assert read.stdout == "1998-03-03\n", read.stderr


def test_the_command_refuses_in_one_sentence(command, tmp_path):
    refused = command("train", "--workdir=run", "--model.heads=0", cwd=tmp_path)
    assert refused.returncode == 2
    assert refused.stderr == "error: --model.heads must be at least 1, got 0\n"
