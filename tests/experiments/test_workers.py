"""Workers over one folder: claims, which of them hold, and what becomes of those that died."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from attn_jax.errors import InputError
from attn_jax.records import claims, run_files
from attn_jax.records.claims import Held, Watch, beating, keeping, last, take
from attn_jax.runs import plans, working
from attn_jax.runs.folder import steps_done
from attn_jax.runs.plans import Plan
from attn_jax.runs.slots import Slot
from attn_jax.runs.sweeping import join_sweep
from attn_jax.runs.working import Interrupted, InUse, Worker
from tests.experiments.programs import SMALL, refused, works
from tests.stages import full

pytestmark = full

PLAN = Plan({f"seed={seed}": {"seed": seed} for seed in range(5)})


def test_of_many_workers_one_follows_a_claim(tmp_path):
    for number in (1, 2, 3):
        before = last(tmp_path)
        with ThreadPoolExecutor(8) as pool:
            held = list(pool.map(lambda _, before=before: take(tmp_path, before), range(8)))
        assert sum(one is not None for one in held) == 1
        assert last(tmp_path).number == number
    assert [file.name for file in tmp_path.iterdir()] == ["3"]


def test_a_claim_is_dead_once_it_has_not_changed_for_long(tmp_path, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(claims.time, "monotonic", lambda: now[0])
    held, watch = take(tmp_path, None), Watch()
    for seconds, beats, alive, dead in [
        (0, False, False, False),  # at the first look, nothing is known
        (claims.DEAD - 1, False, False, False),
        (0, True, True, False),
        (claims.DEAD - 1, False, True, False),
        (2, False, False, True),
        (0, True, True, False),  # it was only slow
    ]:
        now[0] += seconds
        if beats:
            held.beat()
        watch.look(tmp_path, last(tmp_path))
        assert (watch.is_alive(tmp_path), watch.is_dead(tmp_path)) == (alive, dead)


def test_who_has_been_taken_over_hears_it_and_writes_no_more(tmp_path, monkeypatch):
    monkeypatch.setattr(claims, "BEAT", 0.01)
    slow, heard = take(tmp_path, None), threading.Event()
    with beating(slow, heard.set):
        quick = take(tmp_path, last(tmp_path))
        assert heard.wait(10)
    slow.tell(state=claims.FAILED)
    assert slow.is_lost
    assert not quick.is_lost
    assert last(tmp_path).state == claims.RUNNING


def test_who_looked_long_ago_takes_nothing_over(tmp_path):
    looked = last(tmp_path)
    take(tmp_path, looked)
    newest = take(tmp_path, last(tmp_path))
    assert take(tmp_path, looked) is None
    assert not newest.is_lost
    assert [file.name for file in tmp_path.iterdir()] == ["2"]


def test_a_worker_leaves_beating_to_the_process_that_it_has_started(tmp_path):
    held = take(tmp_path, None)
    child = Held(held.file)
    child._said["pid"] = os.getpid() + 1
    child.tell(state=claims.RUNNING, step=20)
    held.beat()
    assert last(tmp_path).said["step"] == 20


def test_a_run_keeps_its_claim_and_says_how_far_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(claims, "BEAT", 0.01)
    held = take(tmp_path, None)
    with keeping(held.file, lambda: None) as on_step:
        for step in (20, 40, 60):
            on_step(step, 1.5)
            time.sleep(0.02)
        for _ in range(500):
            time.sleep(0.01)
            if last(tmp_path).said.get("step") == 60:
                break
    said = last(tmp_path).said
    assert (said["step"], said["loss"], said["pid"]) == (60, 1.5, os.getpid())
    assert 0 < said["steps_per_second"] < 40 / 0.04
    with pytest.raises(InputError, match="only a sweep makes them"), keeping(tmp_path / "9", print):
        pass


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'"a"', b"\xff"])
def test_a_claim_that_is_being_written_is_one(tmp_path, text):
    (tmp_path / "7").write_bytes(text)
    claim = last(tmp_path)
    assert (claim.number, claim.state, claim.is_of_this_machine) == (7, claims.RUNNING, False)


@pytest.fixture
def made(monkeypatch):
    """Runs that are only noted; those in `fails` raise."""
    runs, fails = [], {}

    def train_in(folder, *_):
        if folder.name in fails:
            raise fails[folder.name]
        runs.append(folder.name)

    monkeypatch.setattr(working, "train_in", train_in)
    monkeypatch.setattr(working, "is_done", lambda folder, _: folder.name in runs)
    monkeypatch.setattr(working, "LOOK_AGAIN", 0.01)
    return runs, fails


def worker(root, told=None):
    tell = print if told is None else told.append
    return Worker(root, PLAN.runs, dict.fromkeys(PLAN.runs), tell, lambda: "so far")


def test_workers_share_the_runs(tmp_path, made):
    runs, _ = made
    workers = [worker(tmp_path) for _ in range(3)]
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda each: each.work([Slot([], {})] * 2), workers))
    assert sorted(runs) == list(PLAN.runs)
    for label in PLAN.runs:
        assert last(run_files.claims(tmp_path, label)).state == claims.FINISHED


def test_a_run_that_has_failed_is_tried_again_by_workers_that_begin_later(tmp_path, made):
    runs, fails = made
    fails["seed=1"] = InputError("seed=1 failed: it is bad")
    fails["seed=2"] = Interrupted("seed=2 was interrupted")
    first, second = worker(tmp_path), worker(tmp_path)
    with pytest.raises(InputError, match=r"^seed=1 failed: it is bad; seed=2 was interrupted$"):
        first.work([Slot([], {})])
    assert runs == ["seed=0", "seed=3", "seed=4"]
    fails.pop("seed=2")
    with pytest.raises(InputError, match=r"^seed=1 failed: it is bad$"):
        second.work([Slot([], {})])
    assert runs[3:] == ["seed=2"]
    fails.clear()
    worker(tmp_path).work([Slot([], {})])
    assert runs[4:] == ["seed=1"]


def elsewhere(root, label):
    """A claim that another machine holds."""
    held = take(run_files.claims(root, label), None)
    held._said["machine"] = "another"
    held.tell()
    return held


def test_a_claim_of_another_machine_is_left_while_it_beats_and_else_taken_over(
    tmp_path, made, monkeypatch
):
    runs, _ = made
    monkeypatch.setattr(claims, "DEAD", 1.0)
    monkeypatch.setattr(claims, "BEAT", 0.02)
    told = []
    dead, alive = elsewhere(tmp_path, "seed=1"), elsewhere(tmp_path, "seed=2")
    with beating(alive, lambda: None):
        worker(tmp_path, told).work([Slot([], {})] * 2)
    assert sorted(runs) == ["seed=0", "seed=1", "seed=3", "seed=4"]
    assert dead.is_lost
    assert not alive.is_lost
    assert told[-1] == "left to other processes, which are training them: seed=2"


def test_a_run_that_a_program_trains_by_itself_is_no_failure(tmp_path, made):
    _, fails = made
    fails["seed=1"] = InUse("left seed=1 alone: in use")
    told = []
    worker(tmp_path, told).work([Slot([], {})])
    assert told[-1] == "left to other processes, which are training them: seed=1"
    assert last(run_files.claims(tmp_path, "seed=1")).state == claims.PAUSED


def test_a_plan_is_written_once_and_read_whole(tmp_path):
    assert plans.read(tmp_path) == Plan({})
    assert plans.add(tmp_path, PLAN) == PLAN
    file = run_files.plan(tmp_path)
    before = file.stat().st_mtime_ns
    assert plans.add(tmp_path, PLAN) == PLAN
    assert file.stat().st_mtime_ns == before
    assert plans.read(tmp_path) == PLAN
    assert plans.add(tmp_path, Plan({})) == PLAN  # as a worker does that joins
    more = PLAN.with_more(Plan({"seed=1": {"seed": 1, "train.steps": 9}, "seed=7": {"seed": 7}}))
    assert more.numbers == {**PLAN.numbers, "seed=7": 6}
    text = file.read_text()
    others = [text.replace('"seed": 3', '"seed": 4'), text.replace('": 1', '": 2'), text[1:], "{}"]
    for damaged in others:
        file.write_text(damaged)
        with pytest.raises(InputError, match=r"plan.json is (missing or )?damaged"):
            plans.read(tmp_path)


def test_processes_that_plan_at_the_same_time_keep_the_runs_of_each_other(tmp_path):
    def plan(seed):
        return plans.add(tmp_path, Plan({f"seed={seed}": {"seed": seed}}))

    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(plan, range(40)))
    whole = plans.read(tmp_path)
    assert sorted(given["seed"] for given in whole.runs.values()) == list(range(40))
    for seed, one in enumerate(made):  # numbers that a process has told its jobs stay
        assert one.numbers[f"seed={seed}"] == whole.numbers[f"seed={seed}"]


def test_workers_take_a_run_or_a_part_of_the_plan():
    assert list(PLAN.chosen(only=2)) == ["seed=1"]
    parts = [list(PLAN.chosen(part=f"{which}/3")) for which in (1, 2, 3)]
    assert parts == [["seed=0", "seed=3"], ["seed=1", "seed=4"], ["seed=2"]]
    with pytest.raises(InputError, match="run 2 is not of the part 1/3"):
        PLAN.chosen(only=2, part="1/3")
    for wrong in ({"only": 6}, {"only": 0}, {"part": "0/3"}, {"part": "4/3"}, {"part": "half"}):
        with pytest.raises(InputError, match=r"there is no run|is no part of the runs"):
            PLAN.chosen(**wrong)


def test_a_worker_that_joins_goes_on_with_the_run_of_one_that_was_killed(tmp_path):
    root = tmp_path / "sweep"
    with pytest.raises(InputError, match="holds no plan of a sweep"):
        join_sweep(root)
    small = [*SMALL, "--train.steps=1000", "--train.save_every=1s", "--train.valid_every=1000"]
    command = [sys.executable, "-m", "attn_jax", "sweep", f"--workdir={root}", *small]
    first = subprocess.Popen(
        [*command, "--grid.seed=0,1", "--jobs=1"], stdout=subprocess.DEVNULL, start_new_session=True
    )
    while not steps_done(root / "seed=0") and first.poll() is None:
        time.sleep(0.1)
    os.killpg(first.pid, signal.SIGKILL)  # with its run
    first.wait()
    told = works("sweep", f"--workdir={root}", "--join", "--jobs=1", "--only=1").stdout
    assert "1 runs, 0 of them finished" in told
    assert "started seed=0\nfinished seed=0 (1 of 2 done" in told
    assert "resuming from step" in (root / "seed=0.log").read_text()
    assert not (root / "seed=1").exists()
    line = refused("sweep", f"--workdir={root}", "--join", "--grid.seed=0,1")
    assert line == "error: --join takes the plan as it is: leave out --grid.seed"
