"""How far a sweep is, as its files tell it, in a terminal and elsewhere."""

import io
import json
import os
import time

import pytest
from rich.console import Console

from attn_jax.errors import InputError
from attn_jax.records import run_files, states
from attn_jax.runs import plans, standing, view
from attn_jax.runs.plans import Plan
from attn_jax.runs.standing import Standing, seconds_left, standings, summary, told
from attn_jax.runs.view import Board, changes, shown, watch
from tests.experiments.programs import SMALL, works
from tests.stages import full

pytestmark = full

PLAN = Plan({f"seed={seed}": {"seed": seed, "train.steps": 100} for seed in range(5)})
NO_PROCESS = 2**22 + 1  # more than the largest id of a process


def of(state, step=0, rate=0.0, number=1, said="", why=""):
    return Standing(number, f"seed={number}", state, step, 100, rate, said, why)


def told_of(root, label, state=states.RUNNING, **said):
    at = {"machine": states.machine(), "pid": os.getpid()}
    states.tell(root / label, state, **at | said)


@pytest.fixture
def root(tmp_path):
    """A sweep whose first run is waiting, and the others running, failed, stopped and lost."""
    plans.add(tmp_path, PLAN)
    told_of(tmp_path, "seed=1", step=40, steps_per_second=2.0, loss=1.25)
    told_of(tmp_path, "seed=2", states.FAILED, why="it is [bad]")
    (tmp_path / "seed=3" / "checkpoints" / "60").mkdir(parents=True)
    record = {"step": 50, "metric": "bleu", "valid_bleu": 7.5, "steps_per_second": 4.0}
    run_files.journal(tmp_path / "seed=3").write_text(json.dumps(record) + "\n")
    told_of(tmp_path, "seed=4", pid=NO_PROCESS)
    return tmp_path


def test_each_run_stands_as_its_files_say(root):
    found = standings(root, PLAN)
    assert [run.state for run in found] == ["waiting", "running", "failed", "paused", "waiting"]
    assert [run.step for run in found] == [0, 40, 0, 60, 0]
    assert (found[1].said, found[1].seconds_left) == ("loss 1.250", 30.0)
    assert found[2].why == "seed=2 failed: it is [bad]"
    assert (found[3].said, found[3].rate) == ("bleu 7.50 at step 50", 4.0)


def test_a_process_of_another_machine_that_is_silent_is_not_at_work(root):
    told_of(root, "seed=0", machine="another")
    assert standings(root, PLAN)[0].state == "running"
    long_ago = time.time() - states.DEAD
    os.utime(run_files.state(root / "seed=0"), (long_ago, long_ago))
    assert standings(root, PLAN)[0].state == "waiting"


def test_a_process_of_another_user_that_has_got_the_number_of_a_dead_one_is_none(root, monkeypatch):
    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(states.os, "kill", refuse)
    assert standings(root, PLAN)[1].state == "waiting"


@pytest.mark.parametrize("text", ["", "{", "[3]"])
def test_a_state_that_cannot_be_read_says_nothing(root, text):
    run_files.state(root / "seed=1").write_text(text)
    assert standings(root, PLAN)[1].state == "waiting"


def test_a_run_records_how_far_it_is_and_how_it_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(states, "BEAT", 0.01)
    with states.kept(tmp_path) as on_step:
        on_step(20, 2.5)
        on_step(40, 1.5)
        while states.read(tmp_path).get("step") != 40:
            time.sleep(0.01)
        assert states.is_trained_now(tmp_path)
    assert states.read(tmp_path)["state"] == "running"  # until it is evaluated
    with pytest.raises(KeyboardInterrupt), states.kept(tmp_path):
        raise KeyboardInterrupt
    assert states.read(tmp_path)["state"] == "paused"


def test_the_time_left_is_that_of_all_runs_as_many_at_a_time_as_now():
    running = [of("running", 50, 5.0), of("running", 60, 5.0)]
    assert seconds_left([*running, of("waiting"), of("finished", 100), of("failed")]) == 19.0
    assert seconds_left([of("waiting"), of("finished", 100)]) is None
    assert summary([*running, of("failed")]) == ("0 of 3 done, 2 running, 1 failed, about 9 s left")
    assert [told(seconds) for seconds in (100, 130, 9000)] == ["100 s", "2.2 min", "2.5 h"]


