"""The report on runs that are being trained, kept up to date."""

import time
from pathlib import Path
from typing import Any, NamedTuple

from attn_jax.errors import InputError, Terminated
from attn_jax.files import path_of
from attn_jax.records import run_files, states
from attn_jax.reporting.about import listed
from attn_jax.reporting.report import Report, report
from attn_jax.reporting.runs import diverged

EVERY = 5.0  # seconds between looks at the files
QUIET = 60.0  # seconds without a run in training, after which no other is expected
MOST_NAMED = 6  # runs that the page names


class Begun(NamedTuple):
    """The folders of the runs that have begun."""

    evaluated: dict[Path, int]  # with the time of their evaluation
    training: list[Path]  # the others, but for those that will not be evaluated


def watch(folder: str | Path, baseline: str = "", **options: Any) -> Report:
    """Makes the report on the runs under a folder again whenever one has been evaluated.

    `report.html` loads itself anew until it ends: a minute after the last run in training was
    evaluated, diverged or failed; or by an interrupt.

    Args:
      folder, baseline: as in `report`.
      **options: of `report`.

    Returns:
      The last report.

    Raises:
      InputError: as in `report`, when no run is in training any more.
    """
    root = path_of(folder)
    if not root.is_dir():
        raise InputError(f"there is no folder {root}")
    try:
        _follow(root, baseline, options)
    except Terminated:
        report(root, baseline, **options)
        raise
    except KeyboardInterrupt:
        print("interrupted: this is the last report")
    return report(root, baseline, **options)


def _follow(root: Path, baseline: str, options: dict[str, Any]) -> None:
    """Makes reports until no run has been in training for a while."""
    seen, changed = None, time.monotonic()
    while True:
        now = begun(root)
        if now.training or now != seen:
            changed = time.monotonic()
        if now != seen:
            try:
                made = report(root, baseline, live=in_short(now), **options)
                print(f"{made.html}: {in_short(now)}", flush=True)
            except InputError as error:  # such as that no run has been evaluated yet
                print(f"waiting: {error}", flush=True)
        if time.monotonic() - changed >= QUIET:
            return
        seen = now
        time.sleep(EVERY)


def begun(root: Path) -> Begun:
    """How far the runs under a folder are."""
    folders = {file.parent for name in ("flags.txt", "state.json") for file in root.rglob(name)}
    files = {folder: run_files.evaluation(folder, "test") for folder in sorted(folders)}
    evaluated = {
        folder: file.stat().st_mtime_ns for folder, file in files.items() if file.is_file()
    }
    left = [folder for folder in files if folder not in evaluated]
    return Begun(evaluated, [folder for folder in left if not _is_over(folder)])


def _is_over(folder: Path) -> bool:
    """Whether a run without an evaluation gets none.

    It has diverged, or a sweep says that it has failed; or has finished it without a test, as it
    does with trials.
    """
    ended = states.read(folder).get("state") in (states.FAILED, states.FINISHED)
    return ended or diverged(folder) is not None


def in_short(now: Begun) -> str:
    """How far the runs are, in words."""
    names = [folder.name for folder in now.training]
    named = f" ({listed(names, MOST_NAMED)})" if names else ""
    return f"{len(now.evaluated)} runs are evaluated, {len(now.training)} in training{named}"
