"""Measures this project and its peers on this machine: `./launch.sh bench`."""

import functools
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
from absl import flags as absl_flags

from attn_jax.cli import flags
from attn_jax.cli.flags import FLAGS
from attn_jax.cli.program import run
from attn_jax.errors import InputError, choose
from attn_jax.records import strict_json
from attn_jax.reporting.printing import print_table
from attn_jax.reporting.style import save
from attn_jax.reporting.tables import Table
from experiments.benchmarks import kernels
from experiments.benchmarks.cases import GROUPS, Case
from experiments.benchmarks.compare import Measured, Side, compare
from experiments.benchmarks.end_to_end import BEAMS, GOALS, captions, end_to_end
from experiments.benchmarks.faults import faults
from experiments.benchmarks.figure import relative_times
from experiments.benchmarks.serving import serving
from experiments.benchmarks.start import start

ABSENT = "–"  # noqa: RUF001
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


def sides_of(case: Case) -> list[Side]:
    """Starts the processes of a case: this project's with this Python, the peers' with theirs."""
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
    """A row for each side: its times, throughput, time relative to this project's, and memory."""
    ours = next(iter(measured.values()))
    return [
        [
            f"{case.name}: {name}",
            f"{1e3 * side.median:.1f}",
            f"{1e3 * min(side.seconds):.1f} to {1e3 * max(side.seconds):.1f}",
            f"{case.units / side.median:,.0f}",
            f"{side.median / ours.median:.2f}",
            f"{side.peak:,.0f}",
        ]
        for name, side in measured.items()
    ]


def of_cases(group: Callable[[], Iterator[Case]]) -> tuple[Table, dict[str, Any]]:
    """Measures a group of cases: prints each result as soon as it is known, and saves a figure."""
    lines, results, times = [], {}, {}
    for case in group():
        measured, ended = compare(sides_of(case), FLAGS.rounds)
        new = rows(case, measured) + [[f"{case.name}: {side}", *5 * [ABSENT]] for side in ended]
        lines += new
        results[case.name] = {side: one._asdict() for side, one in measured.items()} | ended
        times[case.name] = {side: one.seconds for side, one in measured.items()}
        print(*("  ".join(line) for line in new), *ended.values(), sep="\n", flush=True)
    save(relative_times(times), Path(FLAGS.workdir) / f"{group.__name__}.png")
    heading = ["", "ms", "from, to", f"{case.unit}/s", "ratio", "peak MiB"]
    return Table(heading, lines), results


def of_end_to_end() -> tuple[Table, dict[str, Any]]:
    """Measures training and translation end to end, starting from the text of captions."""
    figures = end_to_end(
        Path(FLAGS.workdir) / "end_to_end", Path(FLAGS.multi30k), FLAGS.peers, FLAGS.rounds
    )
    systems, sentences = list(figures["systems"]), figures["sentences"]

    def line(name: str, values: Sequence[float | None]) -> list[str]:
        shown = [ABSENT if value is None else f"{value:,.1f}" for value in values]
        first, second = values
        ratio = "" if first is None or second is None else f"{second / first:.2f}"
        return [name, *shown, ratio]

    lines = [line("seconds an epoch", [system["epoch"] for system in figures["systems"].values()])]
    for goal in GOALS:
        values = [system["goals"][goal] for system in figures["systems"].values()]
        lines.append(line(f"seconds to validation BLEU {goal}", values))
    for search in BEAMS:
        decoded = [system[search] for system in figures["systems"].values()]
        seconds = [statistics.median(of_system["seconds"]) for of_system in decoded]
        lines.append(line(f"{search}, seconds for {sentences:,} sentences", seconds))
        lines.append(line(f"{search}, BLEU", [of_system["bleu"] for of_system in decoded]))
    return Table(["", *systems, "ratio"], lines), figures


def of_start() -> tuple[Table, dict[str, Any]]:
    """Measures how long imports and a run of one step take."""
    figures = start(FLAGS.rounds)
    lines = [
        [
            name,
            f"{statistics.median(measured['seconds']):.2f}",
            f"{min(measured['seconds']):.2f} to {max(measured['seconds']):.2f}",
            f"{measured['peak']:,.0f}",
        ]
        for name, measured in figures.items()
    ]
    return Table(["", "s", "from, to", "peak MiB"], lines), figures


