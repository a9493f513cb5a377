"""Code of the user's own, named by options as `module:name`.

A run keeps copies of the modules, to notice when they are edited.
"""

import functools
import hashlib
import importlib
import inspect
from pathlib import Path

from attn_jax.config import Model
from attn_jax.files import reading, write_whole


def own_parts(model: Model) -> dict[str, str]:
    """The options of a model, by name, that have the form `module:name`."""
    return {name: value for name, value in vars(model).items() if ":" in str(value)}


def own_modules(model: Model) -> list[str]:
    """The modules outside of this package that the options of a model name."""
    named = dict.fromkeys(part.partition(":")[0].strip() for part in own_parts(model).values())
    return [module for module in named if module.partition(".")[0] != __package__]


@functools.cache  # what was imported stays, whatever becomes of its file while this process runs
def source(module: str) -> str:
    """The source of an imported module, as it was when first asked for; empty if it has none."""
    try:
        return inspect.getsource(importlib.import_module(module))
    except (OSError, TypeError):  # compiled, or built into Python
        return ""


def copy_of(workdir: Path, module: str) -> Path:
    """Where a run keeps the source of a module."""
    return workdir / "code" / f"{module}.py"


def keep_code(workdir: Path, model: Model) -> None:
    """Writes the source of each module of the user's own, of a model that has been made."""
    copies = {copy_of(workdir, module): source(module) for module in own_modules(model)}
    for other in (workdir / "code").glob("*.py"):  # of a run that was not begun with it
        if other not in copies:
            other.unlink()
    for copy, text in copies.items():
        if text:
            copy.parent.mkdir(exist_ok=True)
            write_whole(copy, text)


def edited(workdir: Path, model: Model) -> list[str]:
    """What differs from the copies of a run, of a model that has been made: a phrase a module.

    Raises:
      InputError: a copy is damaged.
    """
    return [
        f"{importlib.import_module(module).__file__} is not the code that the run in {workdir} was "
        f"trained with, which is kept as {copy_of(workdir, module)}"
        for module in own_modules(model)
        # The source is asked for in any case: a new run keeps it later.
        if _kept(workdir, module) not in (None, source(module))
    ]


def digest(workdir: Path) -> str:
    """What tells the code that a run has kept from other code; empty where it has kept none.

    Raises:
      InputError: a copy cannot be read.
    """
    folder = workdir / "code"
    with reading(folder):
        kept = [(copy.name, copy.read_bytes()) for copy in sorted(folder.glob("*.py"))]
    return hashlib.sha256(repr(kept).encode()).hexdigest()[:8] if kept else ""


def _kept(workdir: Path, module: str) -> str | None:
    copy = copy_of(workdir, module)
    with reading(copy):
        return copy.read_text("utf-8") if copy.is_file() else None
