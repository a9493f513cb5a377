"""Where `launch.sh` and programs look for modules, the user's last, and when they install."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from attn_jax.__main__ import ENVIRONMENT
from tests.experiments.programs import SMALL
from tests.stages import full

pytestmark = full

ROOT = Path(__file__).parents[2]
SCORE = "def own(query, keys):\n    return keys @ query\n"


@pytest.fixture
def checkout(tmp_path):
    """A checkout of this project in which all is installed, since it uses this Python."""
    root = tmp_path / "checkout"
    (root / ".venv" / "bin").mkdir(parents=True)
    for name in ("attn_jax", "experiments", "pyproject.toml"):
        (root / name).symlink_to(ROOT / name)
    shutil.copy(ROOT / "launch.sh", root)
    python = root / ".venv" / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    content = (root / "pyproject.toml").read_bytes()
    known = subprocess.run(["cksum"], input=content, capture_output=True).stdout.decode().strip()
    (root / ".venv" / ".installed").write_text(f"{known} cuda\n")
    return root


def launch(root, *arguments, cwd):
    """The exit status and the output of `launch.sh`, in a folder where modules are not Python's."""
    spread = () if cwd == root else ("orbax", "google")  # packages in several places
    for name in ("random", "numpy", "signal", "copy", *spread):
        (cwd / f"{name}.py").write_text(f"raise SystemExit('executed {name}')\n" + SCORE)
    command = [root / "launch.sh", *arguments]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_the_users_modules_are_found_but_not_in_place_of_others(checkout, tmp_path):
    """In a sweep, so that its processes are tried too, and in a folder with a colon in its name."""
    folder = tmp_path / "a:b"
    folder.mkdir()
    (folder / "my_score.py").write_text(SCORE)
    status, said = launch(
        checkout, "sweep", "--workdir=runs", *SMALL, "--grid.model.score=my_score:own", cwd=folder
    )
    assert status == 0, said
    assert (folder / "runs" / "model.score=my_score:own" / "code" / "my_score.py").is_file()


def test_a_module_with_the_name_of_an_installed_one_is_refused(checkout, tmp_path):
    """Also in the folder of this project, in which README has users work."""
    for name in ("random", "numpy"):
        status, said = launch(
            checkout, "train", "--workdir=run", f"--model.score={name}:own", cwd=checkout
        )
        (line,) = said.splitlines()
        assert line.startswith(f"error: cannot use '{name}:own' as a score: module '{name}' has no")
        assert "; the module that Python finds first under this name is /" in line
        assert status == 2


def test_peers_are_installed_only_if_a_benchmark_will_use_them(checkout, tmp_path):
    script = checkout / "launch.sh"
    installing = '    install_peers\n    echo "$peers"\n'
    assert installing in script.read_text()
    script.write_text(script.read_text().replace(installing, "    exit 3\n"))
    missing = "error: --workdir is missing: the folder for the figures\n"
    assert launch(checkout, "bench", cwd=tmp_path) == (2, missing)
    status, said = launch(checkout, "bench", "--workdir=a", "--only=attention,start", cwd=tmp_path)
    assert (status, said) == (2, "error: the peers could not be installed\n")
    assert not (tmp_path / "a").exists()


def test_without_launch_sh_the_current_folder_comes_last_too(tmp_path):
    """The console command starts itself anew, as Python has read where to look by then."""
    (tmp_path / "random.py").write_text("raise SystemExit('executed')")
    script = "import sys; from attn_jax.__main__ import main; sys.exit(main())"
    known = {name: os.environ[name] for name in os.environ if name not in ENVIRONMENT}
    done = subprocess.run(
        [sys.executable, "-c", script, "train", "--help"],
        cwd=tmp_path,
        env=known,
        capture_output=True,
        text=True,
    )
    assert "executed" not in done.stdout + done.stderr
    assert "--model.score" in done.stdout
