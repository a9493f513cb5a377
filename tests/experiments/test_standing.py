"""How far a sweep is, as its files tell it, in a terminal and elsewhere."""

import io
import os
import time

import numpy as np
import pytest
from rich.console import Console

from attn_jax.errors import InputError
from attn_jax.records import journal, run_files, states
from attn_jax.records.progress import Progress
from attn_jax.runs import plans, standing
from attn_jax.runs.measuring import Cost, Work
from attn_jax.runs.plans import Plan
from attn_jax.runs.standing import (
    Board,
    Standing,
    changes,
    seconds_left,
    shown,
    standings,
    summary,
    watch,
    with_costs,
)
from attn_jax.training.checkpoints import WritableCheckpoints
from tests.experiments.programs import SMALL, works
from tests.stages import full

pytestmark = full

OPTIONS = {"train.steps": 100, "train.valid_every": 30}
PLAN = Plan({f"seed={seed}": {"seed": seed, **OPTIONS} for seed in range(5)})
NO_PROCESS = 2**22 + 1  # more than the largest id of a process


def of(state, step=0, number=1, said="", why="", left=Work(), cost=Cost(), options=()):  # noqa: B008
    return Standing(
        number, f"seed={number}", state, step, 100, left, cost, said, why, frozenset(options)
    )


def told_of(root, label, state=states.RUNNING, **said):
    at = {"machine": states.machine(), "pid": os.getpid()}
    states.tell(root / label, state, **at | said)


@pytest.fixture
def root(tmp_path):
    """A sweep whose first run is waiting, and the others running, failed, stopped and lost."""
    plans.add(tmp_path, PLAN)
    told_of(tmp_path, "seed=1", step=40, loss=1.25, start=5.0)
    told_of(tmp_path, "seed=2", states.FAILED, why="it is [bad]")
    record = {"step": 60, "metric": "bleu", "valid_bleu": 7.5, "steps_per_second": 4.0}
    record["seconds"] = 21.0  # of which 15 are steps, and 6 compilation
    told_of(tmp_path, "seed=3", states.PAUSED, validation=3.0)
    leaves = {"x": np.zeros(3, np.float32)}
    checkpoints = WritableCheckpoints(tmp_path / "seed=3", 1)
    checkpoints.save(60, leaves, leaves, Progress(validated=60), (7.5, -2.0))
    journal.append(tmp_path / "seed=3", record)
    told_of(tmp_path, "seed=4", pid=NO_PROCESS)
    return tmp_path


def test_each_run_stands_as_its_files_say(root):
    found = standings(root, PLAN)
    assert [run.state for run in found] == ["waiting", "running", "failed", "paused", "waiting"]
    assert [run.step for run in found] == [0, 40, 0, 60, 0]
    assert found[1].said == "loss 1.250"
    assert found[1].left == Work(0, 0, steps=60, validations=4, evaluations=1)
    assert found[2].why == "seed=2 failed: it is [bad]"
    assert found[2].left == Work()
    assert found[3].said == "bleu 7.50 at step 60"
    assert found[3].left == Work(1, 1, steps=40, validations=2, evaluations=1)
    assert found[0].left == Work(1, 1, steps=100, validations=4, evaluations=1)
    assert found[3].cost[1:4] == (6.0, 0.25, 3.0)


def test_a_run_takes_what_it_took_so_far_or_else_what_those_like_it_took(root):
    first, second, _, third, _ = (run.cost for run in with_costs(standings(root, PLAN)))
    # Until one is known, a test takes as long as a validation.
    assert first == second == third == Cost(5.0, 6.0, 0.25, 3.0, evaluation=3.0)
    dot, heads = ("model.score", "dot"), ("model.heads", "2")
    runs = [
        of("finished", cost=Cost(1, 2, 3, 4, 5), options={dot, heads}),
        of("finished", cost=Cost(9, 9, 9, 9, 9), options={("model.score", "gmm")}),
        of("waiting", options={dot, ("model.heads", "4")}),
        of("running", cost=Cost(step=7), options={dot, heads}),
        of("waiting", options={("model.score", "last")}),
    ]
    costs = [run.cost for run in with_costs(runs)]
    assert costs[2] == Cost(1, 2, 5, 4, 5)  # of two runs with one option in common
    assert costs[3] == Cost(1, 2, 7, 4, 5)
    assert costs[4] == Cost(5, 5.5, 7, 6.5, 7)  # of two kinds that are equally far from it