def of_kernels() -> tuple[Table, dict[str, Any]]:
    """Measures each kernel and its plain form, value and derivative, on the first device."""
    device, lines, figures = jax.devices()[0].device_kind, [], {}
    for name, times in kernels.measured(FLAGS.rounds):
        fast, plain, ratio = map(statistics.median, (*times, times.ratios))
        spread = f"{min(times.ratios):.2f} to {max(times.ratios):.2f}"
        lines.append(
            [name, device, f"{1e3 * fast:.2f}", f"{1e3 * plain:.2f}", f"{ratio:.2f}", spread]
        )
        figures[name] = times._asdict()
    heading = ["", "device", "kernel, ms", "plain, ms", "kernel ÷ plain", "from, to"]
    return Table(heading, lines), figures


def of_serving() -> tuple[Table, dict[str, Any]]:
    """Measures how fast requests are answered; prints each result as soon as it is known."""
    figures, lines = {}, []
    for name, measured in serving(FLAGS.rounds):
        figures[name] = measured
        lines.append(
            [
                name,
                f"{measured['ready']:.1f}",
                f"{1e3 * statistics.median(measured['first']):.0f}",
                f"{1e3 * statistics.median(measured['later']):.1f}",
                f"{measured['sentences_per_second']:,.0f}",
                f"{measured['peak']:,.0f}",
            ]
        )
        print("  ".join(lines[-1]), flush=True)
    heading = ["", "ready s", "first ms", "later ms", "sentences/s", "peak MiB"]
    return Table(heading, lines), figures


def of_faults() -> tuple[Table, dict[str, Any]]:
    """Stops runs and damages files; prints what became of each kind as soon as it is known."""
    figures, lines = {}, []
    for name, found in faults():
        figures[name] = found
        for what, count in found["counts"].items():
            lines.append([name, what, str(count)])
            print("  ".join(lines[-1]), flush=True)
    return Table(["", "what became of it", "times"], lines), figures


BENCHMARKS: dict[str, Callable[[], tuple[Table, dict[str, Any]]]] = {
    **{name: functools.partial(of_cases, group) for name, group in GROUPS.items()},
    "end_to_end": of_end_to_end,
    "start": of_start,
    "kernels": of_kernels,
    "serving": of_serving,
}
FAULTS = {"faults": of_faults}  # tells no times, and is run only if asked for
ALONE = {"start", "kernels", "serving", *FAULTS}  # without peers


def define() -> None:
    """Defines the flags."""
    flags.define_workdir("folder for the figures")
    absl_flags.DEFINE_string(
        "peers", "", "the Python of an environment with the peers; by default, one is made"
    )
    absl_flags.DEFINE_list("only", list(BENCHMARKS), f"benchmarks; also {', '.join(FAULTS)}")
    absl_flags.DEFINE_integer("rounds", 7, "repetitions of each side", lower_bound=1)
    absl_flags.DEFINE_string(
        "multi30k",
        "../shared/data/multi30k_ende/tok",
        "folder with the captions of multi30k.flags, for end_to_end",
    )


def main() -> None:
    """Prints a table for each benchmark, and writes JSON and pictures into the folder."""
    if sys.platform != "linux":
        raise InputError("only Linux tells the memory of processes as the benchmark measures it")
    folder = Path(FLAGS.workdir)
    chosen = {name: choose(BENCHMARKS | FAULTS, name, "benchmark") for name in FLAGS.only}
    if "end_to_end" in chosen and (folder / "end_to_end").exists():
        raise InputError(f"{folder / 'end_to_end'} exists: take another --workdir")
    if "end_to_end" in chosen:
        captions(Path(FLAGS.multi30k))  # whose absence is told before the others take an hour
    if chosen.keys() - ALONE:
        FLAGS.peers = FLAGS.peers or installed_peers()
        one_device(FLAGS.peers)
    folder.mkdir(parents=True, exist_ok=True)
    about = machine()
    print(", ".join(f"{what} {value}" for what, value in about.items()))
    for name, benchmark in chosen.items():
        table, figures = benchmark()
        print_table(name, table)
        record = {"machine": about, "rounds": FLAGS.rounds, "figures": figures}
        (folder / f"{name}.json").write_text(strict_json.dumps(record, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    run(sys.modules[__name__])
