"""This project beside its peers, on this machine: `./launch.sh bench`."""

import json
import os
import platform
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import jax
from absl import flags

from attn_jax.errors import InputError, choose
from attn_jax.report.tables import Table
from experiments.benchmarks.cases import GROUPS, Case
from experiments.benchmarks.compare import Measured, Side, compare
from experiments.flags import FLAGS
from experiments.program import run
from experiments.report import print_table


def machine() -> dict[str, str]:
    """What the figures were measured on."""
    names = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ] or [platform.processor()]
    return {
        "device": jax.devices()[0].device_kind,
        "cpu": f"{len(os.sched_getaffinity(0))} cores of {names[0]}",
        "python": platform.python_version(),
        "jax": version("jax"),
        "flax": version("flax"),
    }


def sides_of(case: Case) -> list[Side]:
    """The processes of a case, this project's with this Python and the peers' with theirs."""
    return [
        Side(
            name,
            [
                FLAGS.peers if module.startswith("peer_") else sys.executable,
                "-m",
                f"experiments.benchmarks.{module}",
            ],
            settings,
        )
        for name, (module, settings) in case.sides.items()
    ]


def rows(case: Case, measured: Mapping[str, Measured]) -> list[list[str]]:
    """A line for each side: how long it takes, how much it does, and how much longer than ours."""
    ours = next(iter(measured.values()))
    return [
        [
            f"{case.name}: {name}",
            f"{1e3 * one.median:.1f}",
            f"{1e3 * min(one.seconds):.1f} to {1e3 * max(one.seconds):.1f}",
            f"{case.units / one.median:,.0f}",
            f"{one.median / ours.median:.2f}",
            f"{one.peak:,.0f}",
        ]
        for name, one in measured.items()
    ]


def main() -> None:
    """Prints a table for each group, and writes all figures as JSON into the folder."""
    if not FLAGS.workdir:
        raise InputError("--workdir is needed: the folder for the figures")
    folder = Path(FLAGS.workdir)
    folder.mkdir(parents=True, exist_ok=True)
    chosen = {name: choose(GROUPS, name, "group of benchmarks") for name in FLAGS.only}
    found = machine()
    print(", ".join(f"{what} {value}" for what, value in found.items()))
    for name, group in chosen.items():
        lines, results = [], {}
        for case in group():
            measured = compare(sides_of(case), FLAGS.rounds)
            lines += rows(case, measured)
            results[case.name] = {side: one._asdict() for side, one in measured.items()}
            print(*("  ".join(line) for line in lines[-len(measured) :]), sep="\n", flush=True)
        heading = ["", "ms", "from, to", f"{case.unit}/s", "ratio", "peak MiB"]
        print_table(name, Table(heading, lines))
        record = {"machine": found, "rounds": FLAGS.rounds, "cases": results}
        (folder / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    flags.DEFINE_string("workdir", "", "folder for the figures")
    flags.DEFINE_string("peers", sys.executable, "the Python of an environment with the peers")
    flags.DEFINE_list("only", list(GROUPS), "groups of benchmarks")
    flags.DEFINE_integer("rounds", 7, "repetitions of each side", lower_bound=1)
    run(main)
