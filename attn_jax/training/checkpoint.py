"""Reading checkpoints: the best and the last states of a run, verified by digests."""

import re
import warnings
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from attn_jax.errors import InputError
from attn_jax.files import reading
from attn_jax.records import facts as facts_of
from attn_jax.training.arrays import abstract, digest, named_leaves, read_arrays, shapes

ITEMS = ("model", "rest")  # the arrays of a checkpoint

# Parts of a path with which Orbax, or TensorStore below it, reads or writes another place.
UNUSABLE = ("[", "\\", "**", "gs:/")


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


class CheckpointMismatch(InputError):
    """The checkpoint is of another model."""


class Checkpoints:
    """Read-only access to the checkpoints of a run, also while it is training.

    These are the last ones, and the best by a score (larger is better). Each is read by itself:
    one that is damaged does not keep others from being used.

    Args:
      directory: the folder of the checkpoints.

    Raises:
      InputError: Orbax cannot use a folder of that name.
    """

    def __init__(self, directory: Path):
        check_name(directory)
        # Checkpoints written to a relative path would be lost.
        self._directory = directory.absolute()

    @property
    def steps(self) -> list[int]:
        """The steps of all checkpoints, in order."""
        if not self._directory.is_dir():
            return []
        names = (folder.name for folder in self._directory.iterdir() if folder.is_dir())
        return sorted(int(name) for name in names if re.fullmatch("0|[1-9][0-9]*", name))

    @property
    def latest(self) -> int | None:
        """The step of the last checkpoint; None if there is none."""
        return max(self.steps, default=None)

    @property
    def best(self) -> int | None:
        """The step of the best checkpoint; None if there is none.

        Raises:
          InputError: the last checkpoint, which records the best, or the best itself is damaged.
        """
        steps = self.steps
        if not steps:
            return None
        recorded = self.facts(steps[-1]).get("best_step")
        if recorded in steps:
            return recorded
        # No validation was finite, or the best was removed. Of equal scores, the first is the best.
        scores = self._scores(steps)
        return max(scores, key=lambda step: (scores[step], -step), default=None)

    def place(self, step: int) -> Path:
        """The folder of a checkpoint."""
        return self._directory / str(step)

    def facts(self, step: int) -> dict:
        """The `facts` saved at a step, and the digests and shapes of its arrays.

        Raises:
          InputError: they are missing or damaged.
        """
        return facts_of.read(self.place(step), self._advice(step))

    def _scores(self, steps: list[int]) -> dict[int, tuple[float, ...]]:
        """The score of each step that has one; warns of those that cannot be read."""
        scores = {}
        for step in filter(self._is_whole, steps):
            try:
                score = self._score(step)
                if score is not None:
                    scores[step] = score
            except (InputError, OSError) as error:
                warnings.warn(f"{error}: it is left out", stacklevel=2)
        return scores

    def _is_whole(self, step: int) -> bool:
        """Whether a checkpoint has facts, unlike what is left of a deletion that was cut off."""
        try:
            return (self.place(step) / "facts").is_dir()
        except PermissionError:
            return True

    def _score(self, step: int) -> tuple[float, ...] | None:
        score = self.facts(step)["score"]
        return score and tuple(score)

    def restore(self, step: int, item: str, like: Any) -> Any:
        """Restores the `model` or the `rest` of a step, in the structure of `like`.

        Raises:
          CheckpointMismatch: the stored arrays have other names, types or shapes.
          InputError: the checkpoint is missing or damaged.
        """
        wanted, stored = named_leaves(like), self._shapes(step)[item]
        expected = shapes(wanted)
        for name in sorted(stored.keys() | expected.keys()):
            if stored.get(name) != expected.get(name):
                raise CheckpointMismatch(
                    f"{self.place(step)} does not fit this model: {name} is "
                    f"{stored.get(name, 'not there')}, wanted {expected.get(name, 'nothing')}"
                )
        restored = self._arrays(step, item, {name: abstract(text) for name, text in stored.items()})
        # Uncommitted to a device, as new parameters are; else programs would be compiled again.
        leaves = [jnp.array(np.asarray(restored[name])) for name in wanted]
        return jax.tree.unflatten(jax.tree.structure(like), leaves)

    def verify(self, step: int) -> None:
        """Reads all of a checkpoint.

        Raises:
          InputError: it is missing or damaged.
        """
        for item, described in self._shapes(step).items():
            self._arrays(step, item, {name: abstract(text) for name, text in described.items()})

    def _shapes(self, step: int) -> dict[str, dict[str, str]]:
        known = self.facts(step)
        with reading(self.place(step), self._advice(step)):
            return {item: known["shapes"][item] for item in ITEMS}

    def _arrays(self, step: int, item: str, like: dict[str, Any]) -> dict[str, jax.Array]:
        jax.devices()  # raises if JAX does not start, which is no fault of the checkpoint
        place, advice = self.place(step) / item, self._advice(step)
        known = self.facts(step)
        with reading(place, advice):
            arrays = read_arrays(place, like)
            if digest(arrays) != known["sha256"][item]:
                raise InputError(f"{place} is damaged: it has changed{advice}")
        return arrays

    def _advice(self, step: int) -> str:
        others = [other for other in self.steps if other != step]
        instead = "begin anew in another folder"
        if others:
            instead = f"use {self.place(others[-1])} instead (train: with train.fallback)"
        return f"; put a copy of {self.place(step)} back, or {instead}"
