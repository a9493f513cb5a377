"""What a run has written, in one file of its folder: `manifest.json`.

It holds a digest of every finished file, also of those of checkpoints, so that nothing can change,
go missing or come from another run in silence. It is replaced under a lock before and after
each file: a process that is killed between leaves a file that is either the old or the new one, and
both are known.
"""

import contextlib
import fcntl
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from attn_jax.errors import InputError, reason
from attn_jax.files import reading, writing
from attn_jax.records import run_files, strict_json
from attn_jax.records.progress import Goodness, Progress

PUT_BACK = "put a copy of it back"


class Content(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of a file, or how a file begins that grows: its size in bytes and its SHA-256."""

    size: int
    sha256: str

    @classmethod
    def of(cls, content: bytes) -> "Content":
        """The size and digest of some content."""
        return cls(len(content), hashlib.sha256(content).hexdigest())

    @classmethod
    def of_file(cls, file: Path) -> "Content":
        """The size and digest of a file, which may be larger than memory."""
        with file.open("rb") as opened:
            sha256 = hashlib.file_digest(opened, "sha256").hexdigest()
        return cls(file.stat().st_size, sha256)


class Checkpoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is known of a checkpoint.

    Attributes:
      progress: of the run.
      goodness: of its validation; None if it is not of one.
      files: its files; none of one that was being written, or deleted.
    """

    progress: Progress
    goodness: Goodness | None
    files: dict[str, Content] = {}


class Manifest(msgspec.Struct, forbid_unknown_fields=True):
    """The finished files of a run, by path, and its checkpoints, by step.

    A file that is being replaced has two contents.
    """

    files: dict[str, list[Content]] = {}
    checkpoints: dict[int, Checkpoint] = {}
    sha256: str = ""  # of all else

    @property
    def digest(self) -> str:
        """The digest of all that it says."""
        content = msgspec.structs.replace(self, sha256="")
        return hashlib.sha256(msgspec.json.encode(content)).hexdigest()


def read(workdir: Path) -> Manifest:
    """The manifest of a run; an empty one before its first file.

    Raises:
      InputError: it is damaged, or missing where there is a journal or a checkpoint.
    """
    file = run_files.manifest(workdir)
    if not file.exists():
        checkpoints = run_files.checkpoints(workdir).glob("*[0-9]")
        if run_files.journal(workdir).exists() or any(checkpoints):
            raise InputError(f"{file} is missing: {PUT_BACK} (runs of version 0.1 have none)")
        return Manifest()
    with reading(file):
        text = file.read_bytes()
    try:
        manifest = msgspec.json.decode(text, type=Manifest)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file} is damaged ({reason(error)}): {PUT_BACK}") from error
    if manifest.sha256 != manifest.digest:
        raise InputError(f"{file} is damaged: it has changed; {PUT_BACK}")
    return manifest


@contextlib.contextmanager
def changing(workdir: Path) -> Iterator[Manifest]:
    """Yields the manifest of a run to change, and writes it; others wait meanwhile.

    Raises:
      InputError: it is damaged.
    """
    with run_files.lock(workdir).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        manifest = read(workdir)
        yield manifest
        manifest.sha256 = manifest.digest
        with writing(run_files.manifest(workdir)) as (beside,):
            beside.write_bytes(msgspec.json.format(msgspec.json.encode(manifest), indent=1))


@contextlib.contextmanager
def replacing(workdir: Path, *files: Path) -> Iterator[list[Path]]:
    """Yields temporary paths to write to, which replace files of a run when all are written.

    Raises:
      InputError: the manifest is damaged.
      OSError: writing failed; then, the files stay as they were.
    """
    with writing(*files) as beside:
        yield beside
        contents = {
            _name(workdir, file): Content.of_file(temporary)
            for file, temporary in zip(files, beside, strict=True)
        }
        with changing(workdir) as manifest:
            for name, content in contents.items():
                manifest.files.setdefault(name, []).append(content)
    with changing(workdir) as manifest:
        manifest.files |= {name: [content] for name, content in contents.items()}


def write(workdir: Path, file: Path, text: str) -> None:
    """Replaces a file of a run."""
    with replacing(workdir, file) as (beside,):
        beside.write_text(text, "utf-8")


def append(workdir: Path, file: Path, line: str) -> None:
    """Adds a line to a file of a run that grows."""
    name = _name(workdir, file)
    with changing(workdir) as manifest:
        before = content(workdir, file) if name in manifest.files else b""
        with file.open("r+b" if file.exists() else "wb") as opened:
            opened.truncate(len(before))  # to where it is finished
            opened.seek(len(before))
            opened.write(line.encode())
        manifest.files[name] = [Content.of(before + line.encode())]


def forget(workdir: Path, *files: Path) -> None:
    """Removes files of a run."""
    names = {_name(workdir, file) for file in files}
    if names & read(workdir).files.keys():
        with changing(workdir) as manifest:
            manifest.files = {n: c for n, c in manifest.files.items() if n not in names}
    for file in files:
        file.unlink(missing_ok=True)


def content(workdir: Path, file: Path, advice: str = PUT_BACK) -> bytes:
    """What a run has written into a file; of one that grows, up to the last line that is finished.

    Raises:
      InputError: it is missing or has changed, or the run did not write it.
    """
    for _ in range(2):  # it may be replaced between the manifest and the file
        known = read(workdir).files.get(_name(workdir, file))
        if known is None:
            where = run_files.manifest(workdir).name
            raise InputError(f"{file} is not of this run, or damaged: {where} does not name it")
        with reading(file, f": {advice}"):
            found = file.read_bytes()
        for one in known:
            written = found[: one.size] if file == run_files.journal(workdir) else found
            if Content.of(written) == one:
                return written
    raise InputError(f"{file} is damaged: it has changed since it was written; {advice}")


def knows(workdir: Path, file: Path) -> bool:
    """Whether a file is one that the run has finished."""
    return _name(workdir, file) in read(workdir).files


def measured(workdir: Path, file: Path, advice: str = PUT_BACK) -> Any:
    """The measurements that a run has written into a file, as `strict_json.loads` gives them.

    Raises:
      InputError: as for `content`.
    """
    return strict_json.loads(content(workdir, file, advice))


def check(workdir: Path) -> None:
    """Checks that all files of a run but its results still say what they said.

    Raises:
      InputError: one is missing or has changed.
    """
    results = run_files.results(workdir)
    for name in read(workdir).files:
        if workdir / name not in results:
            content(workdir, workdir / name)


def _name(workdir: Path, file: Path) -> str:
    return file.relative_to(workdir).as_posix()
