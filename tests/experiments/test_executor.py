"""What makes the runs of a sweep: processes of this machine, Slurm, and executors of others."""

import json
import os
import pickle
import shlex
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from attn_jax.errors import InputError
from attn_jax.records import run_files, states
from attn_jax.runs import executor, plans, slurm, sweeping
from attn_jax.runs.executor import HERE, Interrupted, InUse, Processes, Slot, make
from attn_jax.runs.folder import alone, steps_done
from attn_jax.runs.plans import Plan
from attn_jax.runs.slurm import Slurm
from attn_jax.runs.sweeping import Sweep, work
from tests.experiments.programs import SMALL, refused, works
from tests.stages import full

PLAN = Plan({f"seed={seed}": {"seed": seed} for seed in range(4)}, frozenset(["seed=3"]))
SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


def test_each_thread_has_a_slot_of_its_own():
    slots, met = [Slot([], {"N": str(number)}) for number in range(3)], threading.Barrier(3)

    def taken():
        met.wait(10)
        return HERE.slot

    with Processes(slots) as processes:
        futures = [processes.submit(taken) for _ in slots]
        found = [future.result() for future in futures]
        assert sorted(found, key=str) == slots


def test_processes_end_together_and_none_is_started_later():
    ended = []

    def sleep():
        with HERE.processes.started(SLEEP) as process:
            ended.append(process.wait())

    processes = Processes([Slot([], {})] * 2)
    futures = [processes.submit(sleep) for _ in range(2)]
    while len(processes._started) < 2:
        time.sleep(0.01)
    late = processes.submit(sleep)
    processes.end()
    assert ended == [-signal.SIGTERM] * 2
    assert all(future.exception() is None for future in futures)
    assert late.cancelled() or isinstance(late.exception(), Interrupted)


@pytest.fixture
def root(tmp_path):
    plans.add(tmp_path, PLAN)
    return tmp_path


def ends_with(monkeypatch, does):
    """Has processes of runs do something and end with a status, instead of training."""
    called = []

    def run_child(workdir, options, flags, output, folder=""):
        called.append((workdir.name, options, flags))
        return does(workdir)

    monkeypatch.setattr(executor, "run_child", run_child)
    return called


def test_a_run_is_made_with_its_options_of_the_plan(root, monkeypatch):
    called = ends_with(monkeypatch, lambda _: 0)
    for label in ("seed=1", "seed=3"):
        make(str(root), label, "")
    assert called == [
        ("seed=1", {"seed": 1}, []),
        ("seed=3", {"seed": 3}, ["--evaluate_on="]),
    ]


def test_a_run_that_fails_says_why(root, monkeypatch):
    ends_with(monkeypatch, lambda run: states.failed(run, InputError("it is bad")) or 2)
    with pytest.raises(InputError, match=r"^seed=1 failed: it is bad \(see .*seed=1.log\)$"):
        make(str(root), "seed=1", "")
    ends_with(monkeypatch, lambda _: -signal.SIGKILL)  # what was recorded before is forgotten
    with pytest.raises(InputError, match=r"^seed=1 failed: ended by SIGKILL"):
        make(str(root), "seed=1", "")
    assert states.read(root / "seed=1") == {"state": "failed", "why": "ended by SIGKILL"}


@pytest.mark.parametrize("status", [75, 130, -signal.SIGTERM])
def test_a_run_that_a_signal_ended_can_go_on(root, monkeypatch, status):
    ends_with(monkeypatch, lambda _: status)
    with pytest.raises(Interrupted, match=r"^seed=1 was interrupted$"):
        make(str(root), "seed=1", "")
    assert states.read(root / "seed=1") == {"state": "paused"}


def test_a_run_that_another_process_trains_is_left_to_it(root, monkeypatch):
    ends_with(monkeypatch, lambda _: 2)
    with alone(root / "seed=1"), pytest.raises(InUse, match=r"^left seed=1 alone: another process"):
        make(str(root), "seed=1", "")


class Told(Executor):
    """An executor of others, whose calls end as they are told."""

    def __init__(self, **ends):
        self.ends, self.futures = ends, {}

    def submit(self, function, /, *arguments):
        assert function is make
        assert len(pickle.dumps(arguments)) < 1000
        future = self.futures[arguments[1]] = Future()
        end = self.ends.get(arguments[1].replace("=", ""))
        if isinstance(end, Exception):
            future.set_exception(end)
        elif end != "waits":
            future.set_result(None)
        return future


