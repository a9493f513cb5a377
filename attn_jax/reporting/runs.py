"""Runs that were evaluated, read from their folders."""

import contextlib
import dataclasses
import functools
import io
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attn_jax import config
from attn_jax.errors import InputError, choose
from attn_jax.evaluation.metrics import (
    METRICS,
    bleu_counts,
    in_words,
    make_bleu,
    matching,
    ranking_metric,
)
from attn_jax.evaluation.significance import exchanged, resampled_bleu, resampled_mean
from attn_jax.records import changes, journal, manifest, provenance, run_files
from attn_jax.records.changes import Change
from attn_jax.records.own_code import digest
from attn_jax.records.progress import Criterion, Progress


@dataclasses.dataclass(frozen=True)
class Run:
    """One evaluated run."""

    options: dict[str, Any]  # that it began with
    evaluation: dict[str, Any]
    journal: list[dict[str, Any]]
    sentences: list[dict[str, Any]]
    weights: dict[int, np.ndarray]  # of some sentences, by their places, [L, N, T, S]
    content: str | None = None  # identifies its data by content, independent of their path
    folder: Path = Path()
    code: str = ""  # a digest of the user's own code
    changes: Sequence[Change] = ()  # of its options since
    sessions: list[dict[str, Any]] = dataclasses.field(default_factory=list)  # of its training
    # What else is known of these, as `evaluation.pictures` returns it.
    pictures: dict[str, dict[int, np.ndarray]] = dataclasses.field(default_factory=dict)
    trained: bool = True  # here, and not by another toolkit
    doubt: str = ""  # whether what another toolkit wrote is of the same sentences

    def brief(self, name: str) -> str:
        """The value of an option as people write it."""
        return config.brief(self.options[name])

    @property
    def data(self) -> str:
        """The name of the data set, or of the user's own test file, and the sides if given."""
        test, *sides = (self.options[f"data.{name}"] for name in ("test", "source", "target"))
        parts = [Path(test).name or self.options["data.name"], *sides]
        return "-".join(part for part in parts if part)

    @functools.cached_property
    def in_words(self) -> bool:
        """Whether the targets are sentences, rather than symbols or single words."""
        references = [sentence["reference"] for sentence in self.sentences]
        level, tokenizer = (self.options[f"data.{n}"] for n in ("target_level", "bleu_tokenizer"))
        return in_words(level, references, tokenizer)

    @property
    def is_control(self) -> bool:
        """Whether its score is a control without attention."""
        return getattr(self.options["model.score"], "is_control", False)  # of one's own, a name

    @property
    def measure(self) -> str:
        """The metric by which systems are ranked: BLEU for words, else exact match."""
        return ranking_metric(self.in_words)

    @property
    def criterion(self) -> str:
        """The metric by which its best checkpoint was chosen."""
        asked = self.options["train.metric"]
        return self.journal[-1].get("metric", self.measure) if asked == "auto" else asked

    @property
    def metrics(self) -> dict[str, float]:
        """The metrics of its evaluation, and `sharpness`, the mean over heads; not of a control."""
        if self.is_control:
            return self.evaluation["metrics"]
        sharpness = float(np.mean([head["sharpness"] for head in self.evaluation["heads"]]))
        return self.evaluation["metrics"] | {"sharpness": sharpness}

    @property
    def explanations(self) -> dict[str, Any]:
        """Whether its weights matter; empty if that was not measured."""
        return self.evaluation.get("explanations", {})

    @property
    def quality(self) -> float:
        """The value of the metric by which systems are ranked."""
        return self.evaluation["metrics"][self.measure]

    @functools.cached_property
    def counts(self) -> np.ndarray:
        """What is compared of each sentence: BLEU's counts [N, 10], or whether it matches [N]."""
        if self.in_words:
            texts, references = (
                [sentence[name] for sentence in self.sentences] for name in ("text", "reference")
            )
            return bleu_counts(texts, references, self.options["data.bleu_tokenizer"])
        tokens = (
            [sentence[name] for sentence in self.sentences] for name in ("text_tokens", "target")
        )
        return np.array(matching(*tokens), int)

    @functools.cached_property
    def resampled(self) -> np.ndarray:
        """BLEU or exact match of the test set, and of bootstrap samples of it, [1 + samples]."""
        if self.in_words:
            return resampled_bleu(self.counts)
        return resampled_mean(100 * self.counts)

    @functools.cached_property
    def exchanged(self) -> np.ndarray:
        """Sums of matches with random signs, by which exact match is compared, [samples]."""
        return exchanged(self.counts)

    @property
    def has_gold(self) -> bool:
        """Whether all sentences have a gold alignment."""
        return all(sentence["gold"] is not None for sentence in self.sentences)

    @property
    def cutting(self) -> tuple:
        """How text is split into tokens: the options on which that depends, and what they gave.

        The same options learn other subwords from other training data.
        """
        names = (
            "source_level",
            "target_level",
            "words",
            "min_count",
            "subwords",
            "character_coverage",
            "vocabulary",
        )
        tokens = ((*sentence["source"], "", *sentence["target"]) for sentence in self.sentences)
        return *(self.options[f"data.{name}"] for name in names), *tokens

    @property
    def interrupted(self) -> bool:
        """Whether training has not come to its last step, nor been ended by `patience`."""
        train, progress = config.train_of(self.options), Progress()
        criterion = Criterion(self.criterion, METRICS[self.criterion])
        for line in self.journal:
            progress = progress.after(line["step"], criterion.goodness(line))
        return not progress.finished(self.journal[-1]["step"], train)

    @property
    def seconds(self) -> float:
        """The duration of training: the steps before each validation, divided by their rate.

        Rates exclude compilations, which the first run of a sweep does for the following ones.
        """
        steps = np.diff([line["step"] for line in self.journal], prepend=0)
        rates = [line["steps_per_second"] for line in self.journal]
        return float((steps / rates).sum())

    @property
    def search(self) -> str:
        """How the run was decoded: the options that were given, or `greedy`."""
        options = self.evaluation["search"]
        return ", ".join(f"{name}={value}" for name, value in options.items()) or "greedy"

    @property
    def seed(self) -> int | None:
        """The seed of the run; None of another toolkit."""
        return self.options["seed"] if self.trained else None

    @property
    def which(self) -> str:
        """Which run of its system it is, in words."""
        return f"seed {self.seed}" if self.trained else "of another toolkit"

    @property
    def facts(self) -> dict[str, Any]:
        """Everything that determines the metrics: options, data, the user's own code, decoding."""
        others = {"data": self.content, "code": self.code, "search": self.search}
        return self.options | others | {"changes": self.changed}

    @property
    def changed(self) -> str:
        """How its options have changed since it began, in a phrase; empty if they have not."""
        return ", ".join(map(str, self.changes))

    @property
    def system(self) -> tuple:
        """What runs of one system have in common: all facts but the seed."""
        return tuple(v for name, v in self.facts.items() if name != "seed")


