"""A user's own parallel text as a TFDS data set, prepared again only if its content changes."""

import dataclasses
import hashlib
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path

import tensorflow_datasets as tfds
from tensorflow_datasets.core.dataset_builder import BuilderConfig

from attn_jax.config import Data
from attn_jax.data.text_files import find_columns, find_sides, read_complete, read_pairs
from attn_jax.data.text_pairs import TextPairs
from attn_jax.errors import InputError

AT_ONCE = 4096  # pairs
SPLITS = {"train": "train", "validation": "valid", "test": "test"}  # name in TFDS: option


@dataclasses.dataclass
class ParallelConfig(BuilderConfig):
    """The files of each split; the name holds a hash of their content."""

    files: dict[str, tuple[Path, ...]] = dataclasses.field(default_factory=dict)
    columns: tuple[int, ...] | None = None  # of the sides, where all are in one file


class Parallel(TextPairs, skip_registration=True):
    """Sentence pairs in the order of their files."""

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict:
        files = self.builder_config.files
        return {split: self._generate_examples(paths) for split, paths in files.items()}

    def _generate_examples(self, paths: tuple[Path, ...]) -> Iterator[tuple[int, dict]]:
        for index, (source, target) in enumerate(read_pairs(paths, self.builder_config.columns)):
            yield index, {"source": source, "target": target}


def _written(split: str, pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Parts of `repr((split, list(pairs)))`, by which prepared data and runs know their text."""
    yield f"({split!r}, ["
    pairs, between = iter(pairs), ""
    while part := list(itertools.islice(pairs, AT_ONCE)):
        yield between + repr(part)[1:-1]
        between = ", "
    yield "])"


def make_parallel(config: Data, directory: str) -> tfds.core.DatasetBuilder:
    """The builder of the text that the options name; the text is read and checked here.

    Raises:
      InputError: training or validation text is not given, a file cannot be used, or
        `config.columns` does not name two or three columns.
    """
    files, columns = {}, find_columns(config.columns)
    digest = hashlib.sha256()
    for split, option in SPLITS.items():
        prefix = getattr(config, option)
        if prefix:
            sides = config.source, config.target, config.second_source
            files[split] = find_sides(prefix, *sides)
            # Training leaves incomplete pairs out.
            read = read_pairs if split == "train" else read_complete
            for part in _written(split, read(files[split], columns)):
                digest.update(part.encode())
        elif split != "test":
            raise InputError(
                f"data.name=parallel needs data.{option}: the prefix of two files, or a TSV"
            )
    name = digest.hexdigest()[:16]
    builder_config = ParallelConfig(name=name, version="1.0.0", files=files, columns=columns)
    return Parallel(config=builder_config, data_dir=directory, file_format="array_record")
