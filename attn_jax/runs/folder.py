"""The folder of a run: which experiment it holds, who may write into it, and what is recorded."""

import contextlib
import dataclasses
import fcntl
import os
import time
import warnings
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from attn_jax import config
from attn_jax.config import Experiment
from attn_jax.data.datasets import Corpus, with_defaults
from attn_jax.data.run_vocabularies import as_json
from attn_jax.data.vocabulary import Vocabulary
from attn_jax.errors import InputError, reason
from attn_jax.files import reading
from attn_jax.records import changes, journal, manifest, run_files
from attn_jax.records.own_code import (
    Modules,
    check_source,
    edited,
    keep_code,
    own_modules,
    recorded_modules,
    source,
)
from attn_jax.settings.main_source import MAIN
from attn_jax.training.checkpoints import Checkpoints, check_name
from attn_jax.training.loop import finished
from attn_jax.translation.loading import located

MAY_CHANGE = config.MAY_CHANGE | {*config.CHANGEABLE}
SEEN_WITHIN = 60.0  # seconds after which all machines see a file that one of them has written


def has_begun(workdir: Path) -> bool:
    """Whether a folder holds any training; before that, options, data and code may change."""
    return bool(journal.is_begun(workdir) and journal.read(workdir)) or steps_done(workdir) > 0


def steps_done(workdir: Path) -> int:
    """The step of the last checkpoint in a folder; 0 if there is none."""
    return Checkpoints(workdir).latest or 0


def settle(
    workdir: Path, given: Mapping[str, Any], may_change: Collection[str] = MAY_CHANGE
) -> Experiment:
    """The experiment to run: a new one, or the one in the workdir.

    Once it has been trained, only what does not change what was learnt may change: the options in
    `config.MAY_CHANGE`, where the content of data is compared elsewhere, and for further steps
    those in `config.CHANGEABLE`; before that, everything. `train.steps` is at least the number of
    steps done, which nothing undoes.

    Args:
      workdir: the folder of the run.
      given: options by name.
      may_change: those that may change once it has been trained.

    Raises:
      InputError: the workdir holds another run or something else, or cannot hold checkpoints; or
        what its last checkpoint recorded has changed.
    """
    check_name(workdir)
    outer, _ = located(workdir.absolute())
    if run_files.flags(outer).is_file() and outer != workdir.absolute():
        raise InputError(f"{workdir} is a checkpoint of the run in {outer}: take another folder")
    file = run_files.flags(workdir)
    if file.is_file():
        begun = has_begun(workdir)
        if begun:
            manifest.check(workdir)
        stored = config.recorded(file)
        check_code(workdir, recorded_modules(workdir))  # first: edited code may no longer work
        kept = dict(stored)
        if not begun and given.get("data.name", stored["data.name"]) != stored["data.name"]:
            # What is stored may be the defaults of the other data set.
            kept |= {"data.source_level": "auto", "data.target_level": "auto"}
        wanted = experiment_with({**kept, **given})
        if not begun:
            return wanted
        # Where data lie may change: their content is compared by `check_content`.
        differing = config.differing(stored, config.values(wanted))
        changed = [told for name, told in differing.items() if name not in may_change]
        if changed:
            raise InputError(
                f"{workdir} holds a run with other flags: {'; '.join(changed)}. Use the flags of "
                f"that run, or another folder (with train.initial={workdir} to start from the "
                "parameters of this one)"
            )
        done = steps_done(workdir)
        train = dataclasses.replace(wanted.train, steps=max(wanted.train.steps, done))
        return _as_trained(workdir, dataclasses.replace(wanted, train=train), done)
    if workdir.exists() and not (workdir.is_dir() and is_empty(workdir)):
        raise InputError(f"{workdir} exists and is not the folder of a run: take another folder")
    return experiment_with(given)


def _as_trained(workdir: Path, wanted: Experiment, done: int) -> Experiment:
    """An experiment, in which nothing that changes training has changed if no step is left."""
    now, before = config.values(wanted), changes.options_at(workdir, done)
    stay = {name: before[name] for name in config.CHANGEABLE if before[name] != now[name]}
    if not stay or not finished(wanted.train, workdir):
        return wanted
    warnings.warn(
        f"nothing is left to train in {workdir}: what it was trained with stays, "
        f"{config.told(stay)}",
        stacklevel=3,
    )
    return experiment_with(now | stay)


def settle_planned(workdir: Path, options: Mapping[str, Any]) -> Experiment:
    """The experiment of a run of a plan, as `settle` returns it.

    A plan changes nothing that a run was trained with; what has changed in the run since stays.

    Raises:
      InputError: as `settle`.
    """
    return settle(workdir, without_changed(workdir, options), config.MAY_CHANGE)


