"""Data sets of TFDS, its own and those that this package generates: prepared once, and read."""

import contextlib
import fcntl
import io
import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, ClassVar, cast

import tensorflow_datasets as tfds

from attn_jax.config import Data
from attn_jax.data.sentences import Example
from attn_jax.errors import InputError, reason

Builder = tfds.core.DatasetBuilder
AT_ONCE = 4096  # records that are read at a time
REMOVE = ": remove that folder, and the data are prepared again"


class TextPairs(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    """The base of this package's own builders, of texts in the order in which they are generated.

    Examples have a source and a target text, and `EXTRA_FEATURES`.
    """

    VERSION = tfds.core.Version("1.0.0")
    EXTRA_FEATURES: ClassVar[dict[str, tfds.features.FeatureConnector]] = {}

    def _info(self) -> tfds.core.DatasetInfo:
        texts = {"source": tfds.features.Text(), "target": tfds.features.Text()}
        return self.dataset_info_from_configs(
            features=tfds.features.FeaturesDict(texts | self.EXTRA_FEATURES),
            supervised_keys=("source", "target"),
            disable_shuffling=True,
        )


class Records(Iterable[Example[str]]):
    """The examples of a split, which are read from its files whenever they are gone through.

    Args:
      builder: of the data set.
      split: its name.
      sides: the names of its source and target text.
      aligned: whether positions of known alignments are positions of tokens.
    """

    def __init__(self, builder: Builder, split: str, sides: tuple[str, str], aligned: bool):
        self._sides, self._aligned = sides, aligned
        self._folder = Path(builder.data_dir)
        self._records = cast(Any, builder).as_data_source(split)

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[Example[str]]:
        for first in range(0, len(self), AT_ONCE):
            yield from self._read(range(len(self))[first : first + AT_ONCE])

    def _read(self, numbers: Sequence[int]) -> list[Example[str]]:
        source, target = self._sides
        with reading_prepared(self._folder):
            return [
                Example(
                    record[source].decode(),
                    record[target].decode(),
                    record.get("alignment") if self._aligned else None,
                )
                for record in self._records.__getitems__(numbers)
            ]


def prepared(make: Callable[[], Builder], directory: Path, origin: str) -> Builder:
    """The builder that `make` returns, with its data prepared under `directory`.

    The first process prepares the data while others wait for its lock. A builder made before the
    data were written never sees their splits, so each check is on a new one.

    Args:
      make: makes a builder.
      directory: the folder of the data set.
      origin: what names its place, for messages: a flag or a variable of the environment.

    Raises:
      InputError: the prepared data are damaged, the folder cannot be written to, `make` raises it,
        or TFDS cannot prepare the data.
    """
    builder = _made(make, directory)
    if builder.info.splits:
        return builder
    with _lock_in(directory, origin) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        builder = _made(make, directory)
        if not builder.info.splits:
            _prepare(builder)
            builder = _made(make, directory)
    if not builder.info.splits:  # TFDS takes a folder for prepared even if this file is lost
        raise InputError(f"{builder.data_dir} lacks a whole dataset_info.json{REMOVE}")
    return builder


def _made(make: Callable[[], Builder], directory: Path) -> Builder:
    logger = logging.getLogger("absl")
    level = logger.level
    logger.setLevel(logging.ERROR)  # TFDS warns of every data set that it does not ship
    try:
        with reading_prepared(directory):
            return make()
    finally:
        logger.setLevel(level)


@contextlib.contextmanager
def reading_prepared(folder: Path) -> Iterator[None]:
    """Context for reading prepared data, which may be removed whatever the cause of an error.

    Raises:
      InputError: they are missing or damaged.
    """
    try:
        yield
    except (InputError, MemoryError, PermissionError):
        raise
    except Exception as error:
        raise InputError(f"{folder} is missing or damaged ({reason(error)}){REMOVE}") from error


def _lock_in(directory: Path, origin: str) -> IO[str]:
    """A new file to lock in a folder, which is made if it does not exist."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        return open(directory / ".prepare.lock", "w")
    except OSError as error:
        raise InputError(
            f"prepared data cannot be kept in {directory} ({error.strerror}), a place named by "
            f"{origin}: set ATTN_JAX_CACHE to a folder of yours, or train with data.directory"
        ) from error


def _prepare(builder: Builder) -> None:
    name = builder.info.full_name
    if not isinstance(builder, TextPairs):
        print(f"TFDS downloads and prepares {name}: once, but it may take long", file=sys.stderr)
    tfds.disable_progress_bar()
    # Keeps TFDS's messages out of the output of the program.
    with contextlib.redirect_stdout(io.StringIO()), _preparing(name):
        # Google's copies of prepared data are in another format.
        options = tfds.download.DownloadConfig(try_download_gcs=False)
        builder.download_and_prepare(download_config=options, file_format="array_record")


@contextlib.contextmanager
def _preparing(name: str) -> Iterator[None]:
    """Turns errors from downloading and unpacking into `InputError`; those of the system stay."""
    try:
        yield
    except Exception as error:
        # A download that fails raises an OSError without a number.
        if isinstance(error, InputError | MemoryError) or getattr(error, "errno", None):
            raise
        raise InputError(f"{name} cannot be prepared ({reason(error)})") from error


def translation_set(config: Data, directory: str, others: Iterable[str]) -> Builder:
    """The builder of the data set of TFDS that the options name.

    Args:
      config: the options.
      directory: of all prepared data.
      others: the names of data sets that are not of TFDS, for messages.

    Raises:
      InputError: there is no such data set, or it lacks a language.
    """
    import tensorflow_datasets.translate  # noqa: F401  registers the older translation sets

    try:
        builder = tfds.builder(config.name, data_dir=directory, file_format="array_record")
    except tfds.core.DatasetNotFoundError as error:
        raise InputError(
            f"unknown data set {config.name!r}; allowed: {', '.join(others)}, or a translation "
            "data set of TFDS such as ted_hrlr_translate/pt_to_en"
        ) from error
    except (ValueError, AssertionError, ImportError) as error:
        # The text after TFDS's own prefix, which repeats the arguments of the call.
        reason = str(error).partition("\n")[0].rpartition('}": ')[2]
        raise InputError(f"TFDS cannot open {config.name!r}: {reason}") from error
    sides_of(config, builder)  # reports wrong languages before anything is downloaded
    return builder


def sides_of(config: Data, builder: Builder) -> tuple[str, str]:
    """The names of the source and the target text of a data set.

    Raises:
      InputError: it lacks a language that the options name, or both are one.
    """
    features = cast(Mapping, builder.info.features).items()
    languages = [name for name, kind in features if isinstance(kind, tfds.features.Text)]
    if len(languages) < 2:
        raise InputError(f"{config.name} does not have a text in each of two languages")
    for side in filter(None, (config.source, config.target)):
        if side not in languages:
            raise InputError(
                f"{config.name} has no language {side!r}; it has: {', '.join(languages)}"
            )
    # A side that is not given is the data set's own, or another language if that one is taken.
    usual = cast(Sequence[str], builder.info.supervised_keys or languages[:2])
    source = config.source or next(name for name in (*usual, *languages) if name != config.target)
    target = config.target or next(name for name in (*usual[::-1], *languages) if name != source)
    if source == target:
        raise InputError(f"data.source and data.target are both {source!r}")
    return source, target
