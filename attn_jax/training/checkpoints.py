"""The checkpoints of a run: written and read by Orbax, and verified by the digests of the run.

Orbax does not notice a flipped bit in an array, nor a folder that is missing or was renamed. So the
manifest of the run says which checkpoints there are, and which files are in them.
"""

import errno
import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from msgspec.structs import replace

from attn_jax.errors import InputError, reason
from attn_jax.files import reading
from attn_jax.records import manifest, run_files
from attn_jax.records.manifest import Checkpoint, Content
from attn_jax.records.progress import Goodness, Progress
from attn_jax.training import processes

# Parts of a path with which Orbax, or TensorStore below it, reads or writes another place.
UNUSABLE = ("[", "\\", "**", "gs:/")

# In the names of leaves: of some that version 0.2.0 did not have, and of what it used for both.
SHARED = ".keys_of_", ".of_"


class CheckpointMismatch(InputError):
    """The checkpoint is of another model."""


def check_name(directory: Path) -> None:
    """Raises InputError if checkpoints cannot be used in a folder, for its name."""
    path = str(directory.absolute())
    found = [part for part in UNUSABLE if part in f"{path}/"]
    try:
        path.encode()
    except UnicodeEncodeError:
        found.append("bytes that are not UTF-8")
    if found:
        told = path.encode(errors="backslashreplace").decode()
        raise InputError(
            f"checkpoints under {told} could not be read again, for the {found[0]} in its name: "
            "take another folder, or another label in a sweep"
        )


