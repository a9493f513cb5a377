"""Damage to what gives the numbers of a run their meaning: refused by name, never silent."""

import json
import re
import shutil

import numpy as np
import orbax.checkpoint as ocp
import pytest

import attn_jax
from attn_jax.data.datasets import open_corpus
from attn_jax.data.run_vocabularies import load_vocabulary
from attn_jax.errors import InputError
from attn_jax.files import reading
from attn_jax.records import journal, run_files
from attn_jax.records.progress import Progress
from attn_jax.runs.folder import alone, settle
from attn_jax.runs.training import train_alone
from attn_jax.training.checkpoints import Checkpoints, WritableCheckpoints, set_aside, try_place

OPTIONS = {
    "data.examples": 40,
    "data.held_out": 4,
    "data.source_level": "subword",
    "data.subwords": 40,
    "model.embedding_size": 4,
    "model.annotation_size": 4,
    "model.hidden_size": 4,
    "model.score": "additive(units=4)",
    "model.readout_size": 4,
    "train.steps": 6,
    "train.valid_every": 2,
    "train.buckets": 1,
}


def train_in(folder, options):
    with alone(folder):
        experiment = settle(folder, options)
        train_alone(folder, experiment, open_corpus(experiment.data), {})


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    train_in(folder, OPTIONS)
    return folder


@pytest.fixture
def run(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "run")


def replaced(pattern, by):
    return lambda text: re.sub(pattern, by, text, count=1)