def without_changed(workdir: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a plan but for those that have changed in a run since it began."""
    changed = {name for change in changes.read(workdir) for name in change.after}
    return {name: value for name, value in options.items() if name not in changed}


def is_empty(workdir: Path) -> bool:
    """Whether a folder holds nothing but what is there before a run begins.

    That is the record of one that failed, and code that a sweep has kept for it.
    """
    return not {*workdir.iterdir()} - {*run_files.before(workdir)}


def experiment_with(options: Mapping[str, Any]) -> Experiment:
    """The experiment with these options, and defaults for the others, also of its data set."""
    experiment = config.experiment(options)
    return dataclasses.replace(experiment, data=with_defaults(experiment.data))


def inherited(experiment: Experiment, given: dict) -> dict[str, Any]:
    """The options that were not given and have other values than in a new run."""
    new = config.values(experiment_with(given))
    return {
        name: value
        for name, value in config.values(experiment).items()
        if name not in given and value != new[name]
    }


def tell_inherited(options: dict[str, Any]) -> None:
    """Prints the options that were not given but taken from the folder of the run."""
    if options:
        print(f"as in the folder of the run: {config.told(options)}", flush=True)


def tell_changes(workdir: Path, experiment: Experiment) -> None:
    """Prints the options of training that have other values from the step done on."""
    done = steps_done(workdir)
    if not done:
        return
    before, now = changes.options_at(workdir, done), config.values(experiment)
    told = [
        f"{name}={config.brief(now[name])} (was {config.brief(value)})"
        for name, value in before.items()
        if name.startswith("train.") and now[name] != value
    ]
    if told:
        print(f"from step {done} on: {', '.join(told)}", flush=True)


def check_folder(path: Path) -> None:
    """Raises InputError if something else than a folder has the name of a folder to write to."""
    if os.path.lexists(path) and not path.is_dir():
        what = "a file" if path.exists() else "a link to nothing"
        raise InputError(f"{path} is {what}, not the folder of a run")


def in_use(workdir: Path) -> str:
    """The message that the folder of a run is locked."""
    return f"another process is training in {workdir}"


@contextlib.contextmanager
def alone(workdir: Path) -> Iterator[None]:
    """Locks the folder of a run, so that no other process trains in it.

    Creates the folder if it does not exist, and then removes it if it stays empty.

    Raises:
      InputError: it is not a folder, or another process is training in it.
    """
    check_folder(workdir)
    new = not workdir.exists()
    workdir.mkdir(parents=True, exist_ok=True)
    folder = os.open(workdir, os.O_RDONLY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(in_use(workdir)) from None
        yield
    finally:
        os.close(folder)
        if new and workdir.is_dir() and not any(workdir.iterdir()):
            workdir.rmdir()


def is_locked(workdir: Path) -> bool:
    """Whether another process trains in a folder."""
    if not workdir.is_dir():
        return False
    folder = os.open(workdir, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(folder)
    return False


def check_content(workdir: Path, corpus: Corpus) -> None:
    """Raises InputError if the data cannot be used, or a run was trained on others."""
    content, file = corpus.content, run_files.content(workdir)
    if not has_begun(workdir):
        return
    with reading(file):
        known = file.read_text("utf-8").strip()
    if known != content:
        raise InputError(
            f"the data are not those that the run in {workdir} was trained on, as {file.name} "
            "tells: use those data, or another folder"
        )


def check_code(workdir: Path, modules: Modules) -> None:
    """Raises InputError if modules of the user's own have changed since a run was trained.

    Also if the source of names of `__main__` cannot be had.
    """
    check_source(modules)
    changed = edited(workdir, modules)
    if changed and has_begun(workdir):
        raise InputError(f"{'; '.join(changed)}: take another folder, or put that code back")


def keep_main(workdir: Path, experiment: Experiment) -> None:
    """Keeps what `__main__` defines for a run of a sweep, whose process has another `__main__`.

    Raises:
      InputError: it cannot be imported by itself.
    """
    names = own_modules(experiment).get(MAIN)
    if not names or has_begun(workdir):
        return
    try:
        exec(source(MAIN, names), {"__name__": MAIN})
    except Exception as error:
        raise InputError(
            f"what a run of a sweep imports for {' and '.join(names)} of {MAIN}, the last "
            f"statements that define what it uses, fails with {reason(error)}"
        ) from error
    run_files.code(workdir).mkdir(parents=True, exist_ok=True)
    keep_code(workdir, experiment)


def check_writable(workdir: Path) -> None:
    """Raises InputError if the folder of a run cannot be written to."""
    if not os.access(workdir, os.W_OK):
        raise InputError(f"cannot write into {workdir}, which training needs")


def record(
    workdir: Path, experiment: Experiment, corpus: Corpus, source: Vocabulary, target: Vocabulary
) -> None:
    """Records a run in its folder: options, content of the data and vocabularies."""
    if run_files.flags(workdir).is_file():
        done, wanted = steps_done(workdir), config.values(experiment)
        # Before the options: undone, they are the same with the old options as with the new ones.
        changes.record(workdir, changes.going_on(workdir, done, wanted))
    # Written first, so that the same command works again if the rest cannot be written.
    lines = "\n".join(config.lines(experiment))
    manifest.write(workdir, run_files.flags(workdir), lines + "\n")
    if not has_begun(workdir):
        manifest.write(workdir, run_files.content(workdir), corpus.content + "\n")
        for side, vocabulary in (("source", source), ("target", target)):
            manifest.write(workdir, run_files.vocabulary(workdir, side), as_json(vocabulary))


def check_seen(workdir: Path) -> None:
    """Raises InputError if this process does not see what another has recorded in a folder.

    A file system of several machines may take some seconds to show it.
    """
    last = time.monotonic() + SEEN_WITHIN
    while not run_files.flags(workdir).is_file():
        if time.monotonic() > last:
            raise InputError(
                f"{workdir} is not the folder that process 0 writes into: all processes need the "
                "same one, as on NFS"
            )
        time.sleep(0.2)


def forget_evaluations(workdir: Path) -> None:
    """Removes all evaluations of a run, which further training makes obsolete."""
    manifest.forget(workdir, *run_files.evaluations(workdir))
