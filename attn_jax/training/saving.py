"""Writing checkpoints: in the background by Orbax, and tried on a place before it is needed."""

import contextlib
import errno
import json
import logging
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp
from orbax.checkpoint import checkpoint_managers

from attn_jax.errors import InputError, reason
from attn_jax.files import write_whole
from attn_jax.records import facts as facts_of
from attn_jax.records.progress import Progress
from attn_jax.records.seals import sealed
from attn_jax.training import processes
from attn_jax.training.arrays import digest, named_leaves, shapes
from attn_jax.training.checkpoint import Checkpoints, check_name
from attn_jax.training.notice import uninterrupted


class _Untold(logging.Filter):
    """Leaves out what Orbax logs, and what asyncio logs of it.

    Its failures are raised too, and told in a sentence.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        return "/orbax/" not in record.pathname and "never retrieved" not in record.getMessage()


def _excepthook(kind: type, error: BaseException, *others: Any) -> None:
    """Leaves out what TensorStore shows for each write that ends after one has failed."""
    if str(error) != "Event loop is closed":
        _excepthook_before(kind, error, *others)


_excepthook_before, sys.excepthook = sys.excepthook, _excepthook
for _name in ("absl", "asyncio"):
    logging.getLogger(_name).addFilter(_Untold())


class _LastAndBest(checkpoint_managers.PreservationPolicy):
    """Keeps the last checkpoints of validations, the last of all, and those of some other steps."""

    def __init__(self, last: int):
        self.last = last
        self.others: set[int | None] = set()
        self.between: set[int] = set()  # not of validations

    def kept(self, steps: Sequence[int]) -> set[int | None]:
        """The steps to keep of some in order, and others."""
        validated = [step for step in steps if step not in self.between]
        return {*validated[-self.last :], *steps[-1:], *self.others}

    def should_preserve(self, checkpoints: Sequence[Any], **_: Any) -> list[bool]:
        steps = [checkpoint.step for checkpoint in checkpoints]
        kept = self.kept(steps)
        return [step in kept for step in steps]


class _Manager(ocp.CheckpointManager):
    """Leaves it to training to ask JAX whether processes are to end, and after which step.

    Asked of an earlier step, as Orbax does when it deletes, JAX would take that step for the last
    one done, and the step after which all are to end would have passed unnoticed.
    """

    def reached_preemption(self, step: int) -> bool:
        return False


class WritableCheckpoints(Checkpoints):
    """Read and write access to the checkpoints of a run; removes incomplete ones when opened.

    Damaged ones are kept, and warned of.

    Args:
      directory: the folder of the checkpoints.
      last: number of validations whose checkpoints, the last ones, are kept besides the best. Of
        those that are not of validations, only one that is the last of all is kept.
    """

    def __init__(self, directory: Path, last: int):
        super().__init__(directory)
        self._kept = _LastAndBest(last)
        self._damaged = set()
        # What is left of a deletion that was cut off is deleted, but not what is damaged.
        for step in filter(self._is_whole, self.steps):
            try:
                if self.facts(step).get("score", ()) is None:
                    self._kept.between.add(step)
            except (InputError, OSError):
                warnings.warn(
                    f"{self.place(step)} is damaged: it is kept, but not used until a copy of it "
                    "is put back",
                    stacklevel=2,
                )
                self._damaged.add(step)
        self._directory.mkdir(parents=True, exist_ok=True)
        options = ocp.CheckpointManagerOptions(
            create=False,
            preservation_policy=self._kept,
            cleanup_tmp_directories=True,
            lightweight_initialize=True,  # reads nothing of the checkpoints that are there
            # All processes have all arrays. One writes them, and waits for no other.
            multiprocessing_options=ocp.options.MultiprocessingOptions(
                primary_host=processes.index(), active_processes={processes.index()}
            ),
        )
        self._manager = _Manager(self._directory, options=options)
        self._opened = self._directory.stat()

    def save(
        self, step: int, model: Any, rest: Any, facts: dict, score: tuple[float, ...] | None
    ) -> None:
        """Writes a checkpoint in the background; of a step that has one, only its facts.

        Args:
          step: steps done.
          model: the parameters to use, stored separately so that they can be read alone.
          rest: the other arrays that resuming needs.
          facts: JSON values that resuming needs; `best_step` among them is the step of the best
            checkpoint.
          score: decides which checkpoint is the best if there is no `best_step`; finite numbers, of
            which the next decides where checkpoints are equal in those before it. None: it is not
            of a validation, and never the best.

        Raises:
          InputError: it cannot be written, or the previous one could not be.
          OSError: there is no space left, for this checkpoint or the previous one.
        """
        items = {"model": named_leaves(model), "rest": named_leaves(rest)}
        known = {
            **facts,
            "score": score,
            "sha256": {name: digest(leaves) for name, leaves in items.items()},
            "shapes": {name: shapes(leaves) for name, leaves in items.items()},
        }
        with self._writing(), uninterrupted():
            self._manager.wait_until_finished()
            if step in self.steps:
                self._validated(step, known)
                return
            self.check_space(model, rest)
            self._remember(step, facts, score)
            self._manager.save(
                step,
                args=ocp.args.Composite(
                    facts=ocp.args.JsonSave(sealed(known)),
                    **{
                        name: ocp.args.StandardSave(_as_orbax_takes(leaves))
                        for name, leaves in items.items()
                    },
                ),
            )

    def _validated(self, step: int, known: dict) -> None:
        """Adds its validation to the facts of a checkpoint; all else is as when it was written.

        Options, and with them the optimizer, may be others from its step on.
        """
        progress = {name: known[name] for name in (*Progress._fields, "score") if name in known}
        known = self.facts(step) | progress
        write_whole(facts_of.file_of(self.place(step)), json.dumps(sealed(known)))
        self._kept.between.discard(step)
        self._remember(step, known, known["score"])
        steps = self.steps
        for other in set(steps) - self._kept.kept(steps):
            self._manager.delete(other)

    def _remember(self, step: int, facts: dict, score: tuple[float, ...] | None) -> None:
        """Determines what is kept once there is a checkpoint of this step."""
        if score is None:
            self._kept.between.add(step)
        self._kept.others = {self._best_with(step, facts, score), *self._damaged}

    def _best_with(self, step: int, facts: dict, score: tuple[float, ...] | None) -> int | None:
        """The step of the best checkpoint, once there is one more; None if none is validated."""
        earlier = [other for other in self.steps if other not in self._damaged]
        if facts.get("best_step") in (*earlier, step):
            return facts["best_step"]
        scores = self._scores(earlier) | ({} if score is None else {step: score})
        return max(scores, key=lambda step: (scores[step], -step), default=None)

    @property
    def best(self) -> int | None:
        """The step of the best checkpoint, pending writes included; None if there is none."""
        with self._writing():
            self._manager.wait_until_finished()
        return super().best

    def close(self) -> None:
        """Waits for pending writes, and ends the threads.

        Raises:
          InputError: they failed.
          OSError: there is no space left for them.
        """
        with self._writing():
            self._manager.close()

    def _is_gone(self) -> bool:
        """Whether the folder was removed; what wrote into it then may have made another."""
        try:
            return not os.path.samestat(self._directory.stat(), self._opened)
        except OSError:
            return True

    def check_space(self, model: Any, rest: Any) -> None:
        """Raises OSError if there is no space for a checkpoint of these arrays, or no folder.

        Orbax would notice late, and then its threads would wait for minutes for one another.
        """
        if self._is_gone():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self._directory))
        with tempfile.TemporaryFile(dir=self._directory):
            pass
        needed = sum(leaf.nbytes for leaf in jax.tree.leaves((model, rest)))
        if shutil.disk_usage(self._directory).free < needed:
            told = f"{os.strerror(errno.ENOSPC)} for a checkpoint of {needed / 1e6:.0f} MB"
            raise OSError(errno.ENOSPC, told, str(self._directory))

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Tells failures in a sentence; a background write fails later, with various exceptions."""
        full = os.strerror(errno.ENOSPC)
        try:
            yield
        except Exception as error:
            # Orbax leaves them behind, and Python would warn of each.
            warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
            if full in str(error):
                raise OSError(errno.ENOSPC, full, str(self._directory)) from error
            if self._is_gone():
                raise InputError(f"{self._directory} was removed during training") from error
            raise InputError(
                f"a checkpoint could not be written into {self._directory} ({reason(error)})"
            ) from error


