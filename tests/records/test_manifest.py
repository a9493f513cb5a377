"""The manifest of a run: what changes, is lost or comes from elsewhere is told by its name."""

import os
import shutil

import pytest

from attn_jax.errors import InputError
from attn_jax.records import journal, manifest, run_files
from attn_jax.records.manifest import Checkpoint, Content
from attn_jax.records.progress import Progress


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    manifest.write(folder, run_files.flags(folder), "--seed=0\n")
    for step in (2, 4):
        journal.append(folder, {"step": step, "valid_perplexity": float("inf")})
    return folder


def test_what_was_written_is_read(run):
    manifest.check(run)
    assert manifest.content(run, run_files.flags(run)) == b"--seed=0\n"
    lines = [{"step": step, "valid_perplexity": float("inf")} for step in (2, 4)]
    assert journal.read(run) == lines
    known = Checkpoint(Progress(rates=(1.5,)), (0.1, -2.0), {"model/d/0": Content.of(b"")})
    with manifest.changing(run) as changed:
        changed.checkpoints[4] = known
    assert manifest.read(run).checkpoints == {4: known}


@pytest.mark.parametrize(
    "damage", [lambda file: file.write_text("--seed=1\n"), lambda file: file.unlink()]
)
def test_a_file_that_changes_or_goes_is_told(run, damage):
    damage(run_files.flags(run))
    with pytest.raises(InputError, match=r"run/flags\.txt is (damaged|missing).*put a copy of it"):
        manifest.check(run)


def test_lines_of_a_journal_that_are_not_finished_are_left_out(run):
    file = run_files.journal(run)
    file.write_text(file.read_text() + '{"step": 6}\n{"ste')
    assert [line["step"] for line in journal.read(run)] == [2, 4]
    journal.append(run, {"step": 6})
    assert file.read_text().endswith('null}\n{"step": 6}\n')


def test_a_file_of_another_run_is_told(run, tmp_path):
    other = shutil.copytree(run, tmp_path / "other")
    journal.append(other, {"step": 6})
    shutil.copy(run_files.journal(other), run)
    assert [line["step"] for line in journal.read(run)] == [2, 4]  # which both have
    manifest.write(other, run_files.flags(other), "--seed=1\n")
    manifest.write(other, run_files.evaluation(other, "test"), "{}")
    for file in (run_files.flags(run), run_files.evaluation(run, "test")):
        shutil.copy(other / file.name, file)
        with pytest.raises(InputError, match=f"{file.name} is (damaged|not of this run)"):
            manifest.content(run, file)


@pytest.mark.parametrize("written", [False, True])
def test_a_kill_between_file_and_manifest_leaves_a_run_that_is_whole(run, written, monkeypatch):
    replace = os.replace

    def killed(old, new):
        """Before the flag file is replaced, or before the manifest knows that it has been."""
        if new == run_files.flags(run):
            replaced.append(new)
        if replaced and (new != run_files.flags(run) or not written):
            raise KeyboardInterrupt
        replace(old, new)

    replaced = []
    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        manifest.write(run, run_files.flags(run), "--seed=2\n")
    monkeypatch.undo()
    text = f"--seed={2 if written else 0}\n".encode()
    assert manifest.content(run, run_files.flags(run)) == text
    manifest.write(run, run_files.flags(run), "--seed=3\n")
    assert len(manifest.read(run).files["flags.txt"]) == 1


@pytest.mark.parametrize("text", ["", "{", "[]", '{"files": 3}', '{"files": {}, "more": 1}', "{}"])
def test_a_damaged_manifest_is_told(run, text):
    run_files.manifest(run).write_text(text)
    with pytest.raises(InputError, match=r"run/manifest\.json is damaged"):
        manifest.read(run)


def test_what_is_forgotten_is_not_of_the_run(run):
    manifest.forget(run, run_files.flags(run), run_files.evaluation(run, "test"))
    assert not run_files.flags(run).exists()
    run_files.flags(run).write_text("--seed=0\n")
    with pytest.raises(InputError, match=r"flags\.txt is not of this run"):
        manifest.content(run, run_files.flags(run))
