"""Options of training that change from a step on."""

import dataclasses

import jax
import numpy as np
import pytest

from attn_jax import config
from attn_jax.config import changes, train_after
from attn_jax.config.changes import going_on
from attn_jax.data.pipeline import Batches
from attn_jax.errors import InputError
from attn_jax.models.seq2seq import initialize
from attn_jax.records import run_files
from attn_jax.runs import folder
from attn_jax.runs.checks import check
from attn_jax.runs.folder import settle
from attn_jax.training.arrays import named_leaves
from attn_jax.training.checkpoint import Checkpoints
from tests.options import train_options
from tests.pairs import training_pairs
from tests.training.test_loop import CONFIG, PAIRS, train

OPTIONS = {"valid_every": 4, "average": 0.9, "buckets": 1}


def same(one, other):
    return all(np.array_equal(leaf, other[name]) for name, leaf in one.items())


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """The parameters after 4 and after 8 steps without any change."""
    workdir = tmp_path_factory.mktemp("plain")
    train(workdir, steps=8, **OPTIONS)
    checkpoints = Checkpoints(workdir / "checkpoints")
    like = initialize(CONFIG, 9, 9, jax.random.key(5))
    return [named_leaves(checkpoints.restore(step, "model", like)) for step in (4, 8)]


@pytest.mark.parametrize(
    "change", ["schedule=inverse_sqrt,warmup_steps=1", "batch_size=3", "optimizer=sgd"]
)
def test_a_run_that_goes_on_with_a_change_equals_one_that_was_begun_with_it(
    tmp_path, plain, change
):
    _, _, half, _ = train(tmp_path / "a", steps=4, change=f"{change}@4", **OPTIONS)
    _, _, pieces, record = train(tmp_path / "a", steps=8, change=f"{change}@4", **OPTIONS)
    _, _, through, whole = train(tmp_path / "b", steps=8, change=f"{change}@4", **OPTIONS)
    assert same(through, pieces)
    assert same(half, plain[0])  # nothing has changed before
    assert not same(through, plain[1])
    assert [line["train_loss"] for line in record] == [line["train_loss"] for line in whole]


def test_a_run_is_stopped_and_goes_on_after_a_change_of_the_optimizer(tmp_path):
    options = OPTIONS | {"change": "optimizer=sgd,batch_size=4@3;learning_rate=0.1@5"}
    _, _, through, _ = train(tmp_path / "a", steps=7, **options)
    for steps in (3, 4, 5, 7):
        _, _, pieces, _ = train(tmp_path / "b", steps=steps, **options)
    assert same(through, pieces)


def test_batches_of_another_size_are_those_of_a_run_of_that_size():
    changed = Batches(training_pairs(PAIRS), train_options(change="batch_size=4@3"), seed=0)
    plain = {n: Batches(training_pairs(PAIRS), train_options(batch_size=n), 0) for n in (64, 4)}
    for step in range(9):
        for one, other in zip(changed[step], plain[64 if step < 3 else 4][step], strict=True):
            np.testing.assert_array_equal(one, other)


def test_the_options_after_each_step():
    train = train_options(change="learning_rate=1e-4@10;schedule=halving(after=7,every=3)@20")
    assert train_after(train, 9) == dataclasses.replace(train, change="")
    assert (train_after(train, 10).learning_rate, train_after(train, 19).schedule) == (
        1e-4,
        train.schedule,
    )
    assert (train_after(train, 20).learning_rate, train_after(train, 20).schedule.every) == (
        1e-4,
        3,
    )


