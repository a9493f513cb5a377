"""New processes: how long they take to start, and a loaded model to answer.

The model has the size of the presets. Its weights are untrained, and every translation has as many
tokens as its source, so that times do not depend on what a model has learnt.
"""

import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from attn_jax.errors import InputError

from .compare import ROOT

LENGTH = 16  # tokens of each source and target sentence
VOCABULARY = 8000
# Of the preset multi30k-rnnsearch.
SIZES = {"embedding_size": 256, "annotation_size": 512, "hidden_size": 256}
BATCHES = (1, 8, 64)
BEAMS = (1, 5)
SENTENCES = 256  # whose translation is timed for throughput, in calls of one batch

# On Linux, a process inherits the peak memory of its parent: this parent is small.
LAUNCHER = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, text=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, done.stdout, sep="\\n")
sys.exit(done.returncode)
"""


def timed(command: Sequence[str], cache: Path) -> tuple[float, float, str]:
    """The seconds that a Python program takes, its peak memory in MiB, and what it prints.

    Args:
      command: the arguments of Python.
      cache: the folder for its compiled programs.

    Raises:
      InputError: the program failed.
    """
    # As for users: with JAX's own variable, what compiles in under a second would not be cached.
    environment = {k: v for k, v in os.environ.items() if k != "JAX_COMPILATION_CACHE_DIR"}
    begun = time.perf_counter()
    ended = subprocess.run(
        [sys.executable, "-S", "-c", LAUNCHER, sys.executable, *command],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        env=environment | {"ATTN_JAX_CACHE": str(cache), "PYTHONPATH": str(ROOT)},
    )
    seconds = time.perf_counter() - begun
    if ended.returncode:
        raise InputError(f"{' '.join(command)} ended with status {ended.returncode}")
    peak, _, said = ended.stdout.partition("\n")
    return seconds, int(peak) / 1024, said


def large_text(folder: Path) -> list[str]:
    """Writes a million pairs of 8 words on each side; returns the flags of a run on them."""
    drawn, words = random.Random(0), [f"word{number}" for number in range(60_000)]
    lines = (drawn.choices(words, k=16) for _ in range(1_000_000))
    with (folder / "train.tsv").open("w") as file:
        file.writelines(f"{' '.join(line[:8])}\t{' '.join(line[8:])}\n" for line in lines)
    (folder / "valid.tsv").write_text("word1 word2\tword3 word4\n")
    files = [f"--data.{split}={folder / split}.tsv" for split in ("train", "valid")]
    return ["--data.name=parallel", "--data.words=30000", *files]


def start(rounds: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Seconds and peak memory of each kind of start, interleaved; the data are prepared first."""
    with tempfile.TemporaryDirectory() as made:
        folder, numbers = Path(made), itertools.count()

        def run(cache: str, data: Sequence[str]) -> tuple[float, float, str]:
            flags = [f"--workdir={folder / str(next(numbers))}", "--train.steps=1", *data]
            return timed(["-m", "attn_jax", "train", *flags], folder / cache)

        small, large = [f"--data.directory={folder / 'data'}"], large_text(folder)
        run("warm", small)
        run("warm", large)
        turns = [
            (
                timed(["-c", "import attn_jax.runs.training"], folder / "warm"),
                run(f"cache{number}", small),
                run(f"cache{number}", small),
                run("warm", large),
            )
            for number in range(rounds)
        ]
    names = "import", "one step, cold", "one step, cached", "one step on a million pairs, cached"
    for name, times in zip(names, zip(*turns, strict=True), strict=True):
        seconds, peaks, _ = zip(*times, strict=True)
        yield name, {"s": seconds, "peak MiB": statistics.median(peaks)}


def serving(rounds: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """The latency of first and later requests, then throughput by batch size and beam."""
    cores = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as made:

        def asked(cache: str, **settings: Any) -> dict[str, Any]:
            words = json.dumps(settings | {"begun": time.time()})
            command = ["-m", "experiments.benchmarks.processes", words]
            _, peak, said = timed(command, Path(made, cache))
            return json.loads(said) | {"peak MiB": peak}

        for beam in BEAMS:
            answers: dict[str, list[dict[str, Any]]] = {"cold": [], "cached": [], "warm_up": []}
            for number in range(rounds):
                for kind, found in answers.items():  # the first fills the cache
                    found.append(asked(f"{beam}-{number}", beam=beam, warm=kind == "warm_up"))
            for kind, found in answers.items():
                yield f"beam {beam}, one sentence, {kind}", _together(found)
        sizes = [(cores, batch) for batch in BATCHES] + [(1, BATCHES[-1])]
        for beam, (used, batch) in itertools.product(BEAMS, sizes):
            requests = max(3, SENTENCES // batch)
            found = asked(f"{beam}-0", beam=beam, batch=batch, requests=requests, cores=used)
            name = f"beam {beam}, {batch} at a time, {used} core{'s' * (used > 1)}"
            per_second = 1e3 * batch / statistics.median(found["later ms"])
            yield name, _together([found]) | {"sentences/s": per_second}


def _together(answers: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        "ready s": [answer["ready s"] for answer in answers],
        "first ms": [answer["first ms"] for answer in answers],
        "later ms": [milliseconds for answer in answers for milliseconds in answer["later ms"]],
        "peak MiB": statistics.median(answer["peak MiB"] for answer in answers),
    }


def serve(
    begun: float,
    beam: int,
    batch: int = 1,
    warm: bool = True,
    requests: int = 10,
    cores: int | None = None,
) -> dict[str, Any]:
    """Serves requests in this process.

    Args:
      begun: when the process was started, in seconds since the epoch.
      beam: hypotheses at each step.
      batch: sentences of a request.
      warm: whether to warm up before the first request.
      requests: how many follow the first.
      cores: how many to use; all when None.
    """
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    import jax

    from attn_jax.cache import use_compilation_cache
    from attn_jax.config import Model
    from attn_jax.data.vocabulary import Words
    from attn_jax.models.seq2seq import initialize
    from attn_jax.translation.translator import Translator

    use_compilation_cache()
    words = Words([f"w{number}" for number in range(VOCABULARY)])
    model = initialize(Model(**SIZES), len(words), len(words), jax.random.key(0))
    translator = Translator([model], words, words)
    options = {"beam_size": beam, "min_length": LENGTH, "max_length": LENGTH}
    if warm:
        translator.warm_up([LENGTH], [batch], **options)
    ready = time.time() - begun
    times = []
    for request in range(requests + 1):
        sentences = [
            " ".join(f"w{(request + row * place) % VOCABULARY}" for place in range(LENGTH))
            for row in range(batch)
        ]
        asked_at = time.perf_counter()
        translator.translate(sentences, **options)
        times.append(1e3 * (time.perf_counter() - asked_at))
    return {"ready s": ready, "first ms": times[0], "later ms": times[1:]}


if __name__ == "__main__":
    print(json.dumps(serve(**json.loads(sys.argv[1]))))
