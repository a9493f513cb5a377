"""Options of training that change in the course of a run."""

import os
import re
import shutil
import signal

import orbax.checkpoint as ocp
import pytest

import attn_jax
from attn_jax import config
from attn_jax.data.datasets import open_corpus
from attn_jax.errors import InputError, Paused
from attn_jax.recipe.optimizer import SGD
from attn_jax.records import changes, run_files
from attn_jax.runs.executor import without_changed
from attn_jax.runs.folder import alone, settle, settle_planned, tell_changes
from attn_jax.runs.plans import possible
from attn_jax.runs.training import train_alone
from attn_jax.training.checkpoints import digest, set_aside

OPTIONS = {
    "data.name": "copy",
    "data.examples": 40,
    "data.held_out": 4,
    "model.embedding_size": 4,
    "model.annotation_size": 4,
    "model.hidden_size": 4,
    "model.score": "dot",
    "model.readout_size": 4,
    "train.batch_size": 8,
    "train.warmup_steps": 3,
    "train.steps": 4,
    "train.valid_every": 4,
    "train.keep": 9,
    "train.buckets": 1,
}
RATE = {"train.learning_rate": 0.01}
OTHERS = {"train.optimizer": "sgd", "train.batch_size": 5, "train.schedule": "inverse_sqrt"}


def train_in(folder, options, on_step=None):
    with alone(folder):
        experiment = settle(folder, options)
        tell_changes(folder, experiment)
        train_alone(folder, experiment, open_corpus(experiment.data), {}, on_step=on_step)


def arrays(folder, step):
    """Digests of the parameters after a step, and of the state of the optimizer."""
    place = run_files.checkpoints(folder) / str(step)
    restore = ocp.PyTreeCheckpointHandler().restore
    return {item: digest(restore(place / item)) for item in ("model", "rest")}


def terminate(step, loss):
    if step == 4:
        os.kill(os.getpid(), signal.SIGTERM)


