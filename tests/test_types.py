"""A type checker follows a call from `attend` to the equation of a score, and finds no error."""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def checked(*arguments):
    checker = shutil.which("pyrefly", path=str(Path(sys.executable).parent)) or "pyrefly"
    command = [checker, "check", f"--python-interpreter-path={sys.executable}", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def test_the_protocol_and_the_mechanisms_have_no_type_errors():
    done = checked()
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_checker_knows_what_a_score_takes(tmp_path):
    """Settings that do not exist, and a method with another signature, are errors."""
    own = tmp_path / "own.py"
    own.write_text(
        "from attn_jax import Score\n"
        "from attn_jax.attention.scores import Additive\n\n\n"
        "class Mine(Score):\n"
        "    sharpness: float = 2.0\n\n"
        "    def score(self, p, query):\n"
        "        return query\n\n\n"
        "Mine(sharp=1.0)\n"
        "Additive(64)\n"
    )
    done = checked("--preset=default", str(own))
    for error in ("bad-override", "unexpected-keyword", "unexpected-positional-argument"):
        assert error in done.stdout, done.stdout + done.stderr
