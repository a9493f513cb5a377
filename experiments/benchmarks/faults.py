"""Faults on purpose: `./launch.sh bench --only=faults`.

Runs are killed, or told to end, at random moments, and must end as if left alone, bit for bit.
Files of a finished run are damaged, and no damage may change a result in silence.
"""

import contextlib
import io
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from attn_jax.errors import InputError
from attn_jax.records import journal, run_files
from attn_jax.reporting.pages import compare
from attn_jax.reporting.runs import read_run
from attn_jax.reporting.runs_csv import rows_of
from attn_jax.runs.folder import steps_done
from attn_jax.runs.training import train
from attn_jax.training.arrays import named_leaves
from attn_jax.training.validations import RATES
from attn_jax.translation.loading import load

KILLS, REQUESTS = 100, 20  # SIGKILLs and SIGTERMs, shared out among the kinds of runs
CORES = len(os.sched_getaffinity(0))
FLIPS, CUTS = 1000, 200  # bytes of which a bit is flipped, and files that are cut
TIMED = ("seconds", *RATES)  # of the journal

OPTIONS = {
    "data.name": "reverse",
    "data.examples": 300,
    "data.held_out": 20,
    "data.longest": 6,
    "model.embedding_size": 8,
    "model.annotation_size": 8,
    "model.hidden_size": 8,
    "model.dropout": 0.2,
    "train.steps": 300,
    "train.valid_every": 50,
    "train.save_every": "0.3s",
    "train.buckets": 2,
    "train.batch_size": 16,
}
GRU = {"model.alignment_size": 8, "model.readout_size": 8}


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


def stopped(processes: list[subprocess.Popen], number: int, after: float) -> set[int] | None:
    """Stops a run after some seconds; returns with what status, or None if it has ended before.

    Raises:
      InputError: it has failed before.
    """
    time.sleep(after)
    if any(process.poll() is not None for process in processes):
        statuses = {process.wait() for process in processes}
        if statuses != {0}:
            raise InputError(f"a run that had got no signal ended with status {statuses}")
        return None
    if number == signal.SIGKILL:
        for process in processes:
            os.killpg(process.pid, number)
    else:
        processes[0].send_signal(number)
    return {process.wait() for process in processes}


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


def differences(one: Path, other: Path) -> list[str]:
    """What two finished runs do not have in common, bit for bit."""
    found = [
        f"{which} checkpoint"
        for which in ("best", "last")
        if parameters(one, which) != parameters(other, which)
    ]
    if untimed(one) != untimed(other):
        found.append("journal")
    if run_files.predictions(one, "test").read_bytes() != (
        run_files.predictions(other, "test").read_bytes()
    ):
        found.append("predictions")
    return found


def parameters(run: Path, which: str) -> dict[str, bytes]:
    """The parameters of a checkpoint of a run, by their names."""
    (model,) = load(run, which).models
    return {name: np.asarray(leaf).tobytes() for name, leaf in named_leaves(model).items()}


def untimed(run: Path) -> list[dict[str, Any]]:
    """The journal of a run without what depends on the clock."""
    return [
        {name: value for name, value in line.items() if name not in TIMED}
        for line in journal.read(run_files.journal(run))
    ]


def signalled(folder: Path, kind: Kind, kills: int, requests: int, seed: int) -> dict[str, Any]:
    """Runs of a kind that are stopped at random moments until they have had so many signals."""
    folder.mkdir(parents=True)
    chance = random.Random(seed)
    numbers = [signal.SIGKILL] * kills + [signal.SIGTERM] * requests
    chance.shuffle(numbers)
    left_alone(kind, folder / "alone")
    usual = left_alone(kind, folder / "cached")  # its programs have been compiled
    counts, wrong = Counter[str](), differences(folder / "alone", folder / "cached")
    runs = 0
    while numbers:
        runs += 1
        workdir = folder / f"run{runs}"
        while numbers:
            after = chance.uniform(0, usual)
            status = stopped(begun(kind, workdir), numbers[-1], after)
            if status is None:
                break
            if numbers.pop() == signal.SIGKILL:
                counts[f"SIGKILL {moment(workdir)}"] += 1
            else:
                counts[f"SIGTERM, status {' and '.join(map(str, sorted(status)))}"] += 1
        left_alone(kind, workdir)
        wrong += [f"{workdir}: {one}" for one in differences(folder / "alone", workdir)]
    said = "".join(file.read_text() for file in folder.glob("*.log"))
    ended = {
        "runs that ended": runs,
        "that differ from the run left alone": len({one.partition(":")[0] for one in wrong}),
        "tracebacks": said.count("Traceback"),
    }
    return {"counts": dict(counts) | ended, "wrong": wrong}


