"""Engines that make the runs of a sweep: what they are told, and what becomes of their jobs."""

import os
import pickle
import re
import shlex
import signal
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from attn_jax.config import Experiment
from attn_jax.errors import InputError
from attn_jax.runs import elsewhere, one_run, plans, view
from attn_jax.runs.engines import needed
from attn_jax.runs.on_ray import Ray, Tasks
from attn_jax.runs.on_slurm import Slurm
from attn_jax.runs.one_run import OneRun
from attn_jax.runs.plans import Plan
from attn_jax.runs.standing import FAILED, FINISHED, RUNNING, WAITING, Standing
from tests.experiments.programs import refused

PLAN = Plan({f"seed={seed}": {"seed": seed} for seed in range(3)})


@pytest.fixture
def worker(tmp_path, monkeypatch):
    """Makes a run whose worker is a script of a shell, in place of Python."""

    def made(script, **options):
        program = tmp_path / "python"
        program.write_text(f"#!/bin/bash\ncd {shlex.quote(str(tmp_path))}\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setattr(one_run, "sys", SimpleNamespace(executable=program, stderr=sys.stderr))
        monkeypatch.setattr(one_run, "PAUSE", 0.01)
        return OneRun(tmp_path / "sweep", 3, **options)

    return made


def test_a_run_is_made_by_a_worker_that_joins_the_sweep(worker, tmp_path):
    run = worker('echo "$@ $CORES $PWD" >said', environment={"CORES": "2"})
    assert run() == ""
    flags = f"--workdir={tmp_path}/sweep --join --only=3 --jobs=1"
    assert (tmp_path / "said").read_text() == f"-m attn_jax sweep {flags} 2 {tmp_path}\n"


def test_a_run_that_fails_tells_why(worker):
    assert worker("echo at work; echo note >&2; echo 'error: it is bad' >&2; exit 2")() == (
        "it is bad"
    )
    assert worker("exit 9")() == "status 9"


def test_a_run_that_someone_else_has_interrupted_goes_on(worker, tmp_path):
    assert worker("echo begun >>times; [ $(wc -l <times) = 3 ] || exit 75")() == ""
    assert (tmp_path / "times").read_text() == "begun\n" * 3


SAVES = "trap 'echo saved >>saved; exit 75' TERM; touch begun; while true; do sleep 0.02; done"


def wait_for(file):
    while not file.exists():
        time.sleep(0.01)


def test_a_notice_of_a_cluster_reaches_only_who_hands_it_on(worker, tmp_path):
    run, ends = worker(SAVES), []
    thread = threading.Thread(target=lambda: ends.append(run._work()[0]))
    thread.start()
    wait_for(tmp_path / "begun")
    for number in one_run.NOTICES:
        run._process.send_signal(number)
    time.sleep(0.1)
    assert run._process.poll() is None
    run.save()
    thread.join()
    assert ends == [75]
    run.save()  # another notice
    assert (tmp_path / "saved").read_text() == "saved\n"


def test_an_interrupt_saves_the_run(worker, tmp_path):
    def interrupt():
        wait_for(tmp_path / "begun")
        while not run._is_told:  # an exception may be lost in code that can raise none
            signal.raise_signal(signal.SIGINT)
            time.sleep(1)

    run = worker(SAVES)
    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        run()
    assert (tmp_path / "saved").exists()


class Made:
    """An engine that only notes what it is told; asked for the third time, its jobs are over."""

    def __init__(self, reasons=None):
        self.noted, self.asked, self.reasons, self.told = [], 0, reasons or {}, "jobs are made"

    def check(self):
        self.noted.append("check")

    def start(self, root, numbers, at_once):
        self.noted.append((numbers, at_once))
        return self

    def are_over(self):
        self.asked += 1
        return self.asked > 2

    def why(self, number):
        return self.reasons.get(number, "")

    def leave(self, interrupted):
        self.noted.append(interrupted)


def stand(label, state, why=""):
    return Standing(PLAN.numbers[label], label, state, 0, 10, 0.0, "", why)


def follow(tmp_path, monkeypatch, engine, states, wanted=PLAN.runs):
    """Has an engine make runs, which are in these states at one look after another."""
    plans.add(tmp_path, PLAN)
    looks = iter(states)
    last = {}

    def standings(*_):
        last.update(next(looks, {}))
        return [stand(label, *last.get(label, [WAITING])) for label in PLAN.runs]

    monkeypatch.setattr(view, "standings", standings)
    monkeypatch.setattr(view, "LOOK_EVERY", 0.0)
    monkeypatch.setattr(
        elsewhere, "is_finished", lambda folder, *_: last.get(folder.name, [""])[0] == FINISHED
    )
    elsewhere.make(engine, tmp_path, PLAN, dict.fromkeys(wanted, Experiment()), 2)


def test_runs_elsewhere_are_followed_until_no_job_is_left(tmp_path, monkeypatch, capsys):
    engine = Made()
    done = [{label: [RUNNING]} for label in PLAN.runs] + [
        {label: [FINISHED] for label in PLAN.runs}
    ]
    follow(tmp_path, monkeypatch, engine, done)
    assert engine.noted == [([1, 2, 3], 2), False]
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "jobs are made"
    assert [line for line in said if line.startswith("finished")] == [
        f"finished {label}" for label in PLAN.runs
    ]


def test_a_run_that_outlives_its_job_is_waited_for(tmp_path, monkeypatch):
    engine = Made()
    follow(
        tmp_path,
        monkeypatch,
        engine,
        [{"seed=1": [RUNNING]}, *[{}] * 9, {"seed=1": [FINISHED]}],
        ["seed=1"],
    )
    assert engine.noted == [([2], 2), False]
    assert engine.asked > 3


def test_each_run_that_was_not_made_is_told_with_its_reason(tmp_path, monkeypatch):
    engine = Made({2: "no such program", 3: ""})
    with pytest.raises(InputError) as raised:
        follow(tmp_path, monkeypatch, engine, [{"seed=0": [FAILED, "seed=0 failed: it is bad"]}])
    assert str(raised.value) == (
        "seed=0 failed: it is bad; seed=1 is not finished: no such program; "
        "seed=2 is not finished: its process has ended"
    )
    assert engine.noted[-1] is False


def test_an_interrupt_is_handed_on_to_the_engine(tmp_path, monkeypatch):
    engine = Made()
    engine.are_over = lambda: signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        follow(tmp_path, monkeypatch, engine, [{}])
    assert engine.noted[-1] is True


def test_what_is_not_installed_is_told_with_its_extra():
    with pytest.raises(InputError, match=r"executor=ray needs no_ray, .* 'attn-jax\[ray\]'"):
        needed("no_ray", "ray")


def test_options_of_another_executor_are_refused(tmp_path):
    line = refused("sweep", f"--workdir={tmp_path}", "--grid.seed=0,1", "--ray.cpus=2")
    assert line == "error: --ray.cpus is for --executor=ray"
    flags = [f"--workdir={tmp_path}", "--grid.seed=0,1", "--list"]
    assert refused("sweep", *flags, "--slurm.time=30") == (
        "error: --slurm.time is for --executor=slurm"
    )
    assert refused("sweep", *flags, "--dry_run") == (
        "error: --list tells how far runs are, --dry_run the time they need: give one"
    )
    assert refused("sweep", *flags, "--executor=ray") == (
        "error: --list and --dry_run make no runs: leave out --executor"
    )
    assert refused("sweep", f"--workdir={tmp_path}", "--dry_run", "--train.steps=9") == (
        "error: without a grid, --list and --dry_run take the plan as it is: leave out "
        "--train.steps"
    )


def test_an_unknown_or_impossible_option_is_refused():
    with pytest.raises(InputError, match="unknown option of sbatch 'partitoin'"):
        Slurm({"partitoin": "all"})
    with pytest.raises(InputError, match="cpus must be at least 1"):
        Ray(cpus=0)


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """A folder with commands of Slurm that only note what they get."""
    pytest.importorskip("submitit", reason="submitit is not installed")
    commands = tmp_path / "bin"
    commands.mkdir()
    for name, script in {
        "srun": "true",
        "sbatch": f"cp $1 {shlex.quote(str(tmp_path))}/batch; echo Submitted batch job 12",
        "squeue": "echo 12_1 all",
    }.items():
        (commands / name).write_text(f"#!/bin/bash\n{script}\n")
        (commands / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{commands}:{os.environ['PATH']}")
    return commands


def test_slurm_gets_an_array_of_jobs_with_the_options(tmp_path, slurm):
    engine = Slurm({"partition": "gpu", "cpus-per-task": "2", "signal": "USR2@300"})
    engine.check()
    jobs = engine.start(tmp_path / "sweep", [1, 3, 4], at_once=2)
    assert "3 jobs: 12. " in jobs.told
    lines = (tmp_path / "batch").read_text().splitlines()
    for line in [
        "array=0-2%2", "partition=gpu", "cpus-per-task=2", "signal=USR2@300", "time=1:00:00"
    ]:  # fmt: skip
        assert f"#SBATCH --{line}" in lines
    assert "#SBATCH --requeue" in lines
    assert any(line.startswith("srun ") and "--cpus-per-task=2" in line for line in lines)
    run = jobs._jobs[3].submission().function
    assert (run.root, run.number) == (tmp_path / "sweep", 3)


@pytest.mark.parametrize(
    ("script", "are_over"),
    [
        ("echo 12_1 all; test $2 = --jobs=12", False),
        ("true", True),
        ("echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1", True),
        ("echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1", False),
    ],
)
def test_jobs_are_over_once_they_have_left_the_queue(tmp_path, slurm, script, are_over):
    (slurm / "squeue").write_text(f"#!/bin/bash\n{script}\n")
    jobs = Slurm().start(tmp_path / "sweep", [1, 2], at_once=0)
    assert jobs.are_over() == are_over
    assert not jobs.are_over()  # not asked again at once
    assert re.fullmatch(r"there is no result of job 12_1 \(see .*/12_1_0_log.err\)", jobs.why(2))
    for number, said in enumerate(["", "it is bad"]):
        file = jobs._jobs[number + 1].paths.result_pickle
        file.write_bytes(pickle.dumps(("success", said)))
    assert jobs.are_over()
    assert [jobs.why(1), jobs.why(2)] == ["", "it is bad"]


def test_why_slurm_cannot_be_used_is_told(tmp_path, slurm):
    (slurm / "sbatch").write_text(
        "#!/bin/bash\necho 'sbatch: error: invalid partition' >&2; exit 1"
    )
    with pytest.raises(InputError, match=r"Slurm refuses the jobs: .*invalid partition"):
        Slurm().start(tmp_path / "sweep", [1, 2], at_once=0)
    (slurm / "srun").unlink()
    if not any((Path(folder) / "srun").exists() for folder in os.environ["PATH"].split(":")):
        with pytest.raises(InputError, match="there is no Slurm here"):
            Slurm().check()


class FakeRay:
    """Tasks that end when they are told to."""

    def __init__(self):
        self.made, self.ended, self.cancelled, self.is_shut = [], set(), [], False

    def remote(self, run):
        self.made.append(run)
        return run

    def wait(self, tasks, num_returns, timeout):
        done = [task for task in tasks if task in self.ended]
        return done, [task for task in tasks if task not in self.ended]

    def get(self, task):
        if task == "lost":
            raise RuntimeError("the worker died")
        return f"{task} failed"

    def cancel(self, task):
        self.cancelled.append(task)
        self.ended.add(task)

    def shutdown(self):
        self.is_shut = True


def test_ray_has_so_many_tasks_at_a_time():
    ray = FakeRay()
    tasks = Tasks(ray, ray, {1: "a", 2: "b", 4: "lost"}, at_once=2)
    assert not tasks.are_over()
    assert not tasks.are_over()
    assert ray.made == ["a", "b"]
    ray.ended.add("b")
    assert not tasks.are_over()
    assert ray.made == ["a", "b", "lost"]
    ray.ended |= {"a", "lost"}
    assert tasks.are_over()
    assert tasks.why(1) == "a failed"
    assert tasks.why(4) == "RuntimeError: the worker died"
    tasks.leave(interrupted=False)
    assert (ray.cancelled, ray.is_shut) == ([], True)


def test_an_interrupt_ends_the_tasks_of_ray_that_are_at_work():
    ray = FakeRay()
    tasks = Tasks(ray, ray, {1: "a", 2: "b", 3: "c"}, at_once=2)
    tasks.are_over()
    ray.ended.add("a")
    tasks.leave(interrupted=True)
    assert (ray.cancelled, ray.is_shut) == (["b"], True)