def read_run(folder: Path) -> Run:
    """Reads the evaluated run in a folder, and checks that it holds what reports need.

    Raises:
      InputError: one of its files is missing or damaged.
      OSError: one of its files may not be read.
    """
    manifest.check(folder)
    content = run_files.content(folder).read_text("utf-8").strip()
    run = Run(
        changes.options_at(folder, 0),
        {},
        journal.read(folder),
        [],
        {},
        content,
        folder,
        digest(folder),
        changes.read(folder),
        provenance.read(folder),
    )
    try:
        make_bleu(run.options["data.bleu_tokenizer"])  # which may not be installed
        choose(METRICS | {"auto": True}, run.options["train.metric"], "metric")
    except InputError as error:
        raise InputError(f"{run_files.flags(folder)}: {error}") from error
    return of_split(run, "test")


def of_split(run: Run, split: str) -> Run:
    """A run with its evaluation on a split; checks that it holds what reports need.

    Raises:
      InputError: one of its files is missing or damaged.
      OSError: one of its files may not be read.
    """
    evaluation = manifest.measured(run.folder, run_files.evaluation(run.folder, split))
    lines = manifest.content(run.folder, run_files.predictions(run.folder, split)).split(b"\n")
    sentences = list(map(json.loads, filter(None, lines)))
    content = manifest.content(run.folder, run_files.alignments(run.folder, split))
    with np.load(io.BytesIO(content)) as arrays:
        pictures: dict[str, dict[int, np.ndarray]] = {"arr": {}}
        for name, array in arrays.items():
            of, _, place = name.rpartition("_")
            pictures.setdefault(of, {})[int(place)] = array
    return dataclasses.replace(
        run,
        evaluation=evaluation,
        sentences=sentences,
        weights=pictures.pop("arr"),
        pictures=pictures,
    )


def why_not_evaluated(folder: Path) -> str:
    """Why the run in a folder has no evaluation: its training has diverged, or none was made."""
    step = diverged(folder)
    if step is None:
        return "not evaluated on a test split"
    return f"training has diverged: its validation perplexity at step {step} is not finite"


def diverged(folder: Path) -> int | None:
    """The step of the last validation of a run, if its perplexity is not finite."""
    last: dict[str, Any] = {}
    with contextlib.suppress(InputError):
        *_, last = journal.read(folder)
    return None if math.isfinite(last.get("valid_perplexity", 0.0)) else last["step"]


def find_runs(root: Path) -> tuple[list[Run], dict[Path, str]]:
    """The evaluated runs under a folder, and the reasons for leaving others out, by their folders.

    A run with the same data, code and options as another, seed included, is a duplicate and left
    out. Trials of a search are in neither: what came of them is told where systems are compared.
    Runs whose data have the same content get the data paths of the first of them, so that paths do
    not distinguish them.
    """
    runs: list[Run] = []
    left_out: dict[Path, str] = {}
    first: dict[tuple, Path] = {}
    places: dict[str | None, dict[str, Any]] = {}
    trials = {run_files.trials(file.parent) for file in root.rglob(run_files.search(root).name)}
    for folder in sorted(file.parent for file in root.rglob("flags.txt")):
        if folder.parent in trials:
            continue
        if not run_files.evaluation(folder, "test").is_file():
            left_out[folder] = why_not_evaluated(folder)
            continue
        try:
            run = read_run(folder)
        except (InputError, OSError) as error:
            left_out[folder] = str(error)
            continue
        here = {name: run.options[name] for name in config.PLACES}
        there = places.setdefault(run.content, here)
        run = dataclasses.replace(run, options=run.options | there)
        same = run.system, run.seed
        if first.setdefault(same, folder) == folder:
            runs.append(run)
        else:
            left_out[folder] = f"the same as {first[same]}"
    return runs, left_out
