"""Faults on purpose: `./launch.sh bench --only=faults`.

Small runs are killed, or told to end, at random moments, and must end as if left alone. Files of a
finished run are damaged, and whoever reads them must get the usual result, or be told.
"""

import contextlib
import io
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import jax
import numpy as np

import attn_jax
from attn_jax.errors import InputError
from attn_jax.records import journal, run_files
from attn_jax.training.validations import RATES
from attn_jax.translation.loading import best_checkpoint

STEPS = 20  # of the run that is damaged
CORES = len(os.sched_getaffinity(0))
SEED = 0
KILLS, REQUESTS = 25, 5  # SIGKILLs and SIGTERMs for each kind of runs
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
GRU = {"model.score": "additive(units=8)", "model.readout_size": 8}


def flipped(run: Path, chance: Random) -> Path:
    """Flips a random bit of a random file."""
    file, content, place = _place(run, chance)
    content[place] ^= 1 << chance.randrange(8)
    file.write_bytes(content)
    return file


def cut(run: Path, chance: Random) -> Path:
    """Cuts a random file at a random place."""
    file, content, place = _place(run, chance)
    file.write_bytes(content[:place])
    return file


def _place(run: Path, chance: Random) -> tuple[Path, bytearray, int]:
    files = sorted(file for file in run.rglob("*") if file.is_file() and file.stat().st_size)
    file = chance.choice(files)
    content = bytearray(file.read_bytes())
    return file, content, chance.randrange(len(content))


def of_best(change: Callable[[Path], Any]) -> Callable[[Path, Random], Path]:
    """Changes the folder of the best checkpoint."""

    def damage(run: Path, _: Random) -> Path:
        place = best_checkpoint(run)
        change(place)
        return place

    return damage


def of_journal(change: Callable[[list[str]], list[str]]) -> Callable[[Path, Random], Path]:
    """Changes the lines of the journal."""

    def damage(run: Path, _: Random) -> Path:
        file = run_files.journal(run)
        file.write_text("".join(change(file.read_text().splitlines(keepends=True))))
        return file

    return damage


def of_another(name: str) -> Callable[[Path, Random], Path]:
    """Puts a file of another run in place of one."""

    def damage(run: Path, _: Random) -> Path:
        return Path(shutil.copy(run.parents[1] / "another" / name, run / name))

    return damage


def copied(run: Path, _: Random) -> Path:
    """Copies a run under other seeds."""
    for seed in range(1, 4):
        flags = run_files.flags(shutil.copytree(run, run.with_name(f"seed={seed}")))
        flags.write_text(flags.read_text().replace("--seed=0\n", f"--seed={seed}\n"))
    return run


# Each changes the folder of a run and returns what it changed; and how often it is tried.
DAMAGES: dict[str, tuple[Callable[[Path, Random], Path], int]] = {
    "best checkpoint missing": (of_best(shutil.rmtree), 1),
    "best checkpoint renamed": (of_best(lambda one: one.rename(one.with_name(f"0{one.name}"))), 1),
    "best checkpoint renamed upwards": (of_best(lambda one: one.rename(one.with_name("99"))), 1),
    "best checkpoint copied upwards": (
        of_best(lambda one: shutil.copytree(one, one.with_name("99"))),
        1,
    ),
    "journal without its first line": (of_journal(lambda lines: lines[1:]), 1),
    "journal without its last line": (of_journal(lambda lines: lines[:-1]), 1),
    "journal with a line twice": (of_journal(lambda lines: [*lines, lines[-1]]), 1),
    **{
        f"{name} of another run": (of_another(name), 1)
        for name in ("metrics.jsonl", "evaluation.test.json", "predictions.test.jsonl", "flags.txt")
    },
    "copies under other seeds": (copied, 1),
    "a bit flipped": (flipped, 1000),
    "cut": (cut, 200),
}


def reported(run: Path) -> tuple[Any, list[str]]:
    """The tables of a report, and the sentences around them."""
    report = attn_jax.report(run.parent)
    lines = Path(report.page or "").read_text("utf-8").splitlines()
    lines += report.left_out.values()
    tables = [line for line in lines if line.startswith("|")]
    return (tables, Path(report.data or "").read_bytes()), lines


def translated(run: Path) -> tuple[Any, list[str]]:
    """What a translator returns."""
    hypotheses = attn_jax.load(run).translate(["1 2 3", "3 1 4 1 5", "2 2"])
    return [(one.text, one.log_probability, one.weights.tolist()) for one in hypotheses], []


def trained(run: Path) -> tuple[Any, list[str]]:
    """A run that goes on for a step."""
    attn_jax.train({"train.steps": STEPS + 1}, run, evaluate_on=())
    return (untimed(run), parameters(run, "last")), []


# Who reads a finished run: the result, and lines of which new ones tell of a damage. In this order.
READERS: dict[str, Callable[[Path], tuple[Any, list[str]]]] = {
    "report": reported,
    "load": translated,
    "train": trained,
}