def todo(root, monkeypatch):
    monkeypatch.setattr(sweeping, "is_finished", lambda folder, *_: folder.name == "seed=0")
    return Sweep(root, PLAN, dict.fromkeys(PLAN.runs))


def test_any_executor_makes_the_runs_that_are_not_finished(root, monkeypatch, capsys):
    told = Told(seed1=InUse("left seed=1 alone: x"), seed2=ValueError("worker lost"))
    with pytest.raises(InputError, match=r"^seed=2 failed: ValueError: worker lost$"):
        work(todo(root, monkeypatch), 0, told)
    assert list(told.futures) == ["seed=1", "seed=2", "seed=3"]
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("4 runs, 1 of them finished")
    assert "left to other processes, which are training them: seed=1" in lines
    assert any(line.startswith("finished seed=3 (") for line in lines)


def test_an_interrupt_cancels_what_has_not_begun(root, monkeypatch):
    told = Told(seed1="waits", seed2="waits", seed3="waits")

    def interrupted(futures):
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr(sweeping, "as_completed", interrupted)
    with pytest.raises(KeyboardInterrupt):
        work(todo(root, monkeypatch), 0, told)
    assert all(future.cancelled() for future in told.futures.values())


def test_a_thread_pool_makes_runs_too(tmp_path):
    """As any executor of the standard library's interface; in processes of their own."""
    plans.add(tmp_path, Plan({"one": {"data.name": "nothing"}}))
    with ThreadPoolExecutor(1) as pool:
        error = pool.submit(make, str(tmp_path), "one", "").exception()
    assert str(error).startswith("one failed: unknown data set 'nothing'")
    assert (tmp_path / "one.log").read_text().startswith("error: unknown data set 'nothing'")


def test_options_of_another_executor_are_refused(tmp_path):
    flags = [f"--workdir={tmp_path}", "--grid.seed=0,1", "--list"]
    assert refused("sweep", *flags, "--slurm.time=30") == (
        "error: --slurm.time is for --executor=slurm"
    )
    assert refused("sweep", *flags, "--dry_run") == (
        "error: --list tells how far runs are, --dry_run the time they need: give one"
    )
    assert refused("sweep", *flags, "--executor=slurm") == (
        "error: --list and --dry_run make no runs: leave out --executor"
    )
    assert refused("sweep", f"--workdir={tmp_path}", "--dry_run", "--train.steps=9") == (
        "error: without a grid, --list and --dry_run take the plan as it is: leave out "
        "--train.steps"
    )


def test_an_unknown_option_of_slurm_is_refused():
    with pytest.raises(InputError, match="unknown option of sbatch 'partitoin'"):
        Slurm({"partitoin": "all"})


@pytest.fixture
def commands(tmp_path, monkeypatch):
    """A folder with commands of Slurm that only note what they get."""
    pytest.importorskip("submitit", reason="submitit is not installed")
    commands = tmp_path / "bin"
    commands.mkdir()
    for name, script in {
        "srun": "true",
        "sbatch": f"cp $1 {shlex.quote(str(tmp_path))}/batch; echo Submitted batch job 12",
        "squeue": "echo 12",
    }.items():
        (commands / name).write_text(f"#!/bin/bash\n{script}\n")
        (commands / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{commands}:{os.environ['PATH']}")
    return commands


def test_slurm_gets_a_job_with_the_options(tmp_path, commands):
    given = {"partition": "gpu", "cpus-per-task": "2", "signal": "USR2@300"}
    made = Slurm(given, tmp_path / "jobs")
    future = made.submit(make, str(tmp_path), "seed=1", "here")
    lines = (tmp_path / "batch").read_text().splitlines()
    for line in ["partition=gpu", "cpus-per-task=2", "signal=USR2@300", "time=1:00:00"]:
        assert f"#SBATCH --{line}" in lines
    assert "#SBATCH --requeue" in lines
    assert any(line.startswith("srun ") and "--cpus-per-task=2" in line for line in lines)
    call = made._jobs[future].submission().function
    assert (call.function, call.arguments) == (make, (str(tmp_path), "seed=1", "here"))


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (("success", (None, None)), None),
        (("success", (None, InUse("left it alone"))), "left it alone"),
        (None, r"there is no result of job 12 \(see .*/12_0_log.err\)"),
    ],
)
def test_a_job_that_is_over_has_a_result_or_says_why(tmp_path, commands, monkeypatch, result, said):
    monkeypatch.setattr(slurm, "ASK_EVERY", 0.1)
    made = Slurm(folder=tmp_path / "jobs")
    future = made.submit(make, str(tmp_path), "seed=1", "")
    time.sleep(0.3)
    assert not future.done()  # it is in the queue
    (commands / "squeue").write_text("#!/bin/bash\nexit 1\n")  # and now, it cannot be asked
    if result is not None:
        made._jobs[future].paths.result_pickle.write_bytes(pickle.dumps(result))
    else:
        (commands / "squeue").write_text("#!/bin/bash\ntrue\n")
    error = future.exception(timeout=20)
    assert (error is None) == (said is None)
    if said:
        with pytest.raises(InputError, match=f"^{said}$"):
            raise error


