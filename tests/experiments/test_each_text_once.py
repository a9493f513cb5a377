"""How often programs cut a text into tokens: once, and not again in runs over the same text."""

import json
import os
import subprocess
import sys

import pytest

from attn_jax.training.validations import PERPLEXITY
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


def test_runs_over_one_text_cut_it_once(folder):
    """Validation and test texts too, whatever reads them and however often."""
    assert train(folder, "run") == TEXTS + TRANSLATIONS
    assert train(folder, "longer", "--train.steps=30") == TRANSLATIONS + HELD_OUT
    words = ["--data.source_level=word", "--data.target_level=subword", "--data.subwords=40"]
    assert train(folder, "words", *words, "--data.min_count=1") == TRANSLATIONS
    assert train(folder, "run", "--train.steps=30") == 2 * HELD_OUT  # resumed
    run = f"--workdir={folder / 'run'}"
    assert cuts(folder, "evaluate", run, "--split=validation") == HELD_OUT
    texts = [f"--sources={folder / 'sources'}", f"--targets={folder / 'targets'}"]
    assert cuts(folder, "evaluate", run, *texts) == 6 + 3
    assert cuts(folder, "translate", run, f"--input={folder / 'sources'}", "--unknown=copy") == 3
    assert cuts(folder, "align", run, *texts, "--weights=" + str(folder / "w.npz")) == 6


def test_where_no_file_can_be_written_a_run_cuts_each_text_once(folder, tmp_path):
    (tmp_path / "cut").touch()  # in place of the folder
    place = [f"--data.directory={tmp_path}"]
    for run in ("one", "other"):
        assert train(folder, run, *place) == TEXTS + TRANSLATIONS
    with_files, without = (
        [json.loads(line) for line in (folder / run / "metrics.jsonl").read_text().splitlines()]
        for run in ("run", "one")
    )
    assert len(without) == VALIDATIONS
    for line, other in zip(with_files, without, strict=False):  # the run went on
        assert line[PERPLEXITY] == other[PERPLEXITY]
