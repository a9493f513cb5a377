"""How the runs of a sweep share cores, GPUs and TPUs."""

import sys

import pytest

from attn_jax.errors import InputError
from attn_jax.runs import executor
from attn_jax.runs.executor import Processes, run_child


@pytest.fixture
def machine(monkeypatch):
    """Simulates a machine with a number of cores, or of devices of another platform."""

    def make(platform, count):
        there = (platform, 1 if platform == "cpu" else count)
        monkeypatch.setattr(executor, "devices", lambda: there)
        cores = set(range(count)) if platform == "cpu" else {0, 1, 2, 3}
        monkeypatch.setattr(executor.os, "sched_getaffinity", lambda _: cores, raising=False)
        for variable in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", *executor.MEMORY_SHARES):
            monkeypatch.delenv(variable, raising=False)

    return make


@pytest.mark.parametrize(
    ("cores", "jobs", "bound"),
    [
        (2, 0, [[0], [1]]),
        (3, 2, [[0, 2], [1]]),
        (2, 3, [[0], [1], [0]]),
        (4, 1, [[0, 1, 2, 3]]),
        (64, 0, [list(range(nth, 64, 8)) for nth in range(8)]),
    ],
)
def test_runs_share_out_the_cores(machine, cores, jobs, bound):
    machine("cpu", cores)
    assert [list(slot.cores) for slot in executor.slots(jobs)] == bound
    assert all(slot.environment == {} for slot in executor.slots(jobs))


def test_there_is_a_run_for_each_core_where_runs_cannot_be_bound(machine, monkeypatch):
    machine("cpu", 2)
    monkeypatch.delattr(executor.os, "sched_getaffinity")
    monkeypatch.setattr(executor.os, "cpu_count", lambda: 3)
    assert executor.slots(0) == [executor.Slot([], {})] * 3
    assert executor.slots(5) == [executor.Slot([], {})] * 5


@pytest.mark.parametrize(
    ("gpus", "jobs", "visible", "memory"),
    [
        (1, 0, ["0"], None),
        (4, 0, ["0", "1", "2", "3"], None),
        (4, 2, ["0,2", "1,3"], None),
        (4, 1, ["0,1,2,3"], None),
        (1, 3, ["0", "0", "0"], "0.30"),
        (2, 3, ["0", "1", "0"], "0.45"),
    ],
)
def test_runs_share_out_the_gpus(machine, gpus, jobs, visible, memory):
    machine("gpu", gpus)
    environments = [slot.environment for slot in executor.slots(jobs)]
    assert [own["CUDA_VISIBLE_DEVICES"] for own in environments] == visible
    assert {own.get("XLA_CLIENT_MEM_FRACTION") for own in environments} == {memory}
    assert not any(slot.cores for slot in executor.slots(jobs))


def test_runs_share_out_the_gpus_that_may_be_seen(machine, monkeypatch):
    machine("gpu", 2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3, GPU-abc")
    visible = [slot.environment["CUDA_VISIBLE_DEVICES"] for slot in executor.slots(0)]
    assert visible == ["3", "GPU-abc"]


def test_what_is_said_of_another_makers_gpus_is_not_of_these(machine, monkeypatch):
    machine("gpu", 2)
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "0")
    visible = [slot.environment["CUDA_VISIBLE_DEVICES"] for slot in executor.slots(0)]
    assert visible == ["0", "1"]


@pytest.mark.parametrize("variable", executor.MEMORY_SHARES)
def test_a_share_of_memory_that_the_user_gives_is_left(machine, monkeypatch, variable):
    """JAX refuses to start if both variables are set."""
    machine("gpu", 1)
    monkeypatch.setenv(variable, "0.3")
    assert not any(executor.MEMORY_SHARES[0] in slot.environment for slot in executor.slots(2))


def test_a_tpu_has_one_run_with_all_of_it(machine):
    machine("tpu", 4)
    assert (
        executor.slots(0) == executor.slots(1) == [executor.Slot([], {"JAX_PLATFORMS": "tpu,cpu"})]
    )
    with pytest.raises(InputError, match=r"^jobs=2: a TPU has one run at a time"):
        executor.slots(2)


def test_jax_says_which_devices_there_are(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=3")
    assert executor.devices() == ("cpu", 3)
    monkeypatch.setenv("JAX_PLATFORMS", "nothing")
    with pytest.raises(InputError, match=r"JAX does not start: .*nothing"):
        executor.devices()


def test_less_than_no_runs_are_refused():
    with pytest.raises(InputError, match="jobs must be at least 0, got -1"):
        executor.slots(-1)


def test_a_run_has_the_environment_of_its_slot(tmp_path, monkeypatch):
    program = tmp_path / "python"
    program.write_text('#!/bin/sh\necho "on GPU $CUDA_VISIBLE_DEVICES of $HOME"\n')
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setenv("HOME", "home")
    log = tmp_path / "one.log"
    slot = executor.Slot([], {"CUDA_VISIBLE_DEVICES": "3"})
    with log.open("w") as output, Processes([slot]) as processes:
        future = processes.submit(run_child, tmp_path / "one", {}, [], output)
        assert future.result() == 0
    assert log.read_text() == "on GPU 3 of home\n"
