"""Cut text in files, which the runs of a sweep share; in memory where none can be written."""

import contextlib
import fcntl
import hashlib
import io
import json
import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from attn_jax.data.cuts import Cut, Cutter, CutText, SideWriter, cut_pairs
from attn_jax.data.pairs import Example
from attn_jax.files import writing

FORMAT = 1  # part of what names the files, so that another format of them gets other names
SIDES = "source", "target"


def cut_in_files(
    examples: Iterable[Example[str]], cutters: tuple[Cutter, Cutter], folder: Path
) -> CutText:
    """The cut text of a folder: read from it, or else cut and written into it.

    The first process cuts the text while others wait for its lock. Files that are damaged or cut
    off are written again. If none can be written, the text is cut in memory.

    Args:
      examples: the text, which is read only if it has to be cut.
      cutters: those of the source and of the target side.
      folder: named after all that decides the content of its files.
    """
    found = _read(folder)
    if found:
        return found
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / ".lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            found = _read(folder)
            if not found:
                _write(examples, cutters, folder)
                found = _read(folder)
    except OSError:  # there is no permission or no space
        pass
    return found or _in_memory(examples, cutters)


def folder_name(*facts: object) -> str:
    """The name of the folder for a text about which all this is known."""
    return hashlib.sha256(json.dumps([FORMAT, *facts]).encode()).hexdigest()[:16]


def _paths(folder: Path) -> dict[str, Path]:
    """The files of a folder by what they hold; `digests` of the others is written last."""
    of_sides = [f"{side}.{part}" for side in SIDES for part in ("types.json", "ids", "offsets")]
    return {name: folder / name for name in (*of_sides, "pairs", "digests.json")}


def _write(examples: Iterable[Example[str]], cutters: tuple[Cutter, Cutter], folder: Path) -> None:
    for left in folder.glob("*.tmp"):  # by a process that was killed
        left.unlink()
    paths = _paths(folder)
    with contextlib.ExitStack() as open_files, writing(*paths.values()) as temporary:
        # Without a name, so that nothing is left of it if the process is killed.
        first, second = (
            open_files.enter_context(tempfile.TemporaryFile(dir=folder)) for _ in SIDES
        )
        *sides, pairs = cut_pairs(examples, cutters, (first, second))
        beside = dict(zip(paths, temporary, strict=True))
        for name, side in zip(SIDES, sides, strict=True):
            types = json.dumps(side.types(), ensure_ascii=True)
            beside[f"{name}.types.json"].write_text(types, "utf-8")
            with beside[f"{name}.ids"].open("wb") as file:
                np.lib.format.write_array_header_1_0(file, _header(side))
                for part in side.ids():
                    file.write(part.tobytes())
            _save(beside[f"{name}.offsets"], side.offsets())
        _save(beside["pairs"], pairs)
        digests = {name: _digest(path) for name, path in beside.items() if path.is_file()}
        beside["digests.json"].write_text(json.dumps(digests), "utf-8")


def _header(side: SideWriter) -> dict:
    shape = (int(side.offsets()[-1]),)
    descr = np.lib.format.dtype_to_descr(side.id_type())
    return {"descr": descr, "fortran_order": False, "shape": shape}


def _save(path: Path, array: np.ndarray) -> None:
    with path.open("wb") as file:  # else NumPy would append a suffix
        np.save(file, array)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read(folder: Path) -> CutText | None:
    """The text of a folder; None if a file is missing, damaged or cut off."""
    paths = _paths(folder)
    try:
        known = json.loads(paths.pop("digests.json").read_text("utf-8"))
        if known != {name: _digest(path) for name, path in paths.items()}:
            return None
    except (OSError, ValueError):
        return None
    source, target = (
        Cut(
            json.loads(paths[f"{side}.types.json"].read_text("utf-8")),
            _mapped(paths[f"{side}.ids"]),
            _mapped(paths[f"{side}.offsets"]),
        )
        for side in SIDES
    )
    return CutText(source, target, _mapped(paths["pairs"]))


def _mapped(path: Path) -> np.ndarray:
    with path.open("rb") as file:
        if np.lib.format.read_magic(file) and not np.lib.format.read_array_header_1_0(file)[0][0]:
            return np.load(path)  # an empty file cannot be mapped
    return np.load(path, mmap_mode="r")


def _in_memory(examples: Iterable[Example[str]], cutters: tuple[Cutter, Cutter]) -> CutText:
    files = io.BytesIO(), io.BytesIO()
    *sides, pairs = cut_pairs(examples, cutters, files)
    source, target = (
        Cut(
            side.types(),
            np.concatenate([np.empty(0, side.id_type()), *side.ids()]),
            side.offsets(),
        )
        for side in sides
    )
    return CutText(source, target, pairs)
