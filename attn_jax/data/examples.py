"""The examples of a prepared split, read from its files."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, overload

from attn_jax.data.pairs import Example
from attn_jax.data.preparation import reading_prepared

AT_ONCE = 4096  # records that are read at a time


class Records(Protocol):
    """A data source of TFDS."""

    def __len__(self) -> int: ...

    def __getitems__(self, numbers: Sequence[int], /) -> Sequence[dict[str, Any]]: ...


class Examples(Sequence[Example[str]]):
    """The examples of a split, which are read from its files whenever they are asked for.

    Args:
      records: the split as a data source of TFDS.
      sides: the names of its source and target text.
      aligned: whether positions of known alignments are positions of tokens.
      folder: where the files are, for messages.
    """

    def __init__(self, records: Records, sides: tuple[str, str], aligned: bool, folder: Path):
        self._records, self._sides, self._aligned = records, sides, aligned
        self._folder = folder

    def __len__(self) -> int:
        return len(self._records)

    @overload
    def __getitem__(self, place: int) -> Example[str]: ...

    @overload
    def __getitem__(self, place: slice) -> list[Example[str]]: ...

    def __getitem__(self, place: int | slice) -> Example[str] | list[Example[str]]:
        if isinstance(place, slice):
            return self._read(range(len(self))[place])
        (example,) = self._read([range(len(self))[place]])
        return example

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
