"""Where a comparison is unfair or too small, in plain words."""

import itertools
import json
from collections.abc import Iterator
from typing import Any

from attn_jax.files import reading
from attn_jax.records import run_files
from attn_jax.reporting.about import listed, of_each, unfinished
from attn_jax.reporting.runs import Run
from attn_jax.reporting.systems import Systems, runs_of, trained

FEWEST_SEEDS = 3
UNEQUAL = 1.05  # times as many parameters, above which sizes are unequal
MOST_TOLD = 8  # systems of which each is told
RATE = "train.learning_rate"
BUDGET = ("train.steps", "train.batch_size", "train.patience")


def cautions(systems: Systems) -> Iterator[str]:
    """What makes differences between systems uncertain, or not only those of their attention."""
    for runs in systems.values():
        yield from filter(None, [runs[0].doubt])
    systems = trained(systems)  # of others, it is not known how they were trained
    seeds = {label: ", ".join(str(run.seed) for run in runs) for label, runs in systems.items()}
    if len({*seeds.values()}) > 1:
        yield (
            f"Different seeds: {of_each(seeds.items())}. Two systems are compared by the seeds "
            "that both have, while their means are over all seeds of each."
        )
    few = [label for label, runs in systems.items() if len(runs) < FEWEST_SEEDS]
    if few:
        yield (
            f"Fewer than three seeds: {listed(few)}. How much another seed would change is "
            "not known, and p-values are about test sentences alone."
        )
    yield from unfinished(systems)
    yield from shared_cores(systems)
    if len(systems) == 1:
        return
    sizes = {label: runs[0].evaluation["parameters"] for label, runs in systems.items()}
    small, large = min(sizes, key=sizes.__getitem__), max(sizes, key=sizes.__getitem__)
    if sizes[large] > UNEQUAL * sizes[small]:
        more = 100 * (sizes[large] / sizes[small] - 1)
        yield (
            f"Unequal parameters: from {sizes[small]:,} ({small}) to {sizes[large]:,} ({large}), "
            f"{more:.0f} % more. What is better may be the size."
        )
    for name in BUDGET:
        values = [(label, str(run.brief(name))) for label, runs in systems.items() for run in runs]
        different = dict.fromkeys(value for _, value in values)
        if len(different) > 1:
            told = of_each(values)
            if len(systems) > MOST_TOLD:
                first, second, *_ = different
                told = f"{len(different)} values, such as {first} and {second}"
            yield f"Unequal training, {name}: {told}."
    rates = {run.brief(RATE) for run in runs_of(systems)}
    tuned = {run.options["train.optimizer"] for run in runs_of(systems)}
    if len(rates) == len(tuned) == 1 and not all(map(_was_searched, runs_of(systems))):
        yield (
            "All systems were trained with one learning rate, which may suit some better than "
            "others."
        )


def _was_searched(run: Run) -> bool:
    """Whether its learning rate was chosen among several, by a comparison or by trials."""
    folder = run.folder.parent
    comparison, search = run_files.comparison(folder), run_files.search(folder)
    if comparison.is_file():
        with reading(comparison):
            systems = json.loads(comparison.read_text("utf-8"))["candidates"].values()
            return any(len({one.get(RATE) for one in runs.values()}) > 1 for runs in systems)
    if search.is_file():
        with reading(search):
            return RATE in json.loads(search.read_text("utf-8"))["space"]
    return False


def shared_cores(systems: Systems) -> Iterator[str]:
    """That runs trained on a CPU had cores that another of them used at the same time."""
    sessions = [
        (label, of_session)
        for label, runs in systems.items()
        for run in runs
        for of_session in run.sessions
        if of_session["devices"]["backend"] == "cpu" and of_session["cores"]
    ]
    sharing = {
        label: None
        for one, other in itertools.combinations(sessions, 2)
        if _overlap(one[1], other[1])
        for label in (one[0], other[0])
    }
    if sharing:
        yield (
            f"Runs shared cores while they trained: {listed([*sharing])}. Alone, each would have "
            "been faster, and their speeds say little about their mechanisms."
        )


def _overlap(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two sessions had a core in common at the same time, as far as is recorded."""
    if one["host"] != other["host"] or not {*one["cores"]} & {*other["cores"]}:
        return False
    if not (one["ended"] and other["ended"]):  # of one that was killed, the end is not known
        return False
    return one["begun"] < other["ended"] and other["begun"] < one["ended"]  # UTC