def _as_orbax_takes(leaves: dict[str, Any]) -> dict[str, Any]:
    """Arrays as Orbax takes them: of several processes, none of JAX's that only one has."""
    if processes.count() == 1:
        return leaves
    return {name: np.array(leaf) for name, leaf in leaves.items()}  # copied: training goes on


class OthersCheckpoints(Checkpoints):
    """The checkpoints of a run that another process writes.

    Args:
      directory: the folder of the checkpoints.
      last: as for `WritableCheckpoints`.
    """

    def __init__(self, directory: Path, last: int):
        super().__init__(directory)

    def save(self, *_: object) -> None:
        """Leaves it to the other process."""

    def check_space(self, *_: object) -> None:
        """Leaves it to the other process."""

    def close(self) -> None:
        """Leaves it to the other process."""


def try_place(workdir: Path) -> None:
    """Writes a tiny checkpoint into a folder, reads it again, and removes it.

    Raises:
      InputError: the folder cannot keep checkpoints.
      OSError: it cannot be written to.
    """
    check_name(workdir)
    place, leaves = Path(tempfile.mkdtemp("", "trial-", workdir)), {"x": np.zeros(3, np.float32)}
    try:
        with uninterrupted():
            with contextlib.closing(WritableCheckpoints(place, 1)) as checkpoints:
                checkpoints.save(1, leaves, leaves, {}, (0.0,))
            Checkpoints(place).verify(1)
    except InputError as error:
        why = reason(error.__cause__ or error)
        raise InputError(f"{workdir} cannot keep checkpoints ({why})") from error
    finally:
        shutil.rmtree(place, ignore_errors=True)
