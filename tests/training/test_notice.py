"""Saving by time and on notice, and going on from there as if nothing had happened."""

import os
import signal
import subprocess
import sys
import time

import jax
import numpy as np
import pytest
from jax.experimental import multihost_utils

from attn_jax.errors import TRY_AGAIN, Paused, Terminated
from attn_jax.records import journal
from attn_jax.settings.fields import Duration
from attn_jax.training import loop, notice, running
from attn_jax.training.checkpoints import Checkpoints
from attn_jax.training.loop import finished
from attn_jax.training.notice import Notice, Told
from tests.options import train_options
from tests.stages import full
from tests.training.test_loop import train

pytestmark = full

ALL = {
    "steps": 14,
    "valid_every": 4,
    "keep": 1,
    "patience": 2,
    "average": 0.9,
    "scheduled_sampling": 0.5,
    "order": "sorted(batches=2)",
}
PERPLEXITIES = {4: 3.0, 8: 4.0, 12: 5.0, 14: 6.0}
TIMES = {"seconds", "steps_per_second", "target_tokens_per_second"}


@pytest.fixture(autouse=True)
def heard():
    """Signals as in the foreground: background jobs ignore SIGINT."""
    before = {number: signal.getsignal(number) for number in notice.SIGNALS}
    for number in notice.SIGNALS:
        signal.signal(number, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def at(monkeypatch):
    """Sends a signal as some step of training begins."""
    train_step, to = running.train_step, {}

    def step(state, *given, **how):
        if number := to.pop(int(state.parts.step) + 1, None):
            signal.raise_signal(number)
        return train_step(state, *given, **how)

    monkeypatch.setattr(running, "train_step", step)
    return to


class Validation:
    """Perplexities of validations, told apart by the files of the run; a signal comes in some."""

    def __init__(self, workdir, interrupted=()):
        self.workdir, self.interrupted = workdir, dict(interrupted)

    def __call__(self, model):
        records = journal.read(self.workdir) if journal.is_begun(self.workdir) else []
        done = records[-1]["step"] if records else 0
        step = min(step for step in PERPLEXITIES if step > done)
        if number := self.interrupted.pop(step, None):
            signal.raise_signal(number)
        return {"perplexity": PERPLEXITIES[step]}


def untimed(records):
    return [{n: v for n, v in line.items() if n not in TIMES} for line in records]


def kept(workdir):
    return [*Checkpoints(workdir).known()]


@pytest.fixture(scope="module")
def through(tmp_path_factory):
    """A run that nothing stops: its last step, best step, parameters and journal."""
    workdir = tmp_path_factory.mktemp("through")
    return *train(workdir, Validation(workdir), **ALL), kept(workdir)


def check_equal(workdir, done, through):
    step, best, leaves, records, steps = through
    assert done[:2] == (step, best) == (12, 4)
    for name, leaf in leaves.items():
        np.testing.assert_array_equal(leaf, done[2][name])
    assert untimed(done[3]) == untimed(records)
    assert kept(workdir) == steps


@pytest.mark.parametrize("number", notice.SIGNALS)
def test_a_signal_saves_and_the_run_goes_on_bit_for_bit(tmp_path, at, through, number):
    at |= dict.fromkeys((1, 3, 5, 6, 8), number)  # 4 and 8 are followed by a validation
    validation = Validation(tmp_path, dict.fromkeys((4, 12), number))
    for step in (1, 3, 4, 5, 6, 8, 12):
        with pytest.raises(Paused) as paused:
            train(tmp_path, validation, **ALL)
        asked = signal.Signals(number).name
        assert str(paused.value) == f"saved at step {step}, as {asked} asked"
        assert kept(tmp_path)[-1] == step
        assert not finished(train_options(**ALL), tmp_path)
    check_equal(tmp_path, train(tmp_path, validation, **ALL), through)


def test_saving_by_time_pushes_out_nothing_that_validations_keep(tmp_path, at, through):
    at[7] = signal.SIGTERM
    often = ALL | {"save_every": "1e-6s"}
    with pytest.raises(Paused):
        train(tmp_path, Validation(tmp_path), **often)
    assert kept(tmp_path) == [4, 7]
    check_equal(tmp_path, train(tmp_path, Validation(tmp_path), **often), through)


def test_a_kill_loses_what_came_after_the_last_save_by_time(tmp_path, monkeypatch):
    often = {"save_every": "1e-6s", "steps": 6, "valid_every": 4}
    _, _, leaves, records = train(tmp_path / "through", **often)
    train_step = running.train_step

    def killed(state, *given, **how):
        if int(state.parts.step) == 3:
            raise KeyboardInterrupt
        return train_step(state, *given, **how)

    monkeypatch.setattr(running, "train_step", killed)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "killed", **often)
    monkeypatch.undo()
    assert kept(tmp_path / "killed") == [3]
    assert Checkpoints(tmp_path / "killed").best is None
    _, _, again, journal_again = train(tmp_path / "killed", **often)
    for name, leaf in leaves.items():
        np.testing.assert_array_equal(leaf, again[name])
    assert untimed(journal_again) == untimed(records)


