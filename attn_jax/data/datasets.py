"""Every data set by its name: generated, the user's own text, or any translation set of TFDS."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Protocol

import tensorflow_datasets as tfds

from attn_jax.cache import cache_directory
from attn_jax.config import LINKED_LEVELS, Data
from attn_jax.data.dates import make_dates
from attn_jax.data.parallel_text import content_of, pair_files
from attn_jax.data.sentences import Example, Sentence
from attn_jax.data.synthetic import make_sequences
from attn_jax.data.tfds_sets import Records, prepared, sides_of, translation_set
from attn_jax.data.vocabulary import Vocabulary
from attn_jax.errors import InputError


class Examples(Protocol):
    """The examples of a split in their order, which are read whenever they are gone through."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Example[str]]: ...


@dataclasses.dataclass(frozen=True)
class Corpus:
    """A data set."""

    name: str
    _splits: Mapping[str, Examples]
    _content: Callable[[], str]

    @property
    def splits(self) -> list[str]:
        """The names of the available splits."""
        return list(self._splits)

    @cached_property
    def content(self) -> str:
        """What identifies the data by their content, independent of their path.

        Raises:
          InputError: a text cannot be used, all of which is read for this if it has not been.
        """
        return self._content()

    def examples(self, split: str) -> Examples:
        """The examples of `train`, `validation` or `test`.

        Raises:
          InputError: there is no such split; or it cannot be used, when its examples are read.
        """
        if split not in self._splits:
            raise InputError(
                f"the data set {self.name!r} has no split {split!r}; it has: "
                f"{', '.join(self.splits)}"
            )
        return self._splits[split]

    def sentences(
        self, split: str, source: Vocabulary, target: Vocabulary
    ) -> list[Example[Sentence]]:
        """The examples of a split with sentences of two vocabularies as their sides.

        Raises:
          InputError: as for `examples`.
        """
        return [
            Example(source.cut(example.source), target.cut(example.target), example.alignment)
            for example in self.examples(split)
        ]


@dataclasses.dataclass(frozen=True)
class Generated:
    """A data set of this package: the function that makes its builder, and its default level."""

    make: Callable[[Data, str], tfds.core.DatasetBuilder]
    folder: str  # in which TFDS keeps what it prepares
    level: str


GENERATED = {
    "copy": Generated(make_sequences, "sequences", "symbol"),
    "reverse": Generated(make_sequences, "sequences", "symbol"),
    "sort": Generated(make_sequences, "sequences", "symbol"),
    "dates": Generated(make_dates, "dates", "character"),
}
NAMES = (*GENERATED, "parallel")


def with_defaults(config: Data) -> Data:
    """The options with `auto` levels replaced by the default of the data set."""
    level = "word" if config.name == "parallel" else "subword"
    if config.name in GENERATED:
        level = GENERATED[config.name].level
    return dataclasses.replace(
        config,
        source_level=level if config.source_level == "auto" else config.source_level,
        target_level=level if config.target_level == "auto" else config.target_level,
    )


def open_corpus(config: Data) -> Corpus:
    """Opens the data set that the options name; one of TFDS is prepared if necessary.

    Raises:
      InputError: there is no such data set, its files or options cannot be used, it cannot be
        prepared, it lacks a requested language, or files are given that it would not read.
    """
    config = with_defaults(config)
    if config.name == "parallel":
        files = pair_files(config)
        return Corpus(config.name, files, partial(content_of, files, config.links))
    for option in ("train", "valid", "test", "links", "second_source"):
        if getattr(config, option):
            raise InputError(
                f"data.{option} is of your own text, and data.name={config.name} is not: give "
                "data.name=parallel"
            )
    directory, origin = _place(config)
    make, folder = partial(translation_set, others=NAMES), config.name
    if config.name in GENERATED:
        make, folder = GENERATED[config.name].make, GENERATED[config.name].folder
    builder = prepared(lambda: make(config, directory), Path(directory) / folder, origin)
    sides = ("source", "target") if config.name in GENERATED else sides_of(config, builder)
    aligned = {config.source_level, config.target_level} <= LINKED_LEVELS
    splits = {split: Records(builder, split, sides, aligned) for split in builder.info.splits}
    return Corpus(config.name, splits, lambda: builder.info.full_name)  # which has a version


def _place(config: Data) -> tuple[str, str]:
    """The folder for all prepared data, and what names it."""
    if config.directory:
        return config.directory, "data.directory"
    folder, origin = cache_directory()
    return str(folder / "data"), origin