def test_why_slurm_cannot_be_used_is_told(tmp_path, commands):
    (commands / "sbatch").write_text(
        "#!/bin/bash\necho 'sbatch: error: invalid partition' >&2; exit 1"
    )
    with pytest.raises(InputError, match=r"Slurm refuses the job: .*invalid partition"):
        Slurm(folder=tmp_path).submit(make, "", "", "")
    (commands / "srun").unlink()
    if not any((Path(folder) / "srun").exists() for folder in os.environ["PATH"].split(":")):
        with pytest.raises(InputError, match="there is no Slurm here"):
            Slurm(folder=tmp_path)


@full
def test_a_run_that_is_killed_takes_no_other_with_it(tmp_path):
    root = tmp_path / "sweep"
    small = [*SMALL, "--train.steps=600", "--train.save_every=0.5s", "--train.valid_every=600"]
    sweep = ("sweep", f"--workdir={root}", *small, "--grid.seed=0,1,2", "--jobs=2")
    process = subprocess.Popen([sys.executable, "-m", "attn_jax", *sweep])
    while not states.read(root / "seed=0").get("step") and process.poll() is None:
        time.sleep(0.1)
    os.kill(states.read(root / "seed=0")["pid"], signal.SIGKILL)
    assert process.wait() == 2
    for seed in (1, 2):
        assert run_files.evaluation(root / f"seed={seed}", "test").is_file()
    listed = works("sweep", f"--workdir={root}", "--list").stdout.splitlines()
    assert listed[0].split()[:2] == ["1", "failed"]
    assert listed[0].endswith("seed=0 failed: ended by SIGKILL")
    assert "finished seed=0 (3 of 3 done)" in works(*sweep).stdout


@full
def test_runs_save_and_end_with_a_sweep_that_is_killed(tmp_path):
    run = tmp_path / "sweep" / "seed=0"
    small = [*SMALL, "--train.steps=5000", "--train.valid_every=5000", "--train.save_every=0.5s"]
    sweep = ("sweep", f"--workdir={run.parent}", *small, "--grid.seed=0,1", "--jobs=1")
    process = subprocess.Popen([sys.executable, "-m", "attn_jax", *sweep])
    while not steps_done(run) and process.poll() is None:
        time.sleep(0.1)
    process.kill()
    process.wait()
    while states.is_trained_now(run):
        time.sleep(0.1)
    assert states.read(run)["state"] == "paused"


@full
def test_an_interrupt_saves_all_runs_and_the_same_command_goes_on(tmp_path):
    root = tmp_path / "sweep"
    small = [*SMALL, "--train.steps=2000", "--train.valid_every=2000", "--train.save_every=0.5s"]
    sweep = ("sweep", f"--workdir={root}", *small, "--grid.seed=0,1,2", "--jobs=2")
    process = subprocess.Popen([sys.executable, "-m", "attn_jax", *sweep])
    begun = [root / "seed=0", root / "seed=1"]
    while not all(map(steps_done, begun)) and process.poll() is None:
        time.sleep(0.1)
    process.terminate()
    assert process.wait() == 75
    for folder in begun:
        assert states.read(folder)["state"] == "paused"
        assert "saved at step" in folder.with_suffix(".log").read_text()
    assert not (root / "seed=2" / "checkpoints").exists()
    shorter = [word for word in sweep if "steps" not in word]
    told = works(*shorter, "--train.steps=10").stdout
    assert "finished seed=2 (3 of 3 done)" in told  # the others have done more steps already


def test_a_failure_after_training_is_recorded_too(tmp_path):
    """As of an evaluation; one of a process that finds the run in use is not."""
    with states.kept(tmp_path):
        pass
    states.failed(tmp_path, InputError("the test text is gone"))
    assert states.read(tmp_path)["why"] == "the test text is gone"
    with states.kept(tmp_path):
        pass
    other = states.read(tmp_path) | {"pid": os.getppid()}
    run_files.state(tmp_path).write_text(json.dumps(other))
    states.failed(tmp_path, InputError("another process is training"))
    assert states.read(tmp_path) == other
