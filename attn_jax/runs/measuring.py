"""What runs take: in the records of runs that were made, and measured before they are made."""

import contextlib
import heapq
import itertools
import math
import operator
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import jax

from attn_jax import config
from attn_jax.config import Options
from attn_jax.data.datasets import open_corpus
from attn_jax.data.sentences import Example
from attn_jax.evaluation.assess import assess
from attn_jax.files import path_of
from attn_jax.records import states
from attn_jax.runs.checks import check
from attn_jax.runs.executor import Processes, Slot, how_ended, run_child
from attn_jax.runs.folder import settle
from attn_jax.runs.preparing import prepared
from attn_jax.startup import start_training
from attn_jax.training.devices import first_replica, make_mesh, replicate, split
from attn_jax.training.loop import recipe_of
from attn_jax.training.running import Throughput
from attn_jax.training.step import train_step
from attn_jax.translation.loading import Place
from attn_jax.translation.translator import Translator

# What JAX measures: getting a program, and what was saved where it was only read from the cache.
# Both together are the time that its compilation takes, now or when it was compiled.
COMPILED = "/jax/core/compile/backend_compile_duration"
SAVED = "/jax/compilation_cache/compile_time_saved_sec"

STEPS = 30  # of which those are measured whose shape has been compiled before
SENTENCES = 128  # of the validation that are translated
MEASURED = "measured"  # what a process records that has only measured


class Work(NamedTuple):
    """How often a run does what takes time."""

    starts: int = 0
    compilations: int = 0  # of all programs, which later runs find in the cache
    steps: int = 0
    validations: int = 0
    evaluations: int = 0


class Cost(NamedTuple):
    """What that takes each time, in seconds; NaN for what is not known."""

    start: float = math.nan  # until the first step, without compilation
    compilation: float = math.nan
    step: float = math.nan
    validation: float = math.nan
    evaluation: float = math.nan

    def of(self, work: Work) -> float:
        """The seconds that some work takes."""
        return sum(map(operator.mul, self, work))


def makespan(durations: Iterable[float], places: int) -> float:
    """The time until all runs have ended, each begun in order as soon as there is a place."""
    ends = [0.0] * places
    for duration in durations:
        heapq.heapreplace(ends, ends[0] + duration)  # at the place that is free first
    return max(ends)


def told(seconds: float) -> str:
    """A duration in words."""
    for unit, length in (("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.0f} s"


def measured(
    root: Path,
    runs: Mapping[str, Mapping[str, Any]],
    places: Sequence[Slot],
    seconds_left: Callable[[], float] = lambda: math.inf,
) -> Iterator[tuple[str, Cost | str]]:
    """Measures runs where they would run, as many at a time; writes nothing into their folders.

    Args:
      root: the folder of the runs.
      runs: the options of each, by its name; they begin in this order.
      places: where they would run.
      seconds_left: how long to wait for the next one, asked each time anew; what is not measured
        then is left out.

    Yields:
      The name of a run with what it takes, or why it could not be measured.
    """
    with Processes(places) as executor:
        waiting = {executor.submit(_measured, root / n, runs[n]): n for n in runs}
        try:
            while waiting:
                most = seconds_left()
                timeout = None if math.isinf(most) else max(0.0, most)
                done, _ = wait(waiting, timeout, FIRST_COMPLETED)
                if not done:
                    return
                for future in done:
                    yield waiting.pop(future), future.result()
        finally:
            executor.end()


def measured_systems(
    root: Path, runs: Mapping[str, Mapping[str, Any]], places: Sequence[Slot]
) -> dict[str, Cost | str]:
    """What each run of a sweep takes, or why that could not be measured.

    A run is measured once for all seeds and numbers of steps. Of fewer systems than places, some
    seeds too, since runs at the same time slow each other.
    """
    system = {
        label: config.told({n: v for n, v in run.items() if n not in ("seed", "train.steps")})
        for label, run in runs.items()
    }
    first = {each: label for label, each in reversed(system.items())}
    beside = [label for label in runs if label not in first.values()]
    some = [*first.values(), *beside[: max(0, len(places) - len(first))]]
    found = dict(measured(root, {label: runs[label] for label in some}, places))
    return {label: found[first[each]] for label, each in system.items()}


def _measured(workdir: Path, options: Mapping[str, Any]) -> Cost | str:
    """What a run takes, by a process that records it in a folder of its own; or why not."""
    with TemporaryDirectory() as record:
        states.starting(Path(record))
        flags = ["--dry_run", f"--record={record}"]
        status = run_child(workdir, options, flags, subprocess.DEVNULL)
        said = states.read(Path(record))
    if status or said.get("state") != MEASURED:
        return str(said.get("why") or how_ended(status))
    return Cost(*(said[name] for name in Cost._fields))


def measure(options: Options, workdir: Place, record: Path | None = None) -> Cost:
    """Measures the run that `train` would make, by some steps and translations.

    Args:
      options: as in `train`.
      workdir: as in `train`; nothing is written there.
      record: the folder in which a sweep waits for what is measured.

    Raises:
      InputError: an option, the data or the folder cannot be used.
    """
    start_training()
    workdir = path_of(workdir)
    experiment = settle(workdir, config.given(options))
    check(experiment)
    corpus = open_corpus(experiment.data)
    ready, recipe = prepared(workdir, experiment, corpus), recipe_of(experiment.train)
    state, rng, mesh, throughput = ready.state, ready.rng, make_mesh(experiment.train), Throughput()
    if mesh is not None:
        state, rng = replicate((state, rng), mesh)
    began = states.read(record).get("began", math.nan) if record else math.nan
    start = time.time() - began
    with compilations() as compiled:
        for batch in itertools.islice(ready.batches.from_step(ready.step), STEPS):
            throughput.reset()
            throughput.count(batch.source, batch.target)
            shared = batch if mesh is None else split(batch, mesh)
            state, loss = train_step(state, shared, rng, recipe=recipe, mesh=mesh)
            jax.block_until_ready(loss)
            throughput.close()
        shown = (state if mesh is None else first_replica(state)).result
        translator = Translator([shown], ready.source, ready.target, experiment.data.max_length)
        validation = _validation(translator, ready.validation, experiment.data.bleu_tokenizer)
    tests = len(corpus.examples("test")) if "test" in corpus.splits else 0
    cost = Cost(
        start,
        compilation=sum(compiled.values()),
        step=1 / throughput.rates()[0],
        validation=validation,
        evaluation=validation * tests / len(ready.validation),
    )
    if record:
        states.tell(record, MEASURED, **cost._asdict())
    return cost


@contextlib.contextmanager
def compilations() -> Iterator[dict[str, float]]:
    """Seconds that compilations take: `COMPILED` now, and with `SAVED` without a cache."""
    seconds = {COMPILED: 0.0, SAVED: 0.0}

    def listen(event: str, duration_secs: float, **_: Any) -> None:
        if event in seconds:
            seconds[event] += duration_secs

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield seconds
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


def _validation(translator: Translator, sentences: Sequence[Example], tokenizer: str) -> float:
    """The duration of a validation, from that of some of its sentences.

    A model that has learnt next to nothing does not end its sentences: they end here where the
    longest reference does.
    """
    some = sentences[:: -(-len(sentences) // SENTENCES)]
    longest = max(len(example.target.tokens) for example in some)
    search: dict[str, Any] = {"max_length": longest + 1}
    took = 0.0
    for _ in range(2):  # at first, it compiles
        began = time.perf_counter()
        assess(translator, some, tokenizer, search)
        took = time.perf_counter() - began
    return took * len(sentences) / len(some)
