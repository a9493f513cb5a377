"""The user's own code, which options name as `module:name`.

A run keeps copies of these modules, to notice when they are edited; of `__main__`, which may be a
notebook, it keeps what the options name, with all that this uses.
"""

import hashlib
import importlib.util
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import NamedTuple

from attn_jax import config
from attn_jax.config import Experiment, Model
from attn_jax.errors import InputError
from attn_jax.files import reading
from attn_jax.records import manifest, run_files
from attn_jax.settings.grammar import choose_or_import, own_names
from attn_jax.settings.main_source import MAIN, main_source

# The options that can name code of the user's own.
OPTIONS = ("model.encoder", "model.cell", "model.decoder", "model.readout", *config.HELD)
PACKAGE = "attn_jax"
Modules = Mapping[str, Sequence[str]]  # the names that options take from modules


def own_options(experiment: Experiment) -> dict[str, str]:
    """The options that name code of the user's own as `module:name`, by name."""
    options = config.texts(experiment)
    return {name: options[name] for name in OPTIONS if own_names(options[name])}


def own_modules(experiment: Experiment) -> Modules:
    """The modules from outside this package that options name, with the names in each."""
    return _modules(own_options(experiment).values())


def recorded_modules(workdir: Path) -> Modules:
    """The modules that the options in the folder of a run name, with the names in each."""
    options = config.texts(config.recorded(run_files.flags(workdir)))
    return _modules(options[name] for name in OPTIONS)


def _modules(texts: Iterable[str]) -> Modules:
    found: dict[str, list[str]] = {}
    for module, name in (each for text in texts for each in own_names(text)):
        if module.partition(".")[0] != PACKAGE:
            found.setdefault(module, []).append(name)
    return found


def import_modules(model: Model) -> None:
    """Imports the modules of the user's own cells, encoders, decoders and readouts.

    To be called before a model with such options is traced: an array that a module makes as it is
    imported while JAX traces is no constant but a part of what is traced.

    Raises:
      InputError: a module cannot be imported, or has no function or class of that name.
    """
    for kind in ("encoder", "cell", "decoder", "readout"):
        if own_names(named := getattr(model, kind)):
            choose_or_import({}, named, kind)


def imported_late(before: set[str]) -> list[str]:
    """The user's modules that have been imported since only those of these names were.

    An array that one of them makes while JAX traces a function is no constant.
    """
    installed = re.compile("|".join(map(re.escape, (sys.prefix, sys.base_prefix, "-packages"))))
    late = {name: module for name, module in sys.modules.items() if name not in before}
    files = {name: getattr(module, "__file__", None) for name, module in late.items()}
    return sorted(
        name
        for name, file in files.items()
        if file and name.partition(".")[0] != PACKAGE and not installed.search(file)
    )


def _spec(module: str) -> ModuleSpec | None:
    """Where Python finds a module; None if it does not, which building the model reports."""
    try:
        return importlib.util.find_spec(module)
    except Exception:  # anything that a package around the module raises
        return None


class _Read(NamedTuple):
    """The source of a module, and which import of it that is; None if it is not imported yet."""

    text: str
    spec: ModuleSpec | None


_read: dict[str, _Read] = {}  # what the process runs, even if the file is edited meanwhile


def check_source(modules: Modules) -> None:
    """Raises InputError if the source of names of `__main__` cannot be had."""
    if _defined(modules.get(MAIN, ())):
        main_source(modules[MAIN])


def _defined(names: Sequence[str]) -> bool:
    """Whether `__main__` defines these names; if not, building the model reports it."""
    return bool(names) and all(hasattr(sys.modules[MAIN], name) for name in names)


