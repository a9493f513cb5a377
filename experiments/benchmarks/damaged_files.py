"""Files of a finished run that are damaged: no damage may change a result in silence."""

import contextlib
import io
import json
import random
import shutil
import warnings
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from attn_jax.errors import InputError
from attn_jax.reporting.cautions import cautions
from attn_jax.reporting.pages import compare
from attn_jax.reporting.runs import read_run
from attn_jax.reporting.runs_csv import rows_of
from attn_jax.runs.training import train
from attn_jax.translation.loading import load
from experiments.benchmarks.same_runs import GRU, OPTIONS, parameters, untimed


class Used(NamedTuple):
    """What became of a use of a damaged run."""

    outcome: str
    why: str = ""


UNHARMED, WARNED, REFUSED = "same result", "same result, with a warning", "refused"
SILENT, LOUD = "another result in silence", "another result, with a warning"
TRACEBACK = "traceback"


def results(run: Path, options: dict[str, Any]) -> tuple[list[Any], set[str]]:
    """What users get from a finished run: tables, translations, and a run that goes on from it.

    Beside it, what they are warned of.
    """
    read = [read_run(run)]
    (comparison,) = compare(read)
    tables = [comparison.quality.markdown(), comparison.cost.markdown()]
    warned = {*cautions(comparison.systems)}
    rows = rows_of([comparison], run.parent)
    translator = load(run)
    sentences = ["1 2 3", "3 1 4 1 5", "2 2"]
    told = [
        (one.text, one.log_probability, one.weights.tolist())
        for one in translator.translate(sentences)
    ]
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        train(options | {"train.steps": options["train.steps"] + 1}, run, evaluate_on=())
    warned |= {line for line in said.getvalue().splitlines() if line.startswith("warning:")}
    return [tables, json.dumps(rows), told, untimed(run), parameters(run, "last")], warned


def damage(content: bytes, cut: bool, chance: random.Random) -> bytes:
    """The content of a file, cut at a random place or with a random bit flipped."""
    place = chance.randrange(len(content))
    if cut:
        return content[:place]
    flipped = content[place] ^ 1 << chance.randrange(8)
    return content[:place] + bytes([flipped]) + content[place + 1 :]


def use(run: Path, options: dict[str, Any], expected: tuple[list[Any], set[str]]) -> Used:
    """Uses a damaged run."""
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            found, told = results(run, options)
    except InputError as error:
        return Used(REFUSED, str(error))
    except Exception as error:  # of which a user would see the traceback
        return Used(TRACEBACK, repr(error))
    usual, known = expected
    why = "; ".join(sorted((told | {str(one.message) for one in warned}) - known))
    if found == usual:
        return Used(WARNED if why else UNHARMED, why)
    names = ["tables", "rows", "translations", "journal", "parameters"]
    changed = [name for name, a, b in zip(names, found, usual, strict=True) if a != b]
    return Used(LOUD if why else SILENT, f"{changed} {why}")


def damaged(folder: Path, flips: int, cuts: int, seed: int) -> dict[str, Any]:
    """What becomes of a finished run if one file is damaged, each file as often as others."""
    with contextlib.redirect_stdout(io.StringIO()):
        return _damaged(folder, flips, cuts, seed)


def _damaged(folder: Path, flips: int, cuts: int, seed: int) -> dict[str, Any]:
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
