"""What each system got in the search for its setting, and what came of it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from attn_jax.evaluation.metrics import METRICS
from attn_jax.evaluation.significance import expected_best
from attn_jax.files import reading
from attn_jax.records import run_files
from attn_jax.reporting.printing import DASH
from attn_jax.reporting.systems import TITLES, Systems, trained

NUMBERS = (1, 2, 5, 10, 20, 50, 100, 200, 500)  # of trials, of which the best is expected
ABOUT = (
    "Tuning: settings were drawn at random, the same ones for all systems, and the one that was "
    "best on validation was trained anew. Steps are those of all trials of a system. Best of n: "
    "the expected best validation {} of n trials, drawn from those that have ended (Dodge et al. "
    "2019)."
)


class Searched(NamedTuple):
    """What the trials of a system got and found."""

    trials: int
    steps: int  # of all trials
    values: list[float]  # of those that have ended
    metric: str


def tuning(systems: Systems) -> tuple[pd.DataFrame, list[str]] | None:
    """What systems got in searches, as a table with notes; None if none of them was tuned.

    Raises:
      InputError: what a search has found is damaged.
    """
    found = {label: searched(runs[0].folder) for label, runs in trained(systems).items()}
    known = {label: each for label, each in found.items() if each is not None}
    if not known:
        return None
    metrics = dict.fromkeys(each.metric for each in known.values())
    most = min(len(each.values) for each in known.values())
    numbers = sorted({n for n in NUMBERS if n < most} | {most})
    rows = []
    for label, each in found.items():
        if each is None:
            rows.append([label, "0", "0", *[DASH] * len(numbers)])
            continue
        larger = METRICS[each.metric]
        best = [f"{expected_best(each.values, n, larger):.2f}" for n in numbers]
        failed = each.trials - len(each.values)
        trials = f"{each.trials} ({failed} failed)" if failed else str(each.trials)
        rows.append([label, trials, f"{each.steps:,}", *best])
    heading = ["system", "trials", "steps", *(f"best of {n}" for n in numbers)]
    about = ABOUT.format(" or ".join(TITLES[metric] for metric in metrics))
    return pd.DataFrame(rows, columns=heading), [about, *unequal(found)]


def unequal(found: dict[str, Searched | None]) -> Iterator[str]:
    """Where systems did not get the same."""
    got = {
        "trials that have ended": {n: len(each.values) if each else 0 for n, each in found.items()},
        "steps": {label: each.steps if each else 0 for label, each in found.items()},
    }
    for what, of in got.items():
        if len(set(of.values())) > 1:
            least, most = min(of, key=of.__getitem__), max(of, key=of.__getitem__)
            yield (
                f"Unequal tuning, {what}: from {of[least]:,} ({least}) to {of[most]:,} ({most}). "
                "What is better may be the tuning."
            )


def searched(folder: Path) -> Searched | None:
    """What the trials of the system of a run got and found; None if it was not tuned.

    Raises:
      InputError: the file of the search is damaged.
    """
    file = run_files.search(folder.parent)
    if not file.is_file():
        return None
    with reading(file):
        stored: dict[str, Any] = json.loads(file.read_text("utf-8"))
        for system in stored["systems"].values():
            if folder.name in system["runs"]:
                trials = system["trials"].values()
                ended = [trial for trial in trials if "value" in trial]
                steps = sum(trial["steps"] for trial in trials)
                values = [float(trial["value"]) for trial in ended]
                return Searched(len(trials), steps, values, ended[0]["metric"])
    return None