def heard(reader: Callable, run: Path) -> tuple[Any, set[str]]:
    """What a reader gets from a run, and all that it says."""
    with (
        contextlib.redirect_stdout(io.StringIO()) as out,
        contextlib.redirect_stderr(out),
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        result, lines = reader(run)
    said = [line for line in out.getvalue().splitlines() if line.startswith("warning:")]
    return result, {*lines, *said, *(str(one.message) for one in caught)}


def outcome(reader: Callable, run: Path, usual: tuple[Any, set[str]]) -> tuple[str, str]:
    """What becomes of reading a damaged run: `same`, `told`, `silent` or `traceback`; and why."""
    try:
        result, said = heard(reader, run)
    except InputError as error:
        return "told", str(error)
    except Exception as error:  # of which a user would see the traceback
        return "traceback", repr(error)
    if new := said - usual[1]:
        return "told", "; ".join(sorted(new))
    return ("same" if result == usual[0] else "silent"), ""


def damaged(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """What becomes of each damage of a finished run, for each who reads it."""
    whole, copy, chance = folder / "whole", folder / "copy", Random(SEED)
    options = OPTIONS | GRU | {"train.steps": STEPS, "train.valid_every": STEPS // 2}
    with contextlib.redirect_stdout(io.StringIO()):
        attn_jax.train(options, whole / "run")
        attn_jax.train(options | {"seed": 9}, folder / "another")

    def fresh() -> Path:
        shutil.rmtree(copy, ignore_errors=True)
        return shutil.copytree(whole, copy) / "run"

    def read() -> dict[str, tuple[Any, set[str]]]:
        run = fresh()
        return {who: heard(reader, run) for who, reader in READERS.items()}

    usual = read()
    if read() != usual:
        raise InputError("the same use of the same run has had two results")
    for name, (damage, times) in DAMAGES.items():
        counts = {who: Counter[str](same=0, told=0, silent=0, traceback=0) for who in READERS}
        details: dict[str, list[str]] = {who: [] for who in READERS}
        for _ in range(times):
            run = fresh()
            place = damage(run, chance).relative_to(run)
            for who, reader in READERS.items():
                found, why = outcome(reader, run, usual[who])
                counts[who][found] += 1
                if found != "same":
                    details[who].append(f"{place}: {found} {why}")
        for who in READERS:
            yield f"{name}, {who}", {**counts[who], "details": details[who]}


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
    meeting: list[list[str]] = [[]]
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
    folders = [folder.name for folder in run_files.checkpoints(workdir).glob("*")]
    if any("tmp" in name for name in folders):
        return "in a save"
    steps = [int(name) for name in folders if name.isdigit()]
    if not steps:
        return "before the first checkpoint"
    file = run_files.journal(workdir)
    recorded = re.findall(r'"step": *(\d+)', file.read_text("utf-8")) if file.is_file() else []
    later = max(map(int, recorded), default=0) > max(steps)
    return "between journal and checkpoint" if later else "elsewhere"


def signalled(folder: Path, kind: Kind, kills: int, requests: int, seed: int) -> dict[str, Any]:
    """Runs of a kind that are stopped at random moments until they have had so many signals.

    Returns:
      How many have ended as if left alone, and how many have not; and what the signals met.
    """
    folder.mkdir(parents=True)
    chance = Random(seed)
    numbers = [signal.SIGKILL] * kills + [signal.SIGTERM] * requests
    chance.shuffle(numbers)
    left_alone(kind, folder / "alone")
    usual = left_alone(kind, folder / "cached")  # its programs have been compiled
    met, ended, wrong = Counter[str](), Counter[str](same=0, silent=0), list[str]()

    def look_at(workdir: Path) -> None:
        differing = differences(folder / "alone", workdir)
        ended["silent" if differing else "same"] += 1
        wrong.extend(f"{workdir}: {one}" for one in differing)

    look_at(folder / "cached")
    while numbers:
        workdir = folder / f"run{ended.total()}"
        while numbers:
            after = chance.uniform(0, usual)
            status = stopped(begun(kind, workdir), numbers[-1], after, workdir, chance)
            if status is None:
                break
            name = signal.Signals(numbers.pop()).name
            told = f", status {' and '.join(map(str, sorted(status)))}" if status else ""
            met[f"{name}{f' {moment(workdir)}' if name == 'SIGKILL' else ''}{told}"] += 1
            if 1 in status:  # 2: they had not met yet; 143: asked to end before or after the run
                wrong.append(f"{workdir}: {name} ended it with status 1")
        left_alone(kind, workdir)
        look_at(workdir)
    said = "".join(file.read_text() for file in folder.glob("*.log"))
    signals = [f"{what} {count}" for what, count in sorted(met.items())]
    return {**ended, "traceback": said.count("Traceback"), "details": [*signals, *wrong]}


def differences(one: Path, other: Path) -> list[str]:
    """What two finished runs do not have in common, bit for bit."""
    looked_at: dict[str, Callable[[Path], Any]] = {
        "best checkpoint": lambda run: parameters(run, "best"),
        "last checkpoint": lambda run: parameters(run, "last"),
        "journal": untimed,
        "predictions": lambda run: run_files.predictions(run, "test").read_bytes(),
    }
    return [what for what, look in looked_at.items() if look(one) != look(other)]


def parameters(run: Path, which: str) -> dict[str, bytes]:
    """The parameters of a checkpoint of a run, by their names."""
    leaves, _ = jax.tree.flatten_with_path(attn_jax.load(run, which).models)
    return {jax.tree_util.keystr(path): np.asarray(leaf).tobytes() for path, leaf in leaves}


def untimed(run: Path) -> list[dict[str, Any]]:
    """The journal of a run without what depends on the clock."""
    return [
        {name: value for name, value in line.items() if name not in ("seconds", *RATES)}
        for line in journal.read(run)
    ]


def faults(rounds: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """What becomes of damaged runs, and of those that are stopped meanwhile; `rounds` is idle."""
    with (
        tempfile.TemporaryDirectory() as made,
        ThreadPoolExecutor(max(1, CORES // 2)) as threads,  # each waits for processes of its own
    ):
        running = {
            name: threads.submit(signalled, Path(made, str(number)), kind, KILLS, REQUESTS, number)
            for number, (name, kind) in enumerate(KINDS.items())
        }
        yield from damaged(Path(made, "damaged"))
        for name, figures in running.items():
            yield name, figures.result()
