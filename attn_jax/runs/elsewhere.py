"""Runs of a sweep that an engine makes elsewhere, followed from here."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from attn_jax.config import Experiment
from attn_jax.errors import InputError
from attn_jax.runs.engines import Engine
from attn_jax.runs.plans import Plan
from attn_jax.runs.standing import FAILED, RUNNING, Standing
from attn_jax.runs.view import Board, follow, shown
from attn_jax.runs.working import is_finished


def make(
    engine: Engine, root: Path, plan: Plan, wanted: Mapping[str, Experiment], at_once: int
) -> None:
    """Has an engine make runs, and shows how far they are until it works on none of them.

    Args:
      engine: the engine.
      root: the folder of the sweep, where its plan is.
      plan: the plan.
      wanted: the runs, by the names of their folders.
      at_once: as in `Engine.start`.

    Raises:
      InputError: the engine refuses; or runs have not been made, while the others have been.
      KeyboardInterrupt: it was interrupted.
    """
    board, numbers = Board(root), plan.numbers
    jobs = engine.start(root, [numbers[label] for label in wanted], at_once)

    def are_over(runs: Sequence[Standing]) -> bool:
        # A run may outlive the process that the engine has started for it.
        working = any(run.state == RUNNING for run in runs if run.label in wanted)
        return jobs.are_over() and not working

    interrupted = True
    try:
        with shown(board) as tell:
            tell(jobs.told)
            follow(board, tell, are_over)
        interrupted = False
        stands = {run.label: run for run in board.runs()}
        failures = [
            _why(stands[label], jobs.why(numbers[label]))
            for label, run in wanted.items()
            if not is_finished(root / label, run, label in plan.untested)
        ]
    finally:
        jobs.leave(interrupted)
    if failures:
        raise InputError("; ".join(failures))


def _why(run: Standing, said: str) -> str:
    """Why a run is not finished."""
    if run.state == FAILED:
        return run.why
    return f"{run.label} is not finished: {said or 'its process has ended'}"