def other_character(text):
    """A stored SentencePiece model in which one character has become another."""
    middle = len(text) // 2
    return text[:middle] + ("A" if text[middle] != "A" else "B") + text[middle + 1 :]


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("vocabulary.target.json", replaced(r'"(\d+)", "(\d+)"', r'"\2", "\1"')),
        ("vocabulary.target.json", replaced(r', "\d+"\]', "]")),
        ("vocabulary.target.json", replaced(r'"(\d+)", "\d+"', r'"\1", "\1"')),
        ("vocabulary.source.json", other_character),
        ("flags.txt", replaced("--data.max_length=.*\n", "")),
        ("flags.txt", replaced("--label=.*\n", "")),
        ("flags.txt", replaced("--seed=0", "--seed=2")),
        ("flags.txt", replaced("--train.clip_norm=1", "--train.clip_norm=3")),
        ("flags.txt", lambda text: text + "--seed=1\n"),
        ("data.txt", lambda text: text[: len(text) // 2]),
        ("manifest.json", replaced(r'"best_step": \d', '"best_step": 3')),
        ("manifest.json", replaced('"seconds": ', '"seconds": 1')),
        ("manifest.json", lambda text: text[: len(text) // 2]),
    ],
)
def test_what_gives_numbers_their_meaning_does_not_change_in_silence(run, name, damage):
    before = (run / name).read_text("utf-8")
    (run / name).write_text(damage(before), "utf-8")
    assert (run / name).read_text("utf-8") != before
    for use in (attn_jax.load, lambda run: train_in(run, OPTIONS | {"train.steps": 8})):
        with pytest.raises(InputError, match=re.escape(str(run / name))):
            use(run)
    assert (run / name).read_text("utf-8") == damage(before)


def test_what_may_change_in_a_run_keeps_its_checkpoints_usable(run):
    for options in ({"train.steps": 8, "label": "longer"}, {"train.steps": 10}):
        train_in(run, OPTIONS | options)
    attn_jax.load(run, "last")
    assert settle(run, {"train.patience": 7}).train.patience == 7


def test_steps_may_become_fewer_but_not_than_were_done(run):
    for wanted, steps in ((20, 20), (7, 7), (5, 6)):
        assert settle(run, {"train.steps": wanted}).train.steps == steps


def test_a_folder_among_the_checkpoints_of_a_run_holds_no_other_run(run):
    with pytest.raises(InputError, match=r"checkpoints/30 is a checkpoint of the run in"):
        settle(run_files.checkpoints(run) / "30", {})


LEAVES = {"x": np.arange(3, dtype=np.float32)}


@pytest.fixture
def four(tmp_path):
    """Checkpoints of the steps 1 to 4, of which 2 is the best."""
    checkpoints = WritableCheckpoints(tmp_path, 4)
    for step, value in enumerate([1.0, 9.0, 2.0, 3.0], start=1):
        checkpoints.save(step, LEAVES, LEAVES, Progress(), (value, 0.0))
    return checkpoints


def cut(place):
    for file in (place / "model").rglob("d/*"):
        file.write_bytes(file.read_bytes()[:41])


@pytest.mark.parametrize("damage", [cut, shutil.rmtree, lambda place: place.rename(f"{place}0")])
def test_a_damaged_best_checkpoint_is_named_with_another_to_use(four, damage):
    damage(four.place(2))
    assert (four.latest, four.best) == (4, 2)
    with pytest.raises(InputError, match=rf"checkpoints/2/.* or use {four.place(4)} instead"):
        four.restore(four.best, "model", LEAVES)
    four.restore(4, "model", LEAVES)


def test_damaged_checkpoints_are_set_aside_with_the_journal(four, tmp_path, capsys):
    set_aside(tmp_path)
    assert [*four.known()] == [1, 2, 3, 4]
    journal.append(tmp_path, {"step": 4})
    shutil.rmtree(four.place(2))
    cut(four.place(4))
    set_aside(tmp_path)
    (aside,) = run_files.damaged(tmp_path).iterdir()
    assert ([*four.known()], four.latest, four.best) == ([1, 3], 3, 3)
    assert {path.name for path in aside.iterdir()} == {"4", "metrics.jsonl"}
    told = capsys.readouterr().err
    assert f"{four.place(4)} is damaged, and was set aside as {aside / '4'}" in told
    assert f"{four.place(2)} is missing" in told


def test_nothing_is_set_aside_if_no_checkpoint_is_intact(four, tmp_path):
    for step in four.known():
        cut(four.place(step))
    with pytest.raises(InputError, match=r"no checkpoint of .* is intact"):
        set_aside(tmp_path)
    assert [*four.known()] == [1, 2, 3, 4]


def test_only_what_is_known_to_be_damaged_is_called_so(tmp_path):
    missing = tmp_path / "missing"
    with (
        pytest.raises(InputError, match=r"is missing or damaged .*put it back"),
        reading(missing, "; put it back"),
    ):
        missing.read_text()
    for error in (RuntimeError("Unable to cast"), OSError(36, "File name too long")):
        with (
            pytest.raises(InputError, match=r"missing cannot be read \(.*\)$"),
            reading(missing, "; put it back"),
        ):
            raise error


@pytest.mark.parametrize("name", ["a[b]", "a\\b", "**", "gs:", "a\udcff"])
def test_a_folder_that_orbax_cannot_use_is_refused_before_it_is_used(tmp_path, name):
    folder = tmp_path / name
    for use in (try_place, Checkpoints, lambda folder: settle(folder, {})):
        with pytest.raises(InputError, match=r"could not be read again, for the .* in its name"):
            use(folder)
    assert not list(tmp_path.iterdir())


def test_a_place_is_tried_and_left_as_it_was(tmp_path, monkeypatch):
    (tmp_path / "trial").mkdir()  # of the user's own
    try_place(tmp_path)
    assert list(tmp_path.iterdir()) == [tmp_path / "trial"]
    (tmp_path / "trial").rmdir()
    with pytest.raises(OSError, match="No such file"):
        try_place(tmp_path / "missing")

    def fails(*_, **__):
        raise RuntimeError("this place\nis odd")

    monkeypatch.setattr(ocp.Checkpointer, "save", fails)
    with pytest.raises(InputError, match=r"cannot keep checkpoints \(RuntimeError: this place\)"):
        try_place(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_removed_in_training_is_not_made_again(tmp_path):
    checkpoints = WritableCheckpoints(tmp_path / "run", 2)
    checkpoints.save(1, LEAVES, LEAVES, Progress(), None)
    shutil.rmtree(tmp_path / "run")
    with pytest.raises(OSError, match="No such file"):
        checkpoints.save(2, LEAVES, LEAVES, Progress(), None)
    assert not (tmp_path / "run").exists()


def test_a_token_that_is_there_twice_is_refused(tmp_path):
    file = tmp_path / "vocabulary.json"
    for tokens in (["a", "b", "a"], ["a", "<unk>"]):
        file.write_text(json.dumps({"level": "word", "tokens": tokens}))
        with pytest.raises(InputError, match=r"vocabulary.json is damaged"):
            load_vocabulary(file)
    file.write_text(json.dumps({"level": "word", "tokens": ["a", "</s>"]}))
    assert len(load_vocabulary(file)) == 6
