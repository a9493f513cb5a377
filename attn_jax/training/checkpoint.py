"""Checkpoints: the best and the last states of a run, stored by Orbax and verified by digests."""

import contextlib
import errno
import os
import shutil
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from orbax.checkpoint import checkpoint_managers

from attn_jax.errors import InputError
from attn_jax.files import reading
from attn_jax.training.arrays import digest, named_leaves, read_arrays, shapes


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Delays Ctrl-C and termination until the body is done.

    An interrupted save would leave Orbax's threads waiting for minutes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are handled in the main thread only
        return
    received: list[int] = []
    handlers = {
        number: signal.signal(number, lambda number, _: received.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    for number in received:
        signal.raise_signal(number)


class CheckpointMismatch(InputError):
    """The checkpoint is of another model."""


def _score(metrics: dict[str, float]) -> tuple[float, float, int]:
    # Of equal ones, the first is the best, as for `train.patience`; earlier versions stored no tie.
    return metrics["score"], metrics.get("tie", 0.0), -metrics.get("step", 0)


class Checkpoints:
    """Read-only access to the checkpoints of a run, also while it is training.

    These are the last ones, and the best by a score (larger is better).
    """

    def __init__(self, directory: Path):
        # `read_only` would do the same, with three warnings.
        options = ocp.CheckpointManagerOptions(
            best_fn=_score, create=False, cleanup_tmp_directories=False
        )
        self._open(directory, options)

    def _open(self, directory: Path, options: ocp.CheckpointManagerOptions) -> None:
        self._directory = directory
        with reading(directory):
            # Checkpoints written to a relative path would be lost.
            self._manager = ocp.CheckpointManager(directory.absolute(), options=options)

    @property
    def steps(self) -> list[int]:
        """The steps of all checkpoints."""
        return list(self._manager.all_steps())

    @property
    def latest(self) -> int | None:
        """The step of the last checkpoint; None if there is none."""
        return self._manager.latest_step()

    @property
    def best(self) -> int | None:
        """The step of the best checkpoint; None if there is none."""
        with reading(self._directory):
            return self._manager.best_step()

    def facts(self, step: int) -> dict:
        """The `facts` saved at a step, and the digests and shapes of its arrays.

        Raises:
          InputError: they are missing or damaged.
        """
        with self._reading(step, "facts"):
            how = ocp.args.Composite(facts=ocp.args.JsonRestore())
            return self._manager.restore(step, args=how)["facts"]

    def restore(self, step: int, item: str, like: Any) -> Any:
        """Restores the `model` or the `rest` of a step, in the structure of `like`.

        Raises:
          CheckpointMismatch: the stored arrays have other names, types or shapes.
          InputError: the checkpoint is missing or damaged.
        """
        place = self._directory / str(step)
        with self._reading(step):
            facts, wanted = self.facts(step), named_leaves(like)
            stored, expected = facts["shapes"][item], shapes(wanted)
            for name in sorted(stored.keys() | expected.keys()):
                if stored.get(name) != expected.get(name):
                    raise CheckpointMismatch(
                        f"{place} does not fit this model: {name} is "
                        f"{stored.get(name, 'not there')}, wanted {expected.get(name, 'nothing')}"
                    )
            with self._reading(step, item):
                restored = read_arrays((place / item).absolute(), wanted)
            if digest(restored) != facts["sha256"][item]:
                raise InputError(f"{place / item} is damaged: it has changed{self._advice(step)}")
        # Uncommitted to a device, as new parameters are; else programs would be compiled again.
        leaves = [jnp.array(np.asarray(restored[name])) for name in wanted]
        return jax.tree.unflatten(jax.tree.structure(like), leaves)

    def _reading(self, step: int, item: str = "") -> contextlib.AbstractContextManager:
        return reading(self._directory / str(step) / item, self._advice(step))

    def _advice(self, step: int) -> str:
        left = [other for other in self.steps if other != step]
        after = f"the run goes on from step {max(left)}" if left else "the run begins anew"
        return f"; put a copy of {self._directory / str(step)} back, or remove it, and {after}"

    def close(self) -> None:
        """Waits for pending writes, and ends the threads."""
        self._manager.close()


class WritableCheckpoints(Checkpoints):
    """Read and write access to the checkpoints of a run; removes incomplete ones when opened.

    Args:
      directory: the folder of the checkpoints.
      last: number of last checkpoints that are kept, besides the best.
    """

    def __init__(self, directory: Path, last: int):
        # A checkpoint without its score is left of a deletion that was cut off: it is deleted too.
        best = checkpoint_managers.BestN(
            get_metric_fn=_score, n=1, keep_checkpoints_without_metrics=False
        )
        keep = [checkpoint_managers.LatestN(last), best]
        options = ocp.CheckpointManagerOptions(
            best_fn=_score,
            preservation_policy=checkpoint_managers.AnyPreservationPolicy(keep),
            cleanup_tmp_directories=True,
        )
        self._open(directory, options)

    def save(
        self, step: int, model: Any, rest: Any, facts: dict, score: float, tie: float = 0.0
    ) -> None:
        """Writes a checkpoint in the background.

        Args:
          step: steps done.
          model: the parameters to use, stored separately so that they can be read alone.
          rest: the other arrays that resuming needs.
          facts: JSON values that resuming needs.
          score: decides which checkpoint is kept as the best; finite, since NaN would make Orbax
            forget the best.
          tie: decides between equal scores; finite.

        Raises:
          OSError: there is no space left, for this checkpoint or the previous one.
        """
        items = {"model": named_leaves(model), "rest": named_leaves(rest)}
        facts = {
            **facts,
            "sha256": {name: digest(leaves) for name, leaves in items.items()},
            "shapes": {name: shapes(leaves) for name, leaves in items.items()},
        }
        with self._writing(), uninterrupted():
            self._manager.wait_until_finished()
            self.check_space(model, rest)
            self._manager.save(
                step,
                args=ocp.args.Composite(
                    facts=ocp.args.JsonSave(facts),
                    **{name: ocp.args.StandardSave(leaves) for name, leaves in items.items()},
                ),
                metrics={"score": score, "tie": tie, "step": step},
            )

    def close(self) -> None:
        """Waits for pending writes, and ends the threads.

        Raises:
          OSError: there is no space left for them.
        """
        with self._writing():
            super().close()

    def check_space(self, model: Any, rest: Any) -> None:
        """Raises OSError if the disk has no space for a checkpoint of these arrays.

        On a full disk, Orbax and its threads print hundreds of lines.
        """
        needed = sum(leaf.nbytes for leaf in jax.tree.leaves((model, rest)))
        if shutil.disk_usage(self._directory).free < needed:
            told = f"{os.strerror(errno.ENOSPC)} for a checkpoint of {needed / 1e6:.0f} MB"
            raise OSError(errno.ENOSPC, told, str(self._directory))

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        # A background write fails later, with one of several types of exceptions.
        full = os.strerror(errno.ENOSPC)
        try:
            yield
        except Exception as error:
            if full not in str(error):
                raise
            raise OSError(errno.ENOSPC, full, str(self._directory)) from error
