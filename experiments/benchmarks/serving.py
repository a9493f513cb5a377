"""How fast a model of the presets' size answers: `./launch.sh bench --only=serving`.

Its weights are untrained, and every translation has as many tokens as its source, so that times
do not depend on what a model has learnt.
"""

import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from .compare import ROOT

LENGTH = 16  # tokens of each source and target sentence
VOCABULARY = 8000
# Of the preset multi30k-rnnsearch.
SIZES = {"embedding_size": 256, "annotation_size": 512, "hidden_size": 256}
BATCHES = (1, 8, 64)
BEAMS = (1, 5)
SENTENCES = 256  # whose translation is timed for throughput, in calls of one batch


class Answer(NamedTuple):
    """What one process measured."""

    first: float  # seconds of the first request
    later: list[float]  # seconds of each later one
    ready: float  # seconds from the start of the process until it can take requests
    peak: float  # memory in MiB


def asked(cache: Path, **settings: Any) -> Answer:
    """What a new process measures, which serves requests as `measure` does."""
    settings |= {"begun": time.time()}
    # With JAX's own variable, what compiles in under a second would not be cached.
    environment = {k: v for k, v in os.environ.items() if k != "JAX_COMPILATION_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, "-m", "experiments.benchmarks.serving", json.dumps(settings)],
        cwd=ROOT,
        env=environment | {"ATTN_JAX_CACHE": str(cache), "PYTHONPATH": str(ROOT)},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return Answer(**json.loads(done.stdout))


def serving(rounds: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """The latency of first and later requests, then throughput by batch size and beam."""
    cores = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as made:
        for beam in BEAMS:
            answers: dict[str, list[Answer]] = {"cold": [], "cached": [], "warm_up": []}
            for number in range(rounds):
                cache = Path(made, f"{beam}-{number}")
                for kind in answers:  # the first fills the cache
                    answers[kind].append(asked(cache, beam=beam, warm=kind == "warm_up"))
            for kind, of_kind in answers.items():
                yield f"beam {beam}, one sentence, {kind}", _figures(of_kind, 1)
        sizes = [(cores, batch) for batch in BATCHES] + [(1, BATCHES[-1])]
        for beam, (used, batch) in itertools.product(BEAMS, sizes):
            requests = max(3, SENTENCES // batch)
            settings = {"beam": beam, "batch": batch, "requests": requests, "cores": used}
            answer = asked(Path(made, f"{beam}-0"), **settings)
            name = f"beam {beam}, {batch} at a time, {used} core{'s' * (used > 1)}"
            yield name, _figures([answer], batch)


def _figures(answers: list[Answer], batch: int) -> dict[str, Any]:
    later = [seconds for answer in answers for seconds in answer.later]
    return {
        "ready": statistics.median(answer.ready for answer in answers),
        "first": [answer.first for answer in answers],
        "later": later,
        "sentences_per_second": batch / statistics.median(later),
        "peak": statistics.median(answer.peak for answer in answers),
    }


def measure(
    begun: float,
    beam: int,
    batch: int = 1,
    warm: bool = True,
    requests: int = 10,
    cores: int | None = None,
) -> Answer:
    """Serves requests in this process.

    Args:
      begun: when the process was started, in seconds since the epoch.
      beam: hypotheses at each step.
      batch: sentences of a request.
      warm: whether to warm up before the first request.
      requests: how many follow the first.
      cores: how many to use; all when None.
    """
    import resource

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
    seconds = []
    for request in range(requests + 1):
        sentences = [
            " ".join(f"w{(request + row * place) % VOCABULARY}" for place in range(LENGTH))
            for row in range(batch)
        ]
        asked_at = time.perf_counter()
        translator.translate(sentences, **options)
        seconds.append(time.perf_counter() - asked_at)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Answer(seconds[0], seconds[1:], ready, peak)


if __name__ == "__main__":
    print(json.dumps(measure(**json.loads(sys.argv[1]))._asdict()))
