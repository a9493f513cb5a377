"""Every data set by its name: generated, the user's own text, or any translation set of TFDS."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import tensorflow_datasets as tfds

from attn_jax.cache import cache_directory
from attn_jax.config import LINKED_LEVELS, Data
from attn_jax.data.cut_cache import cut_in_files, folder_name
from attn_jax.data.cuts import CutText
from attn_jax.data.dates import make_dates
from attn_jax.data.examples import Examples
from attn_jax.data.pairs import Example
from attn_jax.data.parallel import make_parallel
from attn_jax.data.preparation import REMOVE, prepared
from attn_jax.data.sentences import Sentence
from attn_jax.data.synthetic import make_sequences
from attn_jax.data.text_files import digest_of
from attn_jax.data.vocabulary import Vocabulary, pretokenizer
from attn_jax.errors import InputError


@dataclasses.dataclass(frozen=True)
class Corpus:
    """A prepared data set, and which of its texts are source and target."""

    name: str
    builder: tfds.core.DatasetBuilder
    sides: tuple[str, str]
    aligned: bool  # whether positions of known alignments are positions of tokens
    content: str  # identifies the data by content, independent of their path
    directory: Path  # of all prepared data
    _texts: dict[tuple, CutText] = dataclasses.field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def splits(self) -> list[str]:
        """The names of the available splits."""
        return list(self.builder.info.splits)

    def examples(self, split: str) -> Examples:
        """The examples of `train`, `validation` or `test`, in the order of the data set.

        Raises:
          InputError: there is no such split, or the prepared data are damaged, which may be raised
            when examples are read.
        """
        folder = Path(self.builder.data_dir)
        try:
            if split is None:  # by which TFDS means all of them
                raise ValueError("no split")
            records = self.builder.as_data_source(split)
        except ValueError as error:
            raise InputError(
                f"the data set {self.name!r} has no split {split!r}; it has: "
                f"{', '.join(self.splits)}"
            ) from error
        except KeyError as error:  # TFDS takes a folder for prepared even if this file is lost
            raise InputError(f"{folder} lacks a whole dataset_info.json{REMOVE}") from error
        return Examples(records, self.sides, self.aligned, folder)

    def text(self, split: str, source: str, target: str) -> CutText:
        """The text of a split, cut; it is cut once for all who use this directory.

        Args:
          split: `train`, `validation` or `test`.
          source, target: how each side is cut, as `pretokenizer` takes it.

        Raises:
          InputError: as for `examples`.
        """
        cut = split, source, target
        if cut not in self._texts:
            cutters = pretokenizer(source), pretokenizer(target)
            name = folder_name(self.builder.info.full_name, self.sides, *cut)
            self._texts[cut] = cut_in_files(
                self.examples(split), cutters, self.directory / "cut" / name
            )
        return self._texts[cut]

    def sentences(
        self, split: str, source: Vocabulary, target: Vocabulary
    ) -> list[Example[Sentence]]:
        """The examples of a split with sentences of two vocabularies as their sides.

        Raises:
          InputError: as for `examples`.
        """
        text = self.text(split, source.pretokens, target.pretokens)
        return [
            Example(
                source.sentence(example.source, text.source.sentence(number)),
                target.sentence(example.target, text.target.sentence(number)),
                example.alignment,
            )
            for number, example in enumerate(self.examples(split))
        ]


@dataclasses.dataclass(frozen=True)
class DataSet:
    """A data set of this package: the function that makes its builder, and its default level."""

    make: Callable[[Data, str], tfds.core.DatasetBuilder]
    folder: str  # in which TFDS keeps what it prepares
    level: str


DATASETS = {
    "copy": DataSet(make_sequences, "sequences", "symbol"),
    "reverse": DataSet(make_sequences, "sequences", "symbol"),
    "sort": DataSet(make_sequences, "sequences", "symbol"),
    "dates": DataSet(make_dates, "dates", "character"),
    "parallel": DataSet(make_parallel, "parallel", "word"),
}


def with_defaults(config: Data) -> Data:
    """The options with `auto` levels replaced by the default of the data set."""
    level = DATASETS[config.name].level if config.name in DATASETS else "subword"
    return dataclasses.replace(
        config,
        source_level=level if config.source_level == "auto" else config.source_level,
        target_level=level if config.target_level == "auto" else config.target_level,
    )


def open_corpus(config: Data) -> Corpus:
    """Opens the data set that the options name, after preparing it if necessary.

    Raises:
      InputError: there is no such data set, its files or options cannot be used, it cannot be
        prepared, it lacks a requested language, or files are given that it would not read.
    """
    config = with_defaults(config)
    for option in ("train", "valid", "test", "links", "second_source"):
        if getattr(config, option) and config.name != "parallel":
            raise InputError(
                f"data.{option} is of your own text, and data.name={config.name} is not: give "
                "data.name=parallel"
            )
    directory, origin = _place(config)
    make, folder = _tfds_builder, config.name
    if config.name in DATASETS:
        make, folder = DATASETS[config.name].make, DATASETS[config.name].folder
    builder = prepared(lambda: make(config, directory), Path(directory) / folder, origin)
    levels = {config.source_level, config.target_level}
    content = builder.info.full_name  # includes a version, and a hash of a user's text
    if config.links:
        content += f" {digest_of(Path(config.links))[:16]}"
    aligned = levels <= LINKED_LEVELS
    sides = _sides(config, builder)
    return Corpus(config.name, builder, sides, aligned, content, Path(directory))


def _place(config: Data) -> tuple[str, str]:
    """The folder for all prepared data, and what names it."""
    if config.directory:
        return config.directory, "data.directory"
    folder, origin = cache_directory()
    return str(folder / "data"), origin


def _tfds_builder(config: Data, directory: str) -> tfds.core.DatasetBuilder:
    import tensorflow_datasets.translate  # noqa: F401  registers the older translation sets

    try:
        builder = tfds.builder(config.name, data_dir=directory, file_format="array_record")
    except tfds.core.DatasetNotFoundError as error:
        raise InputError(
            f"unknown data set {config.name!r}; allowed: {', '.join(DATASETS)}, or a translation "
            "data set of TFDS such as ted_hrlr_translate/pt_to_en"
        ) from error
    except (ValueError, AssertionError, ImportError) as error:
        # The text after TFDS's own prefix, which repeats the arguments of the call.
        reason = str(error).partition("\n")[0].rpartition('}": ')[2]
        raise InputError(f"TFDS cannot open {config.name!r}: {reason}") from error
    _sides(config, builder)  # reports wrong languages before anything is downloaded
    return builder


def _sides(config: Data, builder: tfds.core.DatasetBuilder) -> tuple[str, str]:
    if config.name in DATASETS:
        return "source", "target"
    features = builder.info.features.items()
    languages = [name for name, kind in features if isinstance(kind, tfds.features.Text)]
    if len(languages) < 2:
        raise InputError(f"{config.name} does not have a text in each of two languages")
    for side in filter(None, (config.source, config.target)):
        if side not in languages:
            raise InputError(
                f"{config.name} has no language {side!r}; it has: {', '.join(languages)}"
            )
    # A side that is not given is the data set's own, or another language if that one is taken.
    usual = builder.info.supervised_keys or languages[:2]
    source = config.source or next(name for name in (*usual, *languages) if name != config.target)
    target = config.target or next(name for name in (*usual[::-1], *languages) if name != source)
    if source == target:
        raise InputError(f"data.source and data.target are both {source!r}")
    return source, target