def named_leaves(tree: Any) -> dict[str, Any]:
    """The leaves of a pytree by their paths, which are the names under which they are stored."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}


def digest(leaves: Mapping[str, Any]) -> str:
    """SHA-256 of names, types, shapes and bytes."""
    sha = hashlib.sha256()
    for name, leaf in sorted(leaves.items()):
        array = np.asarray(leaf)
        sha.update(f"{name} {array.dtype} {array.shape}".encode())
        sha.update(array.tobytes())
    return sha.hexdigest()


def shapes(leaves: Mapping[str, Any]) -> dict[str, str]:
    """The type and shape of each array, as messages tell them."""
    return {name: f"{leaf.dtype}{list(leaf.shape)}" for name, leaf in leaves.items()}


class Checkpoints:
    """The checkpoints of a run, also while it is training.

    Args:
      workdir: the folder of the run.

    Raises:
      InputError: Orbax cannot use a folder of that name, or the manifest is damaged.
    """

    def __init__(self, workdir: Path):
        check_name(workdir)
        self.workdir = workdir.absolute()  # what Orbax writes to a relative path would be lost

    def known(self) -> dict[int, Checkpoint]:
        """What is known of each checkpoint, by the steps done, in order.

        Raises:
          InputError: the manifest is damaged.
        """
        every = sorted(manifest.read(self.workdir).checkpoints.items())
        return {step: one for step, one in every if one.files}

    @property
    def latest(self) -> int | None:
        """The step of the last checkpoint; None if there is none."""
        return max(self.known(), default=None)

    @property
    def best(self) -> int | None:
        """The step of the best checkpoint, the first of equal ones; None if there is none."""
        return _best(self.known())

    def place(self, step: int) -> Path:
        """The folder of a checkpoint."""
        return run_files.checkpoints(self.workdir) / str(step)

    def restore(self, step: int, item: str, like: Any) -> Any:
        """Restores the `model` or the `rest` of a step, in the structure of `like`.

        Raises:
          CheckpointMismatch: the stored arrays have other names, types or shapes.
          InputError: the checkpoint is missing or damaged.
        """
        self._check(step, item)
        # It takes paths of any kind, though its types name another.
        place = cast(Any, self.place(step) / item)
        wanted, stored = named_leaves(like), ocp.PyTreeCheckpointHandler().restore(place)
        for name in wanted.keys() - stored.keys():
            if (earlier := name.replace(*SHARED)) in stored:
                stored[name] = stored[earlier]
        expected, found = shapes(wanted), shapes(stored)
        for name in sorted(found.keys() | expected.keys()):
            if found.get(name) != expected.get(name):
                raise CheckpointMismatch(
                    f"{self.place(step)} does not fit this model: {name} is "
                    f"{found.get(name, 'not there')}, wanted {expected.get(name, 'nothing')}"
                )
        leaves = [jnp.array(stored[name]) for name in wanted]
        return jax.tree.unflatten(jax.tree.structure(like), leaves)

    def verify(self, step: int) -> None:
        """Checks all files of a checkpoint.

        Raises:
          InputError: one is missing or damaged.
        """
        for item in ("model", "rest"):
            self._check(step, item)

    def _check(self, step: int, item: str) -> None:
        """Checks the files of a part before Orbax reads them, which would tell of each array."""
        place, advice = self.place(step), self._advice(step)
        for name, known in self.known()[step].files.items():
            if name.startswith(f"{item}/"):
                with reading(place / item, advice):
                    found = Content.of_file(place / name)
                if found != known:
                    raise InputError(f"{place / item} is damaged: it has changed{advice}")

    def _advice(self, step: int) -> str:
        others = [other for other in self.known() if other != step]
        instead = "begin anew in another folder"
        if others:
            instead = f"use {self.place(others[-1])} instead (train: with train.fallback)"
        return f"; put a copy of {self.place(step)} back, or {instead}"


class WritableCheckpoints(Checkpoints):
    """The checkpoints of a run that this process trains.

    Args:
      workdir: the folder of the run.
      last: number of validations whose checkpoints, the last ones, are kept besides the best. Of
        those that are not of validations, only one that is the last of all is kept.

    Raises:
      InputError: as for `Checkpoints`, or a checkpoint is not one of this run.
    """

    def __init__(self, workdir: Path, last: int):
        super().__init__(workdir)
        self._last = last
        directory, known = run_files.checkpoints(self.workdir), self.known()
        directory.mkdir(parents=True, exist_ok=True)
        for step in known:
            if not self.place(step).is_dir():
                raise InputError(f"{self.place(step)} is missing{self._advice(step)}")
        unfinished = manifest.read(workdir).checkpoints.keys() - known
        for folder in directory.iterdir():
            # Of a process that was killed.
            if ".orbax-checkpoint-tmp" in folder.name or folder.name in map(str, unfinished):
                shutil.rmtree(folder)
            elif folder.is_dir() and folder.name not in map(str, known):
                raise InputError(f"{folder} is not of this run, or was renamed: move it away")
        # Signals raise exceptions in the main thread, of which Orbax would leave threads behind.
        self._thread = ThreadPoolExecutor(1)

    def save(
        self, step: int, model: Any, rest: Any, progress: Progress, goodness: Goodness | None
    ) -> None:
        """Writes a checkpoint; of a step that has one, only that it has been validated since.

        Args:
          step: steps done.
          model: the parameters to use, stored separately so that they can be read alone.
          rest: the other arrays that resuming needs.
          progress: of the run.
          goodness: of the validation at this step, which decides which checkpoint is the best; None
            if there was none.

        Raises:
          InputError: it cannot be written.
          OSError: there is no space left.
        """
        self._thread.submit(self._save, step, model, rest, progress, goodness).result()

    def _save(
        self, step: int, model: Any, rest: Any, progress: Progress, goodness: Goodness | None
    ) -> None:
        known = self.known()
        files = known[step].files if step in known else self._new(step, model, rest)
        known |= {step: Checkpoint(progress, goodness, files)}
        kept = _kept(known, self._last)
        with manifest.changing(self.workdir) as changed:
            changed.checkpoints = {
                step: one if step in kept else replace(one, files={}) for step, one in known.items()
            }
        for step in known.keys() - kept:
            shutil.rmtree(self.place(step))

    def _new(self, step: int, model: Any, rest: Any) -> dict[str, Content]:
        """Writes the files of a checkpoint."""
        self.check_space(model, rest)
        with manifest.changing(self.workdir) as changed:
            changed.checkpoints[step] = Checkpoint(Progress(), None)  # known if a kill follows
        place = self.place(step)
        _write(place, {"model": named_leaves(model), "rest": named_leaves(rest)})
        files = [file for file in place.rglob("*") if file.is_file()]
        return {file.relative_to(place).as_posix(): Content.of_file(file) for file in files}

    def check_space(self, model: Any, rest: Any) -> None:
        """Raises OSError if there is no space for a checkpoint of these arrays, or no folder."""
        directory = run_files.checkpoints(self.workdir)
        with tempfile.TemporaryFile(dir=directory):
            pass
        needed = sum(leaf.nbytes for leaf in jax.tree.leaves((model, rest)))
        if shutil.disk_usage(directory).free < needed:
            told = f"{os.strerror(errno.ENOSPC)} for a checkpoint of {needed / 1e6:.0f} MB"
            raise OSError(errno.ENOSPC, told, str(directory))


def _best(known: Mapping[int, Checkpoint]) -> int | None:
    good = {step: one.goodness for step, one in known.items() if one.goodness}
    return max(good, key=lambda step: (good[step], -step), default=None)


def _kept(known: Mapping[int, Checkpoint], last: int) -> set[int | None]:
    """The steps to keep: the last ones that are validated, the best, and the last of all."""
    validated = sorted(step for step, one in known.items() if one.goodness)
    return {*validated[-last:], _best(known), max(known)}


def _write(place: Path, items: dict[str, dict[str, Any]]) -> None:
    """Writes arrays to a folder that does not exist yet, by Orbax, completely or not at all."""
    # All processes have all arrays. One writes them, and waits for no other.
    index = processes.index()
    alone = ocp.options.MultiprocessingOptions(primary_host=index, active_processes={index})
    handler = ocp.CompositeCheckpointHandler(
        composite_options=ocp.CompositeOptions(multiprocessing_options=alone)
    )
    checkpointer = ocp.Checkpointer(handler, multiprocessing_options=alone)
    args = {
        item: ocp.args.PyTreeSave({name: np.asarray(leaf) for name, leaf in leaves.items()})
        for item, leaves in items.items()
    }
    try:
        checkpointer.save(place, args=ocp.args.Composite(**args))
    except Exception as error:  # of many kinds
        full = os.strerror(errno.ENOSPC)
        if full in str(error):
            raise OSError(errno.ENOSPC, full, str(place.parent)) from error
        raise InputError(
            f"a checkpoint could not be written into {place.parent} ({reason(error)})"
        ) from error


def try_place(workdir: Path) -> None:
    """Writes a tiny checkpoint into a folder, reads it again, and removes it.

    Raises:
      InputError: the folder cannot keep checkpoints.
      OSError: it cannot be written to.
    """
    check_name(workdir)
    folder = Path(tempfile.mkdtemp("", "trial-", workdir))
    try:
        leaves = {"x": np.zeros(3, np.float32)}
        WritableCheckpoints(folder, 1).save(1, leaves, leaves, Progress(), (0.0, 0.0))
        Checkpoints(folder).restore(1, "model", leaves)
    except InputError as error:
        why = reason(error.__cause__ or error)
        raise InputError(f"{workdir} cannot keep checkpoints ({why})") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def set_aside(workdir: Path) -> None:
    """Moves the damaged checkpoints of a run to a folder of their own, and says which.

    The journal is copied there too, since the run will repeat what came after the last intact one.

    Raises:
      InputError: no checkpoint is intact; then, none is moved.
    """
    checkpoints, damaged = Checkpoints(workdir), []
    known = checkpoints.known()
    for step in known:
        try:
            checkpoints.verify(step)
        except (InputError, OSError):
            damaged.append(step)
    if not damaged:
        return
    if len(damaged) == len(known):
        raise InputError(
            f"no checkpoint of {workdir} is intact, of steps {', '.join(map(str, known))}: put a "
            "copy of one back, or begin anew in another folder"
        )
    aside = run_files.damaged(workdir) / time.strftime("%Y%m%d-%H%M%S")
    aside.mkdir(parents=True)
    if run_files.journal(workdir).is_file():
        shutil.copy2(run_files.journal(workdir), aside)
    with manifest.changing(workdir) as changed:
        for step in damaged:
            del changed.checkpoints[step]
    for step in damaged:
        place, told = checkpoints.place(step), "is missing"
        if place.is_dir():
            place.rename(aside / str(step))
            told = f"is damaged, and was set aside as {aside / str(step)}"
        print(f"warning: {place} {told}", file=sys.stderr)
