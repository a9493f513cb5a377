"""The user's own code, which options name as `module:name`.

A run keeps copies of these modules, to notice when they are edited.
"""

import functools
import hashlib
import importlib.util
from importlib.machinery import ModuleSpec
from pathlib import Path

from attn_jax import run_files
from attn_jax.config import Model
from attn_jax.files import reading, write_whole
from attn_jax.names import choose_or_import

# The options of a model that can name code of the user's own.
KINDS = ("encoder", "cell", "decoder", "score", "window", "normalizer")


def own_parts(model: Model) -> dict[str, str]:
    """The options of a model that name a part as `module:name`, by name."""
    parts = {kind: getattr(model, kind) for kind in KINDS}
    return {kind: part for kind, part in parts.items() if ":" in part.partition("(")[0]}


def own_modules(model: Model) -> list[str]:
    """The modules from outside this package that the options of a model name."""
    named = dict.fromkeys(part.partition(":")[0].strip() for part in own_parts(model).values())
    return [module for module in named if module.partition(".")[0] != __package__]


def import_modules(model: Model) -> None:
    """Imports every module that the options of a model name.

    To be called before a model with such options is traced: an array that a module makes as it is
    imported while JAX traces is no constant but a part of what is traced.

    Raises:
      InputError: a module cannot be imported, or has no function or class of that name.
    """
    for kind, part in own_parts(model).items():
        choose_or_import({}, part.partition("(")[0].strip(), kind)


def _spec(module: str) -> ModuleSpec | None:
    """Where Python finds a module; None if it does not, which building the model reports."""
    try:
        return importlib.util.find_spec(module)
    except Exception:  # anything that a package around the module raises
        return None


@functools.cache  # the process keeps running the imported code, even if the file is edited
def source(module: str) -> str:
    """The source of a module, as it was at the first call; empty if it has none.

    The module is not imported, since code that was edited may fail.
    """
    spec = _spec(module)
    read = getattr(spec and spec.loader, "get_source", None)
    try:
        return (read and read(module)) or ""
    except (ImportError, SyntaxError, ValueError):  # it is not text
        return ""


def copy_of(workdir: Path, module: str) -> Path:
    """The path of the copy of a module in the folder of a run."""
    return run_files.code(workdir) / f"{module}.py"


def keep_code(workdir: Path, model: Model) -> None:
    """Copies the user's own modules to the folder of a run, and deletes copies of other modules.

    Call it after building the model, which reports modules that cannot be imported.
    """
    copies = {copy_of(workdir, module): source(module) for module in own_modules(model)}
    for other in run_files.code(workdir).glob("*.py"):  # left by a start with other options
        if other not in copies:
            other.unlink()
    for copy, text in copies.items():
        if text:
            copy.parent.mkdir(exist_ok=True)
            write_whole(copy, text)


def edited(workdir: Path, model: Model) -> list[str]:
    """A phrase for each of the user's own modules that differs from the copy in a run.

    Modules that are not found are left to building the model, which reports them.

    Raises:
      InputError: a copy is damaged.
    """
    return [
        f"{spec.origin} is not the code that the run in {workdir} was trained with, which is kept "
        f"as {copy_of(workdir, module)}"
        for module in own_modules(model)
        # `source` is called in any case, so that a new run will keep the code as it is now.
        if _kept(workdir, module) not in (None, source(module)) and (spec := _spec(module))
    ]


def digest(workdir: Path) -> str:
    """A short hash of the code that a run has kept; empty if it has kept none.

    Raises:
      InputError: a copy cannot be read.
    """
    folder = run_files.code(workdir)
    with reading(folder):
        kept = [(copy.name, copy.read_bytes()) for copy in sorted(folder.glob("*.py"))]
    return hashlib.sha256(repr(kept).encode()).hexdigest()[:8] if kept else ""


def _kept(workdir: Path, module: str) -> str | None:
    copy = copy_of(workdir, module)
    with reading(copy):
        return copy.read_text("utf-8") if copy.is_file() else None
