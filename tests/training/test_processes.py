"""Training in several processes, which meet on this machine."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from attn_jax import train
from attn_jax.cli import distributed
from attn_jax.errors import TRY_AGAIN, InputError
from attn_jax.records import journal
from attn_jax.runs import folder
from attn_jax.training import devices, processes
from attn_jax.training.checkpoints import named_leaves
from attn_jax.translation.loading import load
from tests.experiments.programs import SMALL, refused
from tests.options import train_options
from tests.stages import full

pytestmark = full

OPTIONS = {
    "data.name": "reverse",
    "data.examples": 60,
    "data.held_out": 13,
    "data.longest": 5,
    "model.embedding_size": 8,
    "model.annotation_size": 8,
    "model.hidden_size": 8,
    "model.dropout": 0.3,
    "train.steps": 20,
    "train.valid_every": 10,
    "train.batch_size": 8,
    "train.buckets": 1,
    # Adam's division would magnify the smallest differences.
    "train.optimizer": "sgd",
    "train.learning_rate": 0.5,
    "train.warmup_steps": 0,
}
GRU = {"model.score": "additive(units=8)", "model.readout_size": 8}
LSTM = {"model.cell": "lstm", "model.decoder": "luong_input_feeding", "model.score": "general"}
TRANSFORMER = {
    "model.encoder": "transformer",
    "model.decoder": "transformer",
    "model.score": "scaled_dot",
    "model.heads": 2,
    "model.feedforward_size": 8,
}
LONGER = {"train.steps": 30}


def free_address():
    with socket.socket() as free:
        free.bind(("localhost", 0))
        return f"localhost:{free.getsockname()[1]}"


def begun(place, *calls_of):
    """Processes that begin to train together, each with its calls, and where they answer."""
    address, answers = free_address(), [place / f"{n}.json" for n in range(len(calls_of))]
    command = [sys.executable, "-m", "tests.training.several", address, str(len(calls_of))]
    every = [
        subprocess.Popen([*command, str(number), json.dumps(calls), str(answer)])
        for number, (calls, answer) in enumerate(zip(calls_of, answers, strict=True))
    ]
    return every, answers


def trained_by(place, *calls_of):
    """What these processes answer to their calls, by process."""
    every, answers = begun(place, *calls_of)
    assert [process.wait() for process in every] == [0] * len(every)
    return [json.loads(answer.read_text()) for answer in answers]


def parameters(run):
    (model,) = load(run).models
    return named_leaves(model)


def assert_same(one, other):
    """Both runs have the same parameters, validations and translations."""
    theirs = parameters(other)
    for name, leaf in parameters(one).items():
        np.testing.assert_allclose(theirs[name], leaf, rtol=1e-5, atol=1e-5, err_msg=name)
    for here, there in zip(records(one), records(other), strict=True):
        assert here == pytest.approx(there, rel=1e-5)
    for known, found in zip(translations(one), translations(other), strict=True):
        for name in ("log_probability", "reference_log_probability"):
            assert known.pop(name) == pytest.approx(found.pop(name), rel=1e-4)
        assert known == found


def translations(run):
    return list(map(json.loads, (run / "predictions.test.jsonl").read_text().splitlines()))


def records(run):
    """The validations, without what depends on the clock."""
    untimed = []
    for record in journal.read(run):
        timed = ("seconds", "steps_per_second", "target_tokens_per_second", "metric")
        untimed.append({name: value for name, value in record.items() if name not in timed})
    return untimed


def together(tmp_path, options):
    """A run of one process, and one of two, with the same options."""
    one, two = tmp_path / "one", tmp_path / "two"
    calls = [[options, str(two)]]
    every, answers = begun(tmp_path, calls, calls)
    train(options, one)
    assert [process.wait() for process in every] == [0, 0]
    assert [json.loads(answer.read_text()) for answer in answers] == [[None], [None]]
    return one, two


def test_two_processes_go_where_one_does_and_runs_go_on_with_another_number(tmp_path):
    one, two = together(tmp_path, OPTIONS | GRU)
    assert_same(one, two)
    assert json.loads((two / "run.json").read_text())[0]["devices"]["processes"] == 2
    after_two, after_one = tmp_path / "after_two", tmp_path / "after_one"
    shutil.copytree(two, after_two)
    shutil.copytree(one, after_one)
    calls = [
        [LONGER, str(after_one)],
        [OPTIONS | {"train.batch_size": 7}, str(tmp_path / "uneven")],
        [OPTIONS, str(one)],
    ]
    others = [*calls[:2], [OPTIONS | {"seed": 1}, str(one)]]
    first, second = trained_by(tmp_path, calls, others)
    train(LONGER, one)
    train(LONGER, after_two)
    assert_same(one, after_one)
    assert_same(one, after_two)

    uneven = "train.batch_size=7 cannot be shared evenly by 2 processes"
    assert first[:2] == second[:2] == [None, uneven]
    assert not (tmp_path / "uneven").exists()
    assert "holds a run with other flags: seed was 0 and is now 1" in second[2]
    assert first[2] == f"process 1 says: {second[2]}"


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        LSTM,
        TRANSFORMER,
        GRU | {"train.microbatches": 2, "train.average": 0.9},
    ],
)
def test_two_processes_go_where_one_does(tmp_path, kind):
    assert_same(*together(tmp_path, OPTIONS | kind))


@pytest.mark.slow
def test_two_processes_go_on_with_a_change_as_one_does(tmp_path):
    one, two = together(tmp_path, OPTIONS | GRU)
    changed = LONGER | {"train.batch_size": 4, "train.optimizer": "adadelta"}
    calls = [[changed, str(two)]]
    assert trained_by(tmp_path, calls, calls) == [[None], [None]]
    train(changed, one)
    assert_same(one, two)


@pytest.mark.slow
def test_four_processes_go_where_one_does(tmp_path):
    options = OPTIONS | GRU
    trained_by(tmp_path, *[[[options, str(tmp_path / "four")]]] * 4)
    train(options, tmp_path / "one")
    assert_same(tmp_path / "one", tmp_path / "four")


def programs(workdir, *flags):
    """Two programs that begin to train a run together."""
    command = [sys.executable, "-m", "attn_jax", "train", f"--workdir={workdir}", *SMALL, *flags]
    meeting = [f"--distributed.coordinator={free_address()}", "--distributed.processes=2"]
    return [
        subprocess.Popen(
            [*command, *meeting, f"--distributed.process={number}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(2)
    ]


def until(lines: Iterator[str], text: str) -> str:
    """Reads lines up to one with a text."""
    return next(line for line in lines if text in line)


@pytest.mark.parametrize("killed", [1, pytest.param(0, marks=pytest.mark.slow)])
def test_processes_save_together_and_end_when_one_is_killed(tmp_path, killed):
    flags = ["--train.steps=1000000", "--train.valid_every=1000000"]
    first, second = programs(tmp_path, *flags)
    until(first.stderr, "step 1:")
    second.send_signal(signal.SIGTERM)
    (_, said), (_, also) = first.communicate(), second.communicate()
    (saved,) = re.findall(r"saved at step (\d+), as SIGTERM asked; the same command goes on", said)
    assert f"saved at step {saved}, as SIGTERM asked" in also
    assert first.returncode == second.returncode == TRY_AGAIN

    first, second = programs(tmp_path, *flags)
    until(first.stderr, f"resuming from step {saved}")
    until(first.stderr, f"step {int(saved) + 1}:")
    began, survivor = time.monotonic(), (second, first)[killed]
    (first, second)[killed].kill()
    (_, said), _ = survivor.communicate(), (first, second)[killed].communicate()
    assert time.monotonic() - began < 60
    assert survivor.returncode == TRY_AGAIN
    assert said.splitlines()[-1] == (
        "error: another process of the run has ended, or cannot be reached: the same command in "
        "all of them goes on from the last checkpoint"
    )
    assert "Traceback" not in said
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == [saved]


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (("here", 2, 0), "coordinator must be host:port, got 'here'"),
        (("a:1", 0, 0), "processes must be at least 1, got 0"),
        (("a:1", 2, 2), "process must be from 0 to 1, got 2"),
        ((None, None, -1), "process must be from 0 on, got -1"),
    ],
)
def test_what_cannot_be_meant_is_refused(told, said):
    with pytest.raises(InputError, match=rf"^distributed\.{said}$"):
        processes.connect(*told, 5)


def test_a_time_to_wait_is_a_duration(tmp_path):
    flags = ["--distributed", "--distributed.wait=soon"]
    line = refused("train", f"--workdir={tmp_path}", *flags)
    assert line.startswith("error: --distributed.wait must be a duration such as 90s, 10min, 1.5h")
    line = refused("train", f"--workdir={tmp_path}", flags[1])
    assert line == "error: --distributed.wait is for several processes: give --distributed"


def test_without_a_cluster_it_must_be_told_of_the_others(tmp_path):
    # In a process of its own, where JAX has not started.
    line = refused("train", f"--workdir={tmp_path}", "--distributed", JAX_PLATFORMS="cpu")
    assert "JAX finds no cluster that tells it of the other processes" in line
    assert line.endswith("--distributed.processes and --distributed.process")


def test_who_does_not_meet_the_others_says_so(tmp_path):
    line = refused(
        "train",
        f"--workdir={tmp_path}",
        f"--distributed.coordinator={free_address()}",
        "--distributed.processes=2",
        "--distributed.process=1",
        "--distributed.wait=2s",
        JAX_PLATFORMS="cpu",
    )
    assert line == (
        "error: the processes did not meet within 2 s: all must be started, with the same "
        "--distributed.coordinator and --distributed.processes, and each with its own "
        "--distributed.process"
    )


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory"), 2),
        (MemoryError(), 2),
        (OSError("No space left"), 2),
        (KeyboardInterrupt(), TRY_AGAIN),
        (jax.errors.JaxRuntimeError("INTERNAL: Connection reset"), 1),
    ],
)
def test_the_others_are_not_waited_for_and_the_status_says_why(monkeypatch, error, status):
    ended = []
    monkeypatch.setattr(os, "_exit", ended.append)
    distributed._leave(error)
    assert ended[0] == status


@pytest.mark.parametrize(
    ("error", "waits"),
    [
        (jax.errors.JaxRuntimeError("INTERNAL: Connection reset"), True),
        (ValueError("UNKNOWN: Gloo AllGather failed"), True),
        (MemoryError(), False),
        (OSError("No space left"), False),
        (InputError("a loss is not finite"), False),
    ],
)
def test_it_waits_for_jax_to_notice_that_another_has_died(monkeypatch, error, waits):
    slept = []
    monkeypatch.setattr(distributed, "FLAGS", SimpleNamespace(distributed=True))
    monkeypatch.setattr(distributed, "_told", lambda: ("a:1", 2, 0))
    monkeypatch.setattr(distributed, "_wait", lambda: 5)
    monkeypatch.setattr(distributed, "_in_child", lambda wait: os.open(os.devnull, os.O_WRONLY))
    monkeypatch.setattr(distributed, "connect", lambda *_: None)
    monkeypatch.setattr(distributed.time, "sleep", slept.append)
    monkeypatch.setattr(distributed.atexit, "register", lambda *_: None)
    with pytest.raises(type(error)), distributed.connected():
        raise error
    assert bool(slept) == waits


def of_three(monkeypatch, index):
    """Has this process take itself for one of three."""
    monkeypatch.setattr(processes, "count", lambda: 3)
    monkeypatch.setattr(processes, "index", lambda: index)


@pytest.mark.parametrize("number", [0, 2, 3, 10])
def test_shares_are_all_of_the_whole(monkeypatch, number):
    whole, sizes = [], []
    for index in range(3):
        of_three(monkeypatch, index)
        share = range(number)[processes.share(number)]
        whole += share
        sizes.append(len(share))
    assert whole == list(range(number))
    assert max(sizes) - min(sizes) <= 1


def test_batches_must_be_shared_evenly(monkeypatch):
    of_three(monkeypatch, 0)
    monkeypatch.setattr(devices.jax, "devices", lambda: [Device(n) for n in range(3)])
    devices.make_mesh(train_options(batch_size=6))
    with pytest.raises(InputError, match=r"batch_size=8 in train\.microbatches=2 cannot be shared"):
        devices.make_mesh(train_options(batch_size=8, microbatches=2))
    with pytest.raises(InputError, match="batch_size=4 cannot be shared evenly by 3 processes"):
        devices.make_mesh(train_options(batch_size=4))


class Device:
    """A device, as far as a mesh looks at it."""

    def __init__(self, process):
        self.process_index = process


def test_others_print_nothing(monkeypatch, capfd):
    for index in (0, 1):
        of_three(monkeypatch, index)
        with processes.only_first_tells():
            print(f"by {index}")
            print(f"also by {index}", file=sys.stderr)
    assert capfd.readouterr() == ("by 0\n", "also by 0\n")


def test_a_failure_elsewhere_is_told_here(monkeypatch):
    of_three(monkeypatch, 0)
    monkeypatch.setattr(processes, "gathered", lambda own: [own, None, "no such file"])
    with pytest.raises(InputError, match="process 2 says: no such file"), processes.together():
        pass
    with pytest.raises(OSError, match="full"), processes.together():
        raise OSError("full")


def test_all_must_see_the_same_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(folder, "SEEN_WITHIN", 0.3)
    with pytest.raises(InputError, match="is not the folder that process 0 writes into"):
        folder.check_seen(tmp_path)
    later = threading.Timer(0.1, (tmp_path / "flags.txt").touch)
    later.start()
    folder.check_seen(tmp_path)


def test_all_must_have_the_same(monkeypatch):
    of_three(monkeypatch, 0)
    monkeypatch.setattr(processes, "gathered", lambda own: [own, own, own | {"seed": 1}])
    with pytest.raises(InputError, match="process 2 has seed=1, and process 0 seed=0: all proc"):
        processes.check_same(lambda: {"seed": 0})