def test_a_validation_whose_checkpoint_was_not_marked_is_made_again(tmp_path, at, monkeypatch):
    """Killed between the journal and the manifest of a checkpoint that awaited its validation."""
    at[4] = signal.SIGTERM
    options = {"steps": 6, "valid_every": 4}
    with pytest.raises(Paused):
        train(tmp_path, **options)

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(loop.WritableCheckpoints, "save", killed)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, **options)
    monkeypatch.undo()
    assert [line["step"] for line in journal.read(tmp_path)] == [4]
    step, best, _, records = train(tmp_path, **options)
    assert (step, best, [line["step"] for line in records]) == (6, 4, [4, 6])


def test_a_run_that_awaits_its_last_validation_is_not_finished(tmp_path, at):
    at[6] = signal.SIGTERM
    with pytest.raises(Paused):
        train(tmp_path, steps=6, valid_every=4)
    assert not finished(train_options(steps=6), tmp_path)
    assert train(tmp_path, steps=6, valid_every=4)[0] == 6
    assert finished(train_options(steps=6), tmp_path)


def test_signals_of_one_moment_are_one_and_a_later_one_raises(monkeypatch):
    with Notice(30) as told:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGINT):
            signal.raise_signal(number)
        assert told.given
        assert told.name == "SIGINT"
        monkeypatch.setattr(notice, "SAME", 0.0)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_signal_raises_or_ends_a_program(monkeypatch):
    monkeypatch.setattr(notice, "SAME", 0.0)

    def twice(second):
        with Notice(30):
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(second)

    with pytest.raises(Terminated):
        twice(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt) as raised:
        twice(signal.SIGINT)
    assert raised.type is KeyboardInterrupt
    ended = []
    monkeypatch.setattr(notice, "_end", [ended.append])
    with pytest.raises(KeyboardInterrupt):
        twice(signal.SIGINT)
    assert ended == [128 + signal.SIGINT]


def test_the_end_of_the_grace_ends_a_program(monkeypatch, capfd):
    ended = []
    monkeypatch.setattr(notice, "_end", [ended.append])
    with Notice(0.05):
        signal.raise_signal(signal.SIGTERM)
        for _ in range(100):
            time.sleep(0.05)
            if ended:
                break
    assert ended == [TRY_AGAIN]
    assert "not saved within 0.05 s: ended without" in capfd.readouterr().err


def test_what_can_be_interrupted_is_so_even_by_a_signal_that_came_before():
    with Notice(30) as told:
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(Told), told.interrupting():
            pytest.fail("not raised")
        signal.raise_signal(signal.SIGTERM)  # of the same moment


def test_what_a_process_ignores_stays_ignored():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Notice(30) as told:
        os.kill(os.getpid(), signal.SIGINT)
        assert not told.given


def test_where_jax_is_distributed_its_notice_of_preemption_saves(tmp_path):
    command = [sys.executable, "-m", "tests.training.preempted", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout == f"saved at step {kept(tmp_path)[-1]}, as SIGTERM asked\n", done.stderr
    assert done.returncode == 0


def test_saving_asks_jax_of_no_earlier_step(tmp_path, monkeypatch):
    """JAX would take it for the last step done, and choose a step to end that has passed."""
    asked = []

    def asks(step):
        asked.append(step)
        return False

    monkeypatch.setattr(jax.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(multihost_utils, "reached_preemption_sync_point", asks)
    train(tmp_path, steps=24, valid_every=4, keep=1)
    assert asked == list(range(1, 25))


@pytest.mark.parametrize(
    ("text", "seconds", "shown"),
    [
        ("10min", 600, "10min"),
        ("90s", 90, "90s"),
        ("1.5h", 5400, "90min"),
        ("2d", 172800, "2d"),
        ("600", 600, "10min"),
        (0.25, 0.25, "0.25s"),
        ("0", 0, "0"),
    ],
)
def test_a_duration_is_read_with_its_unit_and_shown_with_one(text, seconds, shown):
    duration = Duration(text)
    assert (duration, str(duration), Duration(shown)) == (seconds, shown, seconds)


@pytest.mark.parametrize("text", ["soon", "10m", "min", "nan", "-1s", ""])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(ValueError, match=r"train.save_every must be (a duration|at least|a fin)"):
        train_options(save_every=text)
