"""Runs that are killed, or told to end, at random moments, and must end as if left alone."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from attn_jax.errors import InputError
from attn_jax.records import journal, run_files
from attn_jax.runs.folder import steps_done
from experiments.benchmarks.same_runs import GRU, OPTIONS, differences


class Kind(NamedTuple):
    """Runs that are stopped: their options beside `OPTIONS`, and in how many processes they are."""

    options: dict[str, Any]
    processes: int = 1


KINDS = {
    "GRU, scheduled sampling": Kind(GRU | {"train.scheduled_sampling": 0.5}),
    "LSTM, averaging": Kind(
        {
            "model.cell": "lstm",
            "model.decoder": "luong_input_feeding",
            "model.score": "general",
            "train.average": 0.9,
        }
    ),
    "Transformer, microbatches": Kind(
        {
            "model.encoder": "transformer",
            "model.decoder": "transformer",
            "model.score": "scaled_dot",
            "model.heads": 2,
            "model.feedforward_size": 16,
            "train.microbatches": 2,
        }
    ),
    "GRU, two processes": Kind(GRU, processes=2),
}


def begun(kind: Kind, workdir: Path) -> list[subprocess.Popen]:
    """The processes of a run, each in a group of its own with those that it starts."""
    flags = [f"--{name}={value}" for name, value in {**OPTIONS, **kind.options}.items()]
    command = [sys.executable, "-m", "attn_jax", "train", f"--workdir={workdir}", *flags]
    meeting = [[]]
    if kind.processes > 1:
        with socket.socket() as free:
            free.bind(("localhost", 0))
            port = free.getsockname()[1]
        meeting = [
            [
                f"--distributed.coordinator=localhost:{port}",
                f"--distributed.processes={kind.processes}",
                f"--distributed.process={number}",
                "--distributed.wait=30",
            ]
            for number in range(kind.processes)
        ]
    with (workdir.parent / f"{workdir.name}.log").open("ab") as log:
        return [
            subprocess.Popen(
                [*command, *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            for words in meeting
        ]


def left_alone(kind: Kind, workdir: Path) -> float:
    """Makes a run, or what is left of it; returns the seconds that it took.

    Raises:
      InputError: it failed.
    """
    began = time.perf_counter()
    if {process.wait() for process in begun(kind, workdir)} != {0}:
        raise InputError(f"a run that was left alone failed: see {workdir}.log")
    return time.perf_counter() - began


def stopped(
    processes: list[subprocess.Popen], number: int, after: float, workdir: Path, chance: Random
) -> set[int] | None:
    """Stops a run after some seconds, half of the time not before it saves.

    Of several processes one is killed, and the others end by themselves.

    Returns:
      The status of all that were not killed, of one that was asked; None if it ended before.

    Raises:
      InputError: it has failed before.
    """
    time.sleep(after)
    until = time.monotonic() + chance.choice([0, 5])
    while time.monotonic() < until and moment(workdir) != "in a save":
        time.sleep(0.001)
    if any(process.poll() is not None for process in processes):
        statuses = {process.wait() for process in processes}
        if statuses != {0}:
            raise InputError(f"a run that had got no signal ended with status {statuses}")
        return None
    one = chance.choice(processes)
    if number == signal.SIGKILL:
        os.killpg(one.pid, number)
    else:
        one.send_signal(number)
    statuses = {process.wait() for process in processes}
    return statuses - {-number} if number == signal.SIGKILL else statuses


def moment(workdir: Path) -> str:
    """What a run was doing when it was killed, as far as its folder tells."""
    if any("tmp" in file.name for file in run_files.checkpoints(workdir).glob("*")):
        return "in a save"
    file = run_files.journal(workdir)
    if not steps_done(workdir):
        return "before the first checkpoint"
    if file.is_file() and max((line["step"] for line in journal.read(file)), default=0) > (
        steps_done(workdir)
    ):
        return "between journal and checkpoint"
    return "elsewhere"


def signalled(folder: Path, kind: Kind, kills: int, requests: int, seed: int) -> dict[str, Any]:
    """Runs of a kind that are stopped at random moments until they have had so many signals."""
    folder.mkdir(parents=True)
    chance = Random(seed)
    numbers = [signal.SIGKILL] * kills + [signal.SIGTERM] * requests
    chance.shuffle(numbers)
    left_alone(kind, folder / "alone")
    usual = left_alone(kind, folder / "cached")  # its programs have been compiled
    counts, wrong, runs = Counter[str](), [], 0

    def look_at(workdir: Path) -> None:
        wrong.extend(f"{workdir}: {one}" for one in differences(folder / "alone", workdir))

    look_at(folder / "cached")
    while numbers:
        runs += 1
        workdir = folder / f"run{runs}"
        while numbers:
            after = chance.uniform(0, usual)
            status = stopped(begun(kind, workdir), numbers[-1], after, workdir, chance)
            if status is None:
                break
            name = signal.Signals(numbers.pop()).name
            told = f", status {' and '.join(map(str, sorted(status)))}" if status else ""
            killed = f" {moment(workdir)}" if name == "SIGKILL" else ""
            counts[f"{name}{killed}{told}"] += 1
            if 1 in status:  # 2: they had not met yet; 143: asked to end before or after the run
                wrong.append(f"{workdir}: {name} ended it with status 1")
        left_alone(kind, workdir)
        look_at(workdir)
    said = "".join(file.read_text() for file in folder.glob("*.log"))
    ended = {
        "runs that ended": runs,
        "that differ from the run left alone": len({one.partition(":")[0] for one in wrong}),
        "tracebacks": said.count("Traceback"),
    }
    return {"counts": dict(counts) | ended, "wrong": wrong}