def test_the_view_has_a_line_for_each_run_at_work_and_one_for_the_sweep(root):
    console = Console(file=io.StringIO(), width=120)
    console.print(Board(root).drawn())
    run, failure, whole = (line.strip() for line in console.file.getvalue().splitlines())
    assert run.startswith("seed=1")
    assert run.endswith("40/100  30 s left  loss 1.250")
    assert failure == "seed=2 failed: it is [bad]"
    assert whole == "0 of 5 done, 1 running, 1 failed, about 107 s left"


def test_a_terminal_shows_the_view_and_other_output_plain_lines(root, monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")  # as notebooks do
    with shown(Board(root)) as say:
        say("started [seed=0]")
    assert capsys.readouterr().out == "started [seed=0]\n"
    screen = io.StringIO()
    terminal = Console(file=screen, force_terminal=True, width=120, markup=False, highlight=False)
    monkeypatch.setattr(view, "Console", lambda **_: terminal)
    with shown(Board(root)) as say:
        say("started [seed=0]")
    assert "started [seed=0]" in screen.getvalue()
    assert "40/100" in screen.getvalue()


def test_what_a_view_cannot_read_just_now_stays_as_it_was(root):
    board = Board(root)
    before = board.runs()
    run_files.plan(root).write_text("{")
    assert board.runs() == before


def test_a_line_is_said_of_each_run_whose_state_has_changed():
    first = [of("running", 9, number=1), of("waiting", number=2), of("failed", why="seed=3 failed")]
    assert list(changes({}, first)) == [
        "running seed=1: at step 9 of 100",
        "failed seed=1: seed=3 failed",
    ]
    then = [of("finished", 100, said="bleu 9.00 at step 100"), of("waiting", number=2)]
    before = {"seed=1": "running", "seed=2": "waiting"}
    assert list(changes(before, then)) == ["finished seed=1: bleu 9.00 at step 100"]
    assert list(changes(before, then[1:])) == []


def test_watching_ends_when_no_run_is_left_to_be_made(root, monkeypatch, capsys):
    with pytest.raises(InputError, match="holds no plan of a sweep"):
        watch(root / "nothing")
    monkeypatch.setattr(standing, "_is_done", lambda *_: True)

    def later(_):
        for label in ("seed=1", "seed=2"):
            told_of(root, label, states.FAILED, why="it is bad")

    monkeypatch.setattr(view.time, "sleep", later)
    watch(root)
    out = capsys.readouterr().out.splitlines()
    assert "running seed=1: at step 40 of 100" in out
    assert out[-1] == "5 of 5 done"


def test_a_dry_run_measures_a_step_of_each_system_and_writes_nothing(tmp_path):
    root = tmp_path / "sweep"
    flags = ("sweep", f"--workdir={root}", *SMALL, "--train.steps=900000", "--grid.seed=0,1")
    *runs, needed = works(*flags, "--jobs=3", "--dry_run").stdout.splitlines()
    assert [line.split(":")[0] for line in runs] == ["   1 seed=0", "   2 seed=1"]
    (first, second) = (float(line.split()[5]) for line in runs)
    assert 0 < first == second < 1
    longest = runs[0].split(": ")[-1]  # both run at the same time
    assert needed == f"about {longest}, 3 at a time, without validations and evaluations"
    assert not root.exists()


def test_runs_are_listed_though_one_is_damaged(root):
    damaged = run_files.checkpoints(root / "seed=3") / "60" / "facts"
    damaged.mkdir()
    (damaged / "metadata").write_text("{")
    listed = works("sweep", f"--workdir={root}", "--list").stdout.splitlines()
    assert len(listed) == 1 + len(PLAN.runs)
    assert works("sweep", f"--workdir={root}", "--list", "--only=2").stdout.startswith("   2 ")