def test_a_run_that_is_being_started_is_at_work(root):
    states.starting(root / "seed=0")
    run = standings(root, PLAN)[0]
    assert (run.state, run.left.starts, run.left.compilations) == ("running", 1, 1)
    states.starting(root / "seed=1")  # another process trains it
    assert states.read(root / "seed=1")["step"] == 40
    states.stopped(root / "seed=0")
    assert standings(root, PLAN)[0].state == "waiting"


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
    with states.kept(tmp_path) as note:
        note(step=20, loss=2.5)
        note(step=40, loss=1.5)
        while states.read(tmp_path).get("step") != 40:
            time.sleep(0.01)
        assert states.is_trained_now(tmp_path)
    assert states.read(tmp_path)["state"] == "running"  # until it is evaluated
    with pytest.raises(KeyboardInterrupt), states.kept(tmp_path):
        raise KeyboardInterrupt
    assert states.read(tmp_path)["state"] == "paused"


def test_a_run_keeps_what_its_parts_took_whatever_becomes_of_it(tmp_path):
    states.starting(tmp_path)
    with states.kept(tmp_path) as note:
        note(validation=2.5)
    states.finish(tmp_path, evaluation=7.0)
    states.starting(tmp_path)
    said = states.read(tmp_path)
    assert (said["validation"], said["evaluation"]) == (2.5, 7.0)
    assert 0 <= said["start"] < 5


def test_the_time_left_counts_all_that_is_left_as_many_runs_at_a_time_as_now():
    cost = Cost(start=10, compilation=20, step=0.1, validation=2, evaluation=5)
    whole, half = Work(1, 1, 100, 4, 1), Work(0, 0, 50, 2, 1)  # 53 s, 14 s
    running = [of("running", 50, left=half, cost=cost), of("running", 50, left=half, cost=cost)]
    assert seconds_left([*running, of("waiting", left=whole), of("failed")]) == 14 + 53
    assert seconds_left([*running, *[of("waiting", left=whole)] * 3]) == 14 + 2 * 53
    assert seconds_left([running[0], *[of("waiting", left=whole)] * 3]) == 14 + 3 * 53
    assert summary([*running, of("failed")]) == (
        "0 of 3 done, 2 running, 1 failed, about 14 s left"
    )
    # Between two runs, one is missing for a moment.
    assert seconds_left([running[0], *[of("waiting", left=whole)] * 3], places=2) == 2 * 53
    assert summary([of("finished", cost=cost)]) == "1 of 1 done"


def test_nothing_is_said_of_the_time_before_a_validation_is_known():
    half = Work(steps=50, validations=2)
    for cost, said in [(Cost(3.0, 0.0, 0.1), ""), (Cost(3.0, 0.0, 0.1, 2.0), ", about 9 s left")]:
        assert summary([of("running", left=half, cost=cost)]) == f"0 of 1 done, 1 running{said}"


def test_the_view_has_a_line_for_each_run_at_work_and_one_for_the_sweep(root):
    console = Console(file=io.StringIO(), width=120)
    console.print(Board(root).drawn())
    run, failure, whole = (line.strip() for line in console.file.getvalue().splitlines())
    assert run.startswith("seed=1")
    assert run.endswith("40/100  30 s left  loss 1.250")  # with 4 validations and the test
    assert failure == "seed=2 failed: it is [bad]"
    assert whole == "0 of 5 done, 1 running, 1 failed, about 2.7 min left"


def test_a_terminal_shows_the_view_and_other_output_plain_lines(root, monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")  # as notebooks do
    with shown(Board(root)) as say:
        say("started [seed=0]")
    assert capsys.readouterr().out == "started [seed=0]\n"
    screen = io.StringIO()
    terminal = Console(file=screen, force_terminal=True, width=120, markup=False, highlight=False)
    monkeypatch.setattr(standing, "Console", lambda **_: terminal)
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

    monkeypatch.setattr(standing.time, "sleep", later)
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
    assert " 90000 validations of " in runs[0]
    longest = runs[0].split("test ")[-1]  # both run at the same time
    assert needed == f"about {longest}, 3 at a time"
    assert not root.exists()


def test_runs_are_listed_though_one_is_damaged(root):
    run_files.manifest(root / "seed=3").write_text("{")
    listed = works("sweep", f"--workdir={root}", "--list").stdout.splitlines()
    assert len(listed) == 1 + len(PLAN.runs)
    assert works("sweep", f"--workdir={root}", "--list", "--only=2").stdout.startswith("   2 ")