class Used(NamedTuple):
    """What became of a use of a damaged run."""

    outcome: str
    why: str = ""


UNHARMED, WARNED, REFUSED = "same result", "same result, with a warning", "refused"
SILENT, LOUD = "another result in silence", "another result, with a warning"
TRACEBACK = "traceback"


def results(run: Path, options: dict[str, Any]) -> list[Any]:
    """What users get from a finished run: tables, translations, and a run that goes on from it."""
    read = [read_run(run)]
    (comparison,) = compare(read)
    tables = [comparison.quality.markdown(), comparison.cost.markdown()]
    rows = rows_of([comparison], run.parent)
    translator = load(run)
    sentences = ["1 2 3", "3 1 4 1 5", "2 2"]
    told = [
        (one.text, one.log_probability, one.weights.tolist())
        for one in translator.translate(sentences)
    ]
    train(options | {"train.steps": options["train.steps"] + 1}, run, evaluate_on=())
    return [tables, json.dumps(rows), told, untimed(run), parameters(run, "last")]


def damage(content: bytes, cut: bool, chance: random.Random) -> bytes:
    """The content of a file, cut at a random place or with a random bit flipped."""
    place = chance.randrange(len(content))
    if cut:
        return content[:place]
    flipped = content[place] ^ 1 << chance.randrange(8)
    return content[:place] + bytes([flipped]) + content[place + 1 :]


def use(run: Path, options: dict[str, Any], expected: list[Any]) -> Used:
    """Uses a damaged run."""
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            found = results(run, options)
    except InputError as error:
        return Used(REFUSED, str(error))
    except Exception as error:  # of which a user would see the traceback
        return Used(TRACEBACK, repr(error))
    told = "; ".join(str(one.message) for one in warned)
    if found == expected:
        return Used(WARNED if told else UNHARMED, told)
    names = ["tables", "rows", "translations", "journal", "parameters"]
    changed = [name for name, a, b in zip(names, found, expected, strict=True) if a != b]
    return Used(LOUD if told else SILENT, f"{changed} {told}")


def damaged(folder: Path, flips: int, cuts: int, seed: int) -> dict[str, Any]:
    """A finished run of which one file at a time is damaged, each file as often as others."""
    folder.mkdir(parents=True)
    chance = random.Random(seed)
    options = OPTIONS | GRU | {"train.steps": 20, "train.valid_every": 10}
    whole, copy = folder / "whole", folder / "copy"
    train(options, whole)

    def fresh() -> Path:
        shutil.rmtree(copy, ignore_errors=True)
        return shutil.copytree(whole, copy)

    expected = results(fresh(), options)
    if results(fresh(), options) != expected:
        raise InputError("the same use of the same run has had two results")
    files = sorted(file.relative_to(whole) for file in whole.rglob("*") if file.is_file())
    files = [file for file in files if (whole / file).stat().st_size]
    counts, told = Counter[str](), []
    for name, times in (("bit flipped", flips), ("cut", cuts)):
        for _ in range(times):
            run, file = fresh(), chance.choice(files)
            content = (run / file).read_bytes()
            (run / file).write_bytes(damage(content, name == "cut", chance))
            used = use(run, options, expected)
            counts[f"{name}: {used.outcome}"] += 1
            told.append({"file": str(file), "damage": name, **used._asdict()})
    return {"counts": counts, "files": len(files), "told": told}


def faults() -> Iterator[tuple[str, dict[str, Any]]]:
    """The figures of each kind of runs that are stopped, then of the files that are damaged."""
    share = len(KINDS)
    with tempfile.TemporaryDirectory() as made, ThreadPoolExecutor(max(1, CORES // 2)) as pool:
        running = {
            name: pool.submit(
                signalled, Path(made, str(number)), kind, KILLS // share, REQUESTS // share, number
            )
            for number, (name, kind) in enumerate(KINDS.items())
        }
        for name, figures in running.items():
            yield name, figures.result()
        with contextlib.redirect_stdout(io.StringIO()):
            figures = damaged(Path(made, "damaged"), FLIPS, CUTS, 0)
        yield "damaged files", figures
