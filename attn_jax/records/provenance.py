"""How a run came about: `run.json`, with a session for each time that it was trained.

A session tells the versions, commit, devices, command and dates with which it was made. A run that
is resumed gets another one; earlier ones stay as they are.
"""

import contextlib
import datetime
import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import jax

from attn_jax import __version__
from attn_jax.records import manifest, run_files, strict_json

FORMAT = 1
PACKAGES = (
    "jax",
    "jaxlib",
    "flax",
    "optax",
    "orbax-checkpoint",
    "grain",
    "numpy",
    "sentencepiece",
    "tensorflow-datasets",
    "sacrebleu",
)


@contextlib.contextmanager
def session(workdir: Path, step: int) -> Iterator[None]:
    """Records training that begins now, and its end, also if it is interrupted.

    Of a process that is killed, no end is recorded.

    Args:
      workdir: the folder of the run, whose options, data and vocabularies are recorded already.
      step: the number of steps done before.

    Raises:
      InputError: the record of earlier sessions is damaged.
    """
    earlier = read(workdir)
    this = _now() | {"begun": _date(), "from_step": step, "ended": None}
    _write(workdir, [*earlier, this])
    try:
        yield
    finally:
        _write(workdir, [*earlier, this | {"ended": _date()}])


def read(workdir: Path) -> list[dict[str, Any]]:
    """The sessions of a run, first to last; none if their record was removed.

    Raises:
      InputError: the record is damaged.
    """
    file = run_files.provenance(workdir)
    if not file.exists():
        return []
    advice = "without that file, the run works, but does not tell how it was made"
    return json.loads(manifest.content(workdir, file, advice))


def concern(workdir: Path) -> str | None:
    """Why a run may not be read as it was meant; None if nothing speaks for that.

    Raises:
      InputError: the record is damaged.
    """
    for of_session in read(workdir)[-1:]:
        theirs = of_session["versions"]["attn_jax"]
        if of_session["format"] != FORMAT:
            return (
                f"{workdir} has files of format {of_session['format']}, by attn_jax {theirs}; this "
                f"one, {__version__}, reads format {FORMAT}"
            )
        if _numbers(theirs) > _numbers(__version__):
            return f"{workdir} was made by attn_jax {theirs}, newer than this one, {__version__}"
    return None


def summary(of_session: dict[str, Any]) -> str:
    """The versions and devices of a session in a phrase."""
    versions, devices = of_session["versions"], of_session["devices"]
    return (
        f"attn_jax {versions['attn_jax']}, JAX {versions['jax']}, "
        f"{devices['count']} {devices['kind']}"
    )


def command() -> str:
    """The command that this process runs, or `Python` if none of this project's programs."""
    program, *words = sys.argv
    return f"{program} {shlex.join(words)}" if program.startswith("attn_jax ") else "Python"


def _now() -> dict[str, Any]:
    first, *others = jax.devices()
    return {
        "format": FORMAT,
        "command": command(),
        "versions": _versions(),
        "commit": _commit(),
        "platform": platform.platform(),
        "host": platform.node(),
        "cores": _cores(),
        "devices": {
            "backend": first.platform,
            "kind": first.device_kind,
            "count": 1 + len(others),
            "processes": jax.process_count(),
        },
    }


def _cores() -> list[int]:
    """The cores that this process may use, as far as the system tells."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def _versions() -> dict[str, str | None]:
    found: dict[str, str | None] = {"attn_jax": __version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found


def _commit() -> dict[str, Any] | None:
    """The commit of the repository that holds this package, and whether nothing has changed since.

    None where the package is installed without its repository, or there is no git.
    """
    here = Path(__file__)
    try:
        # Else it may be an environment in a repository of the user's.
        _git(here.parent, "ls-files", "--error-unmatch", here.name)
        changed = _git(here.parent, "status", "--porcelain", "--untracked-files=no")
        return {"id": _git(here.parent, "rev-parse", "HEAD"), "clean": not changed}
    except (OSError, subprocess.SubprocessError):
        return None


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        timeout=10,
        env=os.environ | {"GIT_OPTIONAL_LOCKS": "0"},
    )
    return done.stdout.strip()


def _date() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _numbers(text: str) -> tuple[int, ...]:
    """The numbers of a version, such as (0, 1, 0)."""
    return tuple(int(part) for part in text.split(".") if part.isdecimal())


def _write(workdir: Path, sessions: list[dict[str, Any]]) -> None:
    text = strict_json.dumps(sessions, indent=1) + "\n"
    manifest.write(workdir, run_files.provenance(workdir), text)