def cut_off(step, loss):
    raise KeyboardInterrupt


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run that goes on twice with a change: before a validation, and cut off at its first step.

    Beside it, a copy of what it was before.
    """
    root = tmp_path_factory.mktemp("runs")
    with pytest.raises(Paused):
        train_in(root / "changed", OPTIONS, terminate)
    shutil.copytree(root / "changed", root / "four")
    train_in(root / "changed", {"train.steps": 8} | RATE)
    with pytest.raises(KeyboardInterrupt):
        train_in(root / "changed", {"train.steps": 11} | OTHERS, cut_off)
    train_in(root / "changed", {"train.steps": 11})
    return root


@pytest.fixture
def run(trained, tmp_path):
    return shutil.copytree(trained / "changed", tmp_path / "run")


def test_the_folder_tells_which_options_changed_and_when(run):
    first, second = changes.read(run)
    assert first == (4, {"train.learning_rate": 0.0}, RATE)
    assert second.step == 8
    assert second.before["train.batch_size"] == 8
    assert str(second) == (
        "train.schedule=inverse_sqrt train.batch_size=5 train.optimizer=sgd from step 8 on"
    )
    assert changes.options_at(run, 4)["train.learning_rate"] == 0
    assert changes.options_at(run, 8)["train.learning_rate"] == 0.01
    assert changes.options_at(run, 8)["train.batch_size"] == 8
    assert changes.options_at(run, 9) == config.recorded(run_files.flags(run))


def test_a_changed_run_can_be_replayed_bit_for_bit(run, tmp_path):
    made, again = changes.read(run), tmp_path / "again"
    given = [changes.options_at(run, 0), *(change.after for change in made)]
    ends = [*(change.step for change in made), 11]
    for options, end in zip(given, ends, strict=True):
        train_in(again, options | {"train.steps": end})
        assert arrays(again, end) == arrays(run, end)
    assert changes.read(again) == made
    # Step 4 was the first with a checkpoint, before its validation, and the last without a change.
    assert arrays(run, 4) == arrays(again, 4)


def test_another_value_trains_otherwise_from_the_next_step_on(trained, tmp_path):
    run = shutil.copytree(trained / "four", tmp_path / "run")
    train_in(run, {"train.steps": 8})
    assert arrays(run, 4) == arrays(trained / "changed", 4)
    assert arrays(run, 8) != arrays(trained / "changed", 8)
    assert not run_files.changes(run).exists()


def test_it_is_told_and_the_same_command_again_changes_nothing(run, capsys):
    train_in(run, {"train.steps": 12, "train.batch_size": 4})
    assert "from step 11 on: train.steps=12 (was 11), train.batch_size=4 (was 5)" in (
        capsys.readouterr().out
    )
    before = run_files.changes(run).read_text(), arrays(run, 12)
    train_in(run, {"train.steps": 12, "train.batch_size": 4})
    assert "on:" not in capsys.readouterr().out
    assert (run_files.changes(run).read_text(), arrays(run, 12)) == before
    assert [change.step for change in changes.read(run)] == [4, 8, 11]


def test_an_earlier_value_is_another_change(run):
    train_in(run, {"train.steps": 12, "train.learning_rate": 0, "train.optimizer": "adam"})
    *_, last = changes.read(run)
    assert last.step == 11
    assert last.before == RATE | {"train.optimizer": SGD()}


def test_before_the_first_checkpoint_options_are_simply_the_options(tmp_path):
    run = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        train_in(run, OPTIONS, cut_off)
    train_in(run, OPTIONS | RATE)
    assert not run_files.changes(run).exists()
    assert settle(run, {}).train.learning_rate == 0.01


def test_of_a_finished_run_nothing_changes(run):
    with pytest.warns(UserWarning, match=r"nothing is left to train in .*stays, .*rate=0.01"):
        train_in(run, {"train.learning_rate": 0.1})
    assert settle(run, {}).train.learning_rate == 0.01
    assert len(changes.read(run)) == 2


def test_from_an_earlier_checkpoint_on_it_goes_on_with_the_current_values(run, capsys):
    for step in (8, 11):
        (run_files.checkpoints(run) / str(step) / "model" / "_METADATA").write_text("{}")
    set_aside(run)
    train_in(run, {"train.steps": 11})
    told = capsys.readouterr().out
    assert "from step 4 on:" in told
    assert "train.learning_rate=0.01 (was 0.0)" in told
    (only,) = changes.read(run)
    assert only.step == 4
    assert only.after == RATE | changes.read(run)[0].after
    assert settle(run, {}).train.batch_size == 5


@pytest.mark.parametrize("step", ["best", "4", "8", "last"])
def test_every_checkpoint_of_it_can_be_used(run, step):
    attn_jax.load(run, step)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("flags.txt", lambda text: text.replace("learning_rate=0.01", "learning_rate=0.02")),
        ("changes.json", lambda text: text.replace('"step": 4', '"step": 5')),
        ("changes.json", lambda text: text[:-9]),
        ("changes.json", None),
    ],
)
def test_its_record_does_not_change_in_silence(run, name, damage):
    file = run / name
    if damage is None:
        file.unlink()
    else:
        file.write_text(damage(file.read_text()))
    for use in (
        lambda run: attn_jax.load(run, "last"),
        lambda run: settle(run, {"train.steps": 20}),
    ):
        with pytest.raises(InputError, match=re.escape(str(file))):
            use(run)


def test_a_change_is_recorded_before_the_options(run, monkeypatch):
    """A kill between the two leaves a run that goes on, with either."""

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("attn_jax.runs.folder.config.lines", killed)
    more = {"train.steps": 12, "train.batch_size": 4}
    with pytest.raises(KeyboardInterrupt):
        train_in(run, more)
    monkeypatch.undo()
    assert changes.read(run)[-1].step == 11
    assert settle(run, {}).train.batch_size == 5
    train_in(run, more)
    assert changes.read(run)[-1] == (11, {"train.batch_size": 5}, {"train.batch_size": 4})


def test_a_sweep_leaves_a_changed_run_as_it_is_and_changes_none(run):
    planned = OPTIONS | {"train.learning_rate": 0.0, "train.steps": 20}
    assert without_changed(run, planned).keys() == planned.keys() - {
        "train.learning_rate",
        "train.batch_size",
    }
    assert settle_planned(run, planned).train.learning_rate == 0.01
    with pytest.raises(InputError, match=r"holds a run with other flags: train.warmup_steps was 3"):
        settle_planned(run, planned | {"train.warmup_steps": 4})


def test_a_run_that_was_changed_is_not_the_same_as_one_that_began_so(run):
    other = changes.options_at(run, 11) | {"train.learning_rate": 0.01}
    planned = {run.name: changes.options_at(run, 0) | {"train.steps": 11}, "other": other}
    experiments, left_out = possible(run.parent, planned)
    assert experiments[run.name] == experiments["other"]
    assert not left_out


def test_other_options_are_refused_and_values_checked(run):
    for options in ({"train.clip_norm": 2}, {"seed": 1}, {"train.label_smoothing": 0.1}):
        with pytest.raises(InputError, match="holds a run with other flags"):
            settle(run, options)
    with pytest.raises(InputError, match=r"train.batch_size must be at least 1, got 0"):
        settle(run, {"train.batch_size": 0})
