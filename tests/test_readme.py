"""The README's examples run as they stand there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.experiments.test_programs import SMALL

README = (Path(__file__).parents[1] / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


def block(text):
    (found,) = (code for code in BLOCKS if text in code)
    return found


def run(*arguments, cwd):
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("user")


def test_a_score_of_ones_own_then_its_use(folder):
    (folder / "my_score.py").write_text(block("def similar"))
    flags = [*SMALL, "--model.score=my_score:similar"]
    run("-m", "experiments.train", "--workdir=runs/mine", *flags, cwd=folder)
    assert (folder / "runs" / "mine" / "evaluation.test.json").is_file()
    run("-c", block("attn_jax.load"), cwd=folder)


def test_attention_alone(folder):
    run("-c", block("attend_step"), cwd=folder)


def test_every_program_that_is_named_exists():
    programs = set(re.findall(r"\./launch\.sh ([a-z]+)", README)) - {"test"}
    folder = Path(__file__).parents[1] / "experiments"
    assert programs == {"train", "sweep", "report", "translate", "evaluate", "align", "catalogue"}
    assert all((folder / f"{name}.py").is_file() for name in programs)
    for file in re.findall(r"--flagfile=(experiments/[\w./-]+)", README):
        assert (folder.parent / file).is_file()
