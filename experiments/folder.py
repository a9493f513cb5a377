"""The folder of a run: which experiment it holds, who may write into it, and what is recorded."""

import contextlib
import dataclasses
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from attn_jax import config, run_files
from attn_jax.config import Experiment, Model
from attn_jax.data.datasets import Corpus, with_defaults
from attn_jax.data.vocabularies import save_vocabulary
from attn_jax.data.vocabulary import Vocabulary
from attn_jax.errors import InputError
from attn_jax.files import reading, write_whole
from attn_jax.own_code import edited, keep_code
from experiments import flags

SPLITS = ["train", "validation", "test"]

# Options that may change between parts of a training, since they do not change what was learnt.
FREE = (
    "label",
    *(f"train.{name}" for name in ("steps", "valid_every", "keep", "skip", "patience")),
)


def has_begun(workdir: Path) -> bool:
    """Whether a folder holds any training; before that, options, data and code may change."""
    journal = run_files.journal(workdir)
    return (journal.is_file() and journal.stat().st_size > 0) or steps_done(workdir) > 0


def steps_done(workdir: Path) -> int:
    """The step of the last checkpoint in a folder; 0 if there is none."""
    names = (folder.name for folder in run_files.checkpoints(workdir).glob("*"))
    return max((int(name) for name in names if name.isdecimal()), default=0)


def settle(workdir: Path, given: dict) -> Experiment:
    """The experiment to run: a new one, or the one in the workdir.

    Once it has been trained, only what does not change what was learnt may change: the options in
    `FREE`, and where data of the same recorded content lie; before that, everything may change.
    `train.steps` is at least the number of steps done, which nothing undoes.

    Raises:
      InputError: the workdir holds another run or something else, or cannot hold checkpoints.
    """
    if "[" in str(workdir.absolute()):
        raise InputError(
            f"checkpoints under {workdir} could not be read again, for the [ in its name: take "
            "another --workdir, or give systems of a sweep another --label"
        )
    file = run_files.flags(workdir)
    if file.is_file():
        stored = config.read(file)
        kept, begun = config.values(stored), has_begun(workdir)
        if not begun and given.get("data.name", stored.data.name) != stored.data.name:
            # What is stored may be the defaults of the other data set.
            kept |= {"data.source_level": "auto", "data.target_level": "auto"}
        wanted = experiment_with(kept | given)
        if not begun:
            return wanted
        # Where data lie may change: their content is compared by `check_content`.
        changed = differing(stored, wanted, {*FREE, *config.PLACES})
        if changed:
            raise InputError(
                f"{workdir} holds a run with other flags: {'; '.join(changed)}. Use the flags of "
                f"that run, or another --workdir (with --train.initial={workdir} to start from the "
                "parameters of this one)"
            )
        steps = max(wanted.train.steps, steps_done(workdir))
        return dataclasses.replace(wanted, train=dataclasses.replace(wanted.train, steps=steps))
    if workdir.exists() and (not workdir.is_dir() or any(workdir.iterdir())):
        raise InputError(f"{workdir} exists and is not the folder of a run: take another --workdir")
    return experiment_with(given)


def differing(stored: Experiment, wanted: Experiment, ignored: set[str]) -> list[str]:
    """Phrases that describe each option whose stored and wanted values differ."""
    before, now = config.values(stored), config.values(wanted)
    return [
        f"--{name} was {before[name]!r} and is now {now[name]!r}"
        for name in before
        if before[name] != now[name] and name not in ignored
    ]


def experiment_with(options: dict) -> Experiment:
    """The experiment with these options, and defaults for the others, also of its data set."""
    experiment = config.experiment(options)
    return dataclasses.replace(experiment, data=with_defaults(experiment.data))


def inherited(experiment: Experiment, given: dict) -> list[str]:
    """The options, as flags, that were not given and have other values than in a new run."""
    new = config.values(experiment_with(given))
    return flags.as_arguments(
        {
            name: value
            for name, value in config.values(experiment).items()
            if name not in given and value != new[name]
        }
    )


def tell_inherited(options: list[str]) -> None:
    """Prints the options that were not given but taken from the folder of the run."""
    if options:
        print(f"as in the folder of the run: {' '.join(options)}", flush=True)


@contextlib.contextmanager
def alone(workdir: Path) -> Iterator[None]:
    """Locks the folder of a run, so that no other process trains in it.

    Creates the folder if it does not exist, and then removes it if it stays empty.

    Raises:
      InputError: it is a file, or another process is training in it.
    """
    if workdir.is_file():
        raise InputError(f"{workdir} is a file, not the folder of a run")
    new = not workdir.exists()
    workdir.mkdir(parents=True, exist_ok=True)
    folder = os.open(workdir, os.O_RDONLY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"another process is training in {workdir}") from None
        yield
    finally:
        os.close(folder)
        if new and not any(workdir.iterdir()):
            workdir.rmdir()


def check_content(workdir: Path, corpus: Corpus) -> None:
    """Raises InputError if the run in a folder was trained on other data."""
    file = run_files.content(workdir)
    if not has_begun(workdir):
        return
    with reading(file):
        known = file.read_text("utf-8").strip()
    if known != corpus.content:
        raise InputError(
            f"the data are not those that the run in {workdir} was trained on: use those data, or "
            "another --workdir"
        )


def check_code(workdir: Path, model: Model) -> None:
    """Raises InputError if the user's own code has changed since the run was trained."""
    changed = edited(workdir, model)
    if changed and has_begun(workdir):
        raise InputError(f"{'; '.join(changed)}: take another --workdir, or put that code back")


def record(
    workdir: Path, experiment: Experiment, corpus: Corpus, source: Vocabulary, target: Vocabulary
) -> None:
    """Records a run in its folder: options, content of the data, vocabularies and user's code."""
    # Written first, so that the same command works again if the rest cannot be written.
    write_whole(run_files.flags(workdir), "\n".join(config.lines(experiment)) + "\n")
    write_whole(run_files.content(workdir), corpus.content + "\n")
    for side, vocabulary in (("source", source), ("target", target)):
        save_vocabulary(vocabulary, run_files.vocabulary(workdir, side))
    keep_code(workdir, experiment.model)


def forget_evaluations(workdir: Path) -> None:
    """Removes all evaluations of a run, which further training makes obsolete."""
    for split in SPLITS:
        run_files.evaluation(workdir, split).unlink(missing_ok=True)
