"""A type checker sees what the package promises, and finds what goes against it.

That the package itself has no type errors, `./launch.sh test` checks before it runs the tests.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PART = """
from attn_jax import Score
from attn_jax.attention.scores import Additive


class Mine(Score):
    sharpness: float = 2.0

    def score(self, p, query):
        return query


Mine(sharp=1.0)
Additive(64)
Additive(units="many")
"""
PROGRAM = """
import attn_jax

attn_jax.train({"train.steps": 100})
attn_jax.load("runs/mine").translat(["a"])
attn_jax.teach
Wrong = attn_jax.Model(heads="two")
"""


def found(tmp_path, text):
    """The output of the checker for a module that uses the package."""
    own = tmp_path / "own.py"
    own.write_text(text)
    checker = shutil.which("pyrefly", path=str(Path(sys.executable).parent)) or "pyrefly"
    command = [checker, "check", f"--python-interpreter-path={sys.executable}", "--preset=default"]
    return subprocess.run([*command, str(own)], cwd=ROOT, capture_output=True, text=True).stdout


@pytest.mark.parametrize(
    ("text", "errors"),
    [
        pytest.param(
            PART,
            {"bad-override": 1, "unexpected-keyword": 1, "bad-argument-count": 1}
            | {"bad-argument-type": 1},
            id="part",
        ),
        pytest.param(
            PROGRAM,
            {"missing-argument": 1, "missing-attribute": 2, "bad-argument-type": 1},
            id="program",
        ),
    ],
)
def test_the_checker_finds_wrong_uses_of_the_public_names_and_no_others(tmp_path, text, errors):
    told = found(tmp_path, text)
    assert {error: told.count(f"[{error}]") for error in errors} == errors, told
    assert told.count("ERROR") == sum(errors.values()), told


def test_settings_have_their_defaults(tmp_path):
    assert "ERROR" not in found(tmp_path, "from attn_jax.attention.scores import *\n\nAdditive()\n")
