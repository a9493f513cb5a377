"""How often programs cut a text into tokens."""

import os
import subprocess
import sys

import pytest

from tests.experiments.programs import SMALL
from tests.stages import full

pytestmark = full

# Runs a program as `python -m` does, and writes how many texts it has cut.
COUNT = """
import atexit, sys
from attn_jax.__main__ import main
from attn_jax.data.pretokens import PRETOKENIZERS
file, program, *arguments = sys.argv[1:]
texts = []

def counted(cut):
    def wrapped(text):
        texts.append(text)
        return cut(text)
    return wrapped

for name, cut in list(PRETOKENIZERS.items()):
    PRETOKENIZERS[name] = counted(cut)
atexit.register(lambda: open(file, "w").write(str(len(texts))))
sys.argv = ["attn_jax", program, *arguments]
main()
"""
TRAINING, HELD_OUT, VALIDATIONS = 300, 20, 2  # pairs and validations of `SMALL`
TEXTS = 2 * (TRAINING + 2 * HELD_OUT)
# The model's own translations, whose texts are new, are cut to be compared with the references.
TRANSLATIONS = HELD_OUT * (VALIDATIONS + 1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a run, and with two files of three lines."""
    folder = tmp_path_factory.mktemp("cuts")
    (folder / "sources").write_text("1 2 3\n4 5\n1 2 3\n")
    (folder / "targets").write_text("3 2 1\n5 4\n3 2 1\n")
    return folder


def cuts(folder, program, *arguments):
    """How many texts a program cuts."""
    file = folder / "count"
    done = subprocess.run(
        [sys.executable, "-c", COUNT, str(file), program, *map(str, arguments)],
        capture_output=True,
        text=True,
        env=os.environ | {"ATTN_JAX_CACHE": str(folder / "cache")},
    )
    assert done.returncode == 0, done.stderr
    return int(file.read_text())


def train(folder, run, *more):
    return cuts(folder, "train", f"--workdir={folder / run}", *SMALL, *more)


def test_a_run_cuts_its_training_text_once(folder):
    """Held-out text is cut anew where it is evaluated."""
    evaluated = 2 * HELD_OUT
    assert train(folder, "run") == TEXTS + evaluated + TRANSLATIONS
    assert train(folder, "run", "--train.steps=30") == TEXTS + evaluated + 2 * HELD_OUT  # resumed
    run = f"--workdir={folder / 'run'}"
    assert cuts(folder, "evaluate", run, "--split=validation") == evaluated + HELD_OUT
    texts = [f"--sources={folder / 'sources'}", f"--targets={folder / 'targets'}"]
    assert cuts(folder, "evaluate", run, *texts) == 6 + 3
    assert cuts(folder, "translate", run, f"--input={folder / 'sources'}", "--unknown=copy") == 3
    assert cuts(folder, "align", run, *texts, "--weights=" + str(folder / "w.npz")) == 6