def source(module: str, names: Sequence[str]) -> str:
    """The source of a module, as it was at the first call; empty if it has none.

    It is read again if the module has been reloaded, as notebooks do. The module is not imported,
    since code that was edited may fail. Of `__main__`, it is the source of these names, as they are
    now.
    """
    if module == MAIN:
        try:
            return main_source(names) if _defined(names) else ""
        except InputError:
            return ""
    imported = getattr(sys.modules.get(module), "__spec__", None)  # a reload makes a new one
    known = _read.get(module)
    is_known = known is not None and (known.spec is None or known.spec is imported)
    text = known.text if known and is_known else _text(module)
    _read[module] = _Read(text, imported)
    return text


def _text(module: str) -> str:
    spec = _spec(module)
    read = getattr(spec and spec.loader, "get_source", None)
    try:
        return (read and read(module)) or ""
    except (ImportError, SyntaxError, ValueError):  # it is not text
        return ""


def copy_of(workdir: Path, module: str) -> Path:
    """The path of the copy of a module in the folder of a run."""
    return run_files.code(workdir) / f"{module}.py"


def keep_code(workdir: Path, experiment: Experiment) -> None:
    """Copies the user's own modules to the folder of a run, and records the copies.

    Call it after building the model, which reports modules that cannot be imported, and after
    `check_copies`.
    """
    for module, names in own_modules(experiment).items():
        text, copy = source(module, names), copy_of(workdir, module)
        is_kept = manifest.knows(workdir, copy) and text == _kept(workdir, module)
        if text and not is_kept:
            copy.parent.mkdir(exist_ok=True)
            manifest.write(workdir, copy, text)


def check_copies(workdir: Path, experiment: Experiment) -> None:
    """Raises InputError if a run would keep its copies elsewhere: if their folder or one is a link.

    They might be the user's own files, which are edited, and not the code that the run began with.
    """
    for module in own_modules(experiment):
        copy = copy_of(workdir, module)
        for place in (copy.parent, copy):
            if place.is_symlink():
                raise InputError(
                    f"{place} is a link: remove it, since the run keeps copies of your own code "
                    "there"
                )


def forget_code(workdir: Path, experiment: Experiment) -> None:
    """Deletes the copies that an earlier start of a run has made, of modules that it has no longer.

    To be called while the folder has the options of that start. Other files stay as they are, and
    so does everything behind a link.
    """
    flags = run_files.flags(workdir)
    if not flags.is_file() or run_files.code(workdir).is_symlink():
        return
    for module in {*recorded_modules(workdir)} - {*own_modules(experiment)}:
        copy = copy_of(workdir, module)
        if not copy.is_symlink():
            manifest.forget(workdir, copy)


def edited(workdir: Path, modules: Modules) -> list[str]:
    """A phrase for each of the user's own modules that differs from the copy in a run.

    Modules that are not found are left to building the model, which reports them.

    Raises:
      InputError: a copy is damaged.
    """
    return [
        f"{place} is not the code that the run in {workdir} was trained with, which is kept "
        f"as {copy_of(workdir, module)}"
        for module, names in modules.items()
        # `source` is called in any case, so that a new run will keep the code as it is now.
        if _kept(workdir, module) not in (None, source(module, names))
        and (place := _place(module, names))
    ]


def _place(module: str, names: Sequence[str]) -> str | None:
    """What a message calls a module; None if it is not found."""
    if module == MAIN:
        return f"{' and '.join(names)} in {MAIN}" if _defined(names) else None
    return getattr(_spec(module), "origin", None)


def digest(workdir: Path) -> str:
    """A short hash of the copies of the user's own modules in a run; empty if it has none.

    Raises:
      InputError: a copy cannot be read.
    """
    copies = {
        copy_of(workdir, module).name: _kept(workdir, module)
        for module in recorded_modules(workdir)
    }
    kept = [(name, text.encode()) for name, text in sorted(copies.items()) if text is not None]
    return hashlib.sha256(repr(kept).encode()).hexdigest()[:8] if kept else ""


def _kept(workdir: Path, module: str) -> str | None:
    copy = copy_of(workdir, module)
    with reading(copy):
        return copy.read_text("utf-8") if copy.is_file() else None
