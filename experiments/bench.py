"""Measures this project and its peers on this machine: `./launch.sh bench`."""

import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import pandas as pd
from absl import flags as absl_flags

from attn_jax.cli import flags
from attn_jax.cli.flags import FLAGS
from attn_jax.cli.program import run
from attn_jax.errors import InputError, choose
from attn_jax.reporting.printing import print_table
from experiments.benchmarks.cases import GROUPS, Case
from experiments.benchmarks.compare import Side, compare
from experiments.benchmarks.faults import faults
from experiments.benchmarks.kernels import kernels
from experiments.benchmarks.processes import serving, start

DETAILS = "details"  # of figures, which are not shown
LAUNCH = Path(__file__).parents[1] / "launch.sh"


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
        "threads": os.environ.get("OMP_NUM_THREADS", "one for each core"),
        "jax": version("jax"),
        "flax": version("flax"),
    }


def installed_peers() -> str:
    """The Python of the environment of the peers, which is made if there is none.

    Raises:
      InputError: it cannot be made.
    """
    made = subprocess.run([LAUNCH, "peers"], stdout=subprocess.PIPE, text=True)
    if made.returncode:
        raise InputError("the peers could not be installed")
    return made.stdout.strip()


def one_device(peers: str) -> None:
    """Makes the peers compute on the same device as this project.

    Raises:
      InputError: they cannot.
    """
    # Otherwise, the first process with JAX would take most of a GPU's memory.
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    backend = jax.default_backend()
    if backend == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        return
    ask = [peers, "-c", "import torch; print(torch.cuda.is_available())"]
    finds_gpu = subprocess.run(ask, capture_output=True, text=True).stdout.strip()
    if backend != "gpu" or finds_gpu != "True":
        raise InputError(
            f"this project would run on a {backend.upper()} and its peers on the CPU: set "
            "JAX_PLATFORMS=cpu, or install a PyTorch that finds a GPU into .venv-peers"
        )
    # This project would split a batch over several GPUs; its peers use one.
    first, *_ = (os.environ.get("CUDA_VISIBLE_DEVICES") or "0").split(",")
    os.environ["CUDA_VISIBLE_DEVICES"] = first


def side(case: Case, name: str) -> Side:
    """Starts a process of a case: this project's with this Python, a peer's with theirs."""
    module, function = case.sides[name]
    python = FLAGS.peers if module == "peers" else sys.executable
    return Side(name, [python, "-m", f"experiments.benchmarks.{module}", function], case.settings)


def in_turn(group: Callable[[], Iterator[Case]]) -> Callable[[int], Iterator[tuple[str, dict]]]:
    """A benchmark of a group of cases: the figures of each side, and its time in units of ours."""

    def measured(rounds: int) -> Iterator[tuple[str, dict[str, Any]]]:
        for case in group():
            found = compare([side(case, name) for name in case.sides], rounds)
            ours = statistics.median(found["attn_jax"]["ms"])
            for name, figures in found.items():
                if "ms" in figures:
                    median = statistics.median(figures["ms"])
                    figures |= {f"{case.unit}/s": 1e3 * case.units / median, "ratio": median / ours}
                yield f"{case.name}: {name}", figures

    return measured


# Each yields names and figures: numbers, lists of a number of each round, or text.
BENCHMARKS: dict[str, Callable[[int], Iterator[tuple[str, Mapping[str, Any]]]]] = {
    **{name: in_turn(group) for name, group in GROUPS.items()},
    "start": start,
    "kernels": kernels,
    "serving": serving,
    "faults": faults,
}
ASKED = ("large", "faults")  # run only if asked for: one is for a GPU, the other tells no times


def shown(figure: Any) -> str:
    """A figure in a table; of those of several rounds, the median and the range."""
    if isinstance(figure, list | tuple):
        median, least, most = map(shown, (statistics.median(figure), min(figure), max(figure)))
        return f"{median} ({least} to {most})" if len(figure) > 1 else median
    if isinstance(figure, float):
        return f"{figure:,.0f}" if abs(figure) >= 100 else f"{figure:.3g}"
    return f"{figure:,}" if isinstance(figure, int) else str(figure)


def table_of(results: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """A row for each result, and a column for each figure that any of them has."""
    known = dict.fromkeys(name for figures in results.values() for name in figures)
    names = [name for name in known if name != DETAILS]
    rows = [
        [result, *(shown(figures.get(name, "")) for name in names)]
        for result, figures in results.items()
    ]
    return pd.DataFrame(rows, columns=["", *names])


def define() -> None:
    """Defines the flags."""
    flags.define_workdir("folder for the figures")
    absl_flags.DEFINE_string(
        "peers", "", "the Python of an environment with the peers; by default, one is made"
    )
    usual = [name for name in BENCHMARKS if name not in ASKED]
    absl_flags.DEFINE_list("only", usual, f"benchmarks; also {', '.join(ASKED)}")
    absl_flags.DEFINE_integer("rounds", 7, "repetitions of each side", lower_bound=1)


def main() -> None:
    """Prints a table for each benchmark, and writes JSON into the folder."""
    if sys.platform != "linux":
        raise InputError("only Linux tells the memory of processes as the benchmark measures it")
    folder = Path(FLAGS.workdir)
    chosen = {name: choose(BENCHMARKS, name, "benchmark") for name in FLAGS.only}
    if chosen.keys() & GROUPS:
        FLAGS.peers = FLAGS.peers or installed_peers()
        one_device(FLAGS.peers)
    folder.mkdir(parents=True, exist_ok=True)
    about = machine()
    print(", ".join(f"{what} {value}" for what, value in about.items()))
    for name, benchmark in chosen.items():
        results: dict[str, Mapping[str, Any]] = {}
        for result, figures in benchmark(FLAGS.rounds):
            results[result] = figures
            told = [f"{name} {shown(of)}" for name, of in figures.items() if name != DETAILS]
            print(f"{result}: {', '.join(told)}", flush=True)
        print_table(name, table_of(results))
        record = {"machine": about, "rounds": FLAGS.rounds, "figures": results}
        (folder / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    run(sys.modules[__name__])
