"""TFDS writes a data set that keeps its order without holding it in memory."""

import contextlib
import os
import struct
import tempfile
from collections.abc import Iterator
from io import BufferedIOBase
from typing import Any

from tensorflow_datasets.core import shuffle

LENGTH = struct.Struct("=Q")  # of a record, written before it


class InOrder:
    """Takes the place of TFDS's `Shuffler`, where examples come in their order.

    That one holds a split in memory to sort it, and beyond 1 GB needs TensorFlow.

    Args:
      file: where records wait until their number is known.
    """

    def __init__(self, file: BufferedIOBase):
        self._file = file
        self.num_examples = 0
        self.size = 0  # of all records, in bytes

    @property
    def bucket_lengths(self) -> list[int]:
        """The numbers of records that are kept together: all are."""
        return [self.num_examples]

    def add(self, key: int, data: bytes) -> None:
        """Takes the record that follows; its key is its number."""
        self._file.write(LENGTH.pack(len(data)) + data)
        self.num_examples += 1
        self.size += len(data)

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        self._file.seek(0)
        for number in range(self.num_examples):
            (length,) = LENGTH.unpack(self._file.read(LENGTH.size))
            yield number, self._file.read(length)


@contextlib.contextmanager
def in_order() -> Iterator[None]:
    """Context in which TFDS prepares a data set whose examples come in their order."""
    module: Any = shuffle  # of which a class is replaced meanwhile
    usual = module.Shuffler
    with contextlib.ExitStack() as files:

        def shuffler(dirpath: str | os.PathLike, **_: object) -> InOrder:
            os.makedirs(dirpath, exist_ok=True)
            # Without a name, so that nothing is left of it if the process is killed.
            return InOrder(files.enter_context(tempfile.TemporaryFile(dir=dirpath)))

        module.Shuffler = shuffler
        try:
            yield
        finally:
            module.Shuffler = usual