@pytest.mark.parametrize(
    ("stored", "given", "done", "result"),
    [
        ("", "learning_rate=1", 7, "learning_rate=1@7"),
        ("learning_rate=1@7", "learning_rate=1", 9, "learning_rate=1@7"),  # the same command again
        ("learning_rate=1@7", "learning_rate=2", 9, "learning_rate=1@7;learning_rate=2@9"),
        ("learning_rate=1@7", "learning_rate=2", 7, "learning_rate=2@7"),  # not yet in use
        ("optimizer=sgd@7", "learning_rate=2", 7, "optimizer=sgd,learning_rate=2@7"),
        (
            "optimizer=sgd,learning_rate=2@7",
            "learning_rate=2",
            9,
            "optimizer=sgd,learning_rate=2@7",
        ),
        ("learning_rate=1@9", "learning_rate=1", 7, "learning_rate=1@7;learning_rate=1@9"),
        ("learning_rate=1@7", "learning_rate=1.0", 9, "learning_rate=1@7"),
        ("optimizer=sgd@7", "optimizer=sgd()", 9, "optimizer=sgd@7"),
        ("a", "train.batch_size = 8 @ 3", 0, "batch_size=8@3"),
        ("learning_rate=1@7", "learning_rate=1@7;batch_size=8@12", 9, None),
        ("batch_size=8@12", "", 9, ""),
    ],
)
def test_a_change_from_now_on_is_one_from_the_steps_done(stored, given, done, result):
    expected = given if result is None else result
    assert going_on("" if stored == "a" else stored, given, done, config.given) == expected


def test_the_same_command_undoes_no_change_that_was_planned_for_later():
    stored = "learning_rate=1@7;learning_rate=2@9"
    with pytest.warns(
        UserWarning, match=r"learning_rate=1 was made at step 7, before other .*=1@12"
    ):
        assert going_on(stored, "learning_rate=1", 12, config.given) == stored
    assert going_on(stored, f"{stored};learning_rate=1@12", 12, config.given).endswith("=1@12")


@pytest.mark.parametrize(
    ("stored", "given", "done", "message"),
    [
        ("", "learning_rate=1", 0, "nothing is trained yet: give the options themselves, or a st"),
        (
            "",
            "learning_rate=1@5",
            9,
            "would change what has been trained in 9 .*nothing",
        ),
        ("learning_rate=1@5", "", 9, "would change what has been trained"),
        ("", "learning_rate", 9, "malformed train.change 'learning_rate': write option=value@step"),
        ("", "learning_rate=1@x", 9, "malformed"),
        ("", f"learning_rate=1@{'9' * 5000}", 9, "malformed"),
        ("", "learning_rate=1,train.learning_rate=2@9", 7, "gives learning_rate twice"),
        ("", "seed=1", 9, "unknown option that may change 'seed'.*allowed: learning_rate, sched"),
        ("", "batch_size=1@5;batch_size=2@5", 0, "do not increase"),
        ("", "batch_size=1;batch_size=2@5", 9, "do not increase"),
    ],
)
def test_a_change_that_cannot_be_made_is_refused(stored, given, done, message):
    with pytest.raises(InputError, match=message):
        going_on(stored, given, done, config.given)


def test_values_of_changes_are_checked_as_those_of_options():
    with pytest.raises(InputError, match=r"train.batch_size must be at least 1, got 0"):
        train_options(change="batch_size=0@5")
    with pytest.raises(InputError, match=r"unknown optimizer 'adm' \(did you mean adam\?\)"):
        train_options(change="optimizer=adm@5")
    with pytest.raises(InputError, match=r"train.microbatches=2 does not divide .*=3"):
        check(config.experiment({"train.microbatches": 2, "train.change": "batch_size=3@5"}))


def test_the_folder_of_a_run_keeps_the_step_of_a_change(tmp_path, monkeypatch):
    monkeypatch.setattr(folder, "check_record", lambda *_: None)
    given = {changes.NAME: "learning_rate=0.1"}
    with pytest.raises(InputError, match="nothing is trained yet"):
        settle(tmp_path / "new", given)
    run_files.flags(tmp_path).write_text("\n".join(config.lines(folder.experiment_with({}))))
    for step in (30, 50):  # the same command again, later
        (tmp_path / "checkpoints" / str(step)).mkdir(parents=True)
        experiment = settle(tmp_path, given)
        assert experiment.train.change == "learning_rate=0.1@30"
        run_files.flags(tmp_path).write_text("\n".join(config.lines(experiment)))
    given = {changes.NAME: "learning_rate=0.2"}
    assert settle(tmp_path, given).train.change == "learning_rate=0.1@30;learning_rate=0.2@50"
    assert settle(tmp_path, {}).train.change == "learning_rate=0.1@30"
