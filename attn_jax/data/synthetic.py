"""Integer sequences to copy, reverse or sort, each with its gold alignment."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import ClassVar, cast

import numpy as np
import tensorflow_datasets as tfds
from tensorflow_datasets.core.dataset_builder import BuilderConfig

from attn_jax.config import Data
from attn_jax.data.tfds_sets import TextPairs
from attn_jax.errors import InputError

# A task maps a sequence to the source position of each target token.
TASKS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "copy": lambda numbers: np.arange(len(numbers)),
    "reverse": lambda numbers: np.arange(len(numbers))[::-1],
    "sort": lambda numbers: np.argsort(numbers, kind="stable"),
}


@dataclasses.dataclass
class SequencesConfig(BuilderConfig):
    """The task and the options of its sequences, all of which are part of the name."""

    task: str = "reverse"
    shortest: int = 5
    longest: int = 20
    symbols: int = 26
    examples: int = 20000
    held_out: int = 1000
    seed: int = 0


class Sequences(TextPairs, skip_registration=True):
    """Sequences of the integers 1 to `symbols`; none occurs twice, within or across splits."""

    EXTRA_FEATURES: ClassVar = {"alignment": tfds.features.Tensor(shape=(None,), dtype=np.int32)}

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict:
        config = cast(SequencesConfig, self.builder_config)
        sequences = distinct_sequences(config, config.examples + 2 * config.held_out)
        held_out = config.held_out
        return {
            "train": self._generate_examples(sequences[2 * held_out :]),
            "validation": self._generate_examples(sequences[:held_out]),
            "test": self._generate_examples(sequences[held_out : 2 * held_out]),
        }

    def _generate_examples(self, sequences: list[np.ndarray]) -> Iterator[tuple[int, dict]]:
        positions_of = TASKS[cast(SequencesConfig, self.builder_config).task]
        for index, numbers in enumerate(sequences):
            positions = positions_of(numbers)
            yield (
                index,
                {
                    "source": " ".join(map(str, numbers)),
                    "target": " ".join(map(str, numbers[positions])),
                    "alignment": positions.astype(np.int32),
                },
            )


def distinct_sequences(config: SequencesConfig, count: int) -> list[np.ndarray]:
    """Samples `count` distinct sequences, in random order.

    Lengths are sampled uniformly from `shortest` to `longest`, but a length of which few sequences
    exist is less frequent.
    """
    rng = np.random.default_rng(config.seed)
    distinct: dict[bytes, np.ndarray] = {}
    while len(distinct) < count:
        length = rng.integers(config.shortest, config.longest + 1)
        numbers = rng.integers(1, config.symbols + 1, length)
        distinct[numbers.tobytes()] = numbers
    sequences = list(distinct.values())
    # Otherwise most sequences of such a length would come first, in the held-out splits.
    rng.shuffle(sequences)
    return sequences


def make_sequences(config: Data, directory: str) -> tfds.core.DatasetBuilder:
    """The builder of the sequences that the options ask for.

    Raises:
      InputError: `shortest` is more than `longest`, or there are not twice as many different
        sequences as are needed.
    """
    if config.shortest > config.longest:
        raise InputError(
            f"data.shortest={config.shortest} is more than data.longest={config.longest}"
        )
    wanted = config.examples + 2 * config.held_out
    exist = 0
    for length in range(config.shortest, config.longest + 1):
        exist += config.symbols**length
        if exist >= 2 * wanted:  # enough; the number of all long ones is huge
            break
    else:
        raise InputError(
            f"{wanted} different sequences are needed, but only {exist} exist, of which at most "
            "half are used: raise data.symbols or data.longest, or lower data.examples"
        )
    options = {
        name: getattr(config, name)
        for name in ("shortest", "longest", "symbols", "examples", "held_out", "seed")
    }
    name = "-".join([config.name, *map(str, options.values())])
    builder_config = SequencesConfig(name=name, version="2.0.0", task=config.name, **options)
    return Sequences(config=builder_config, data_dir=directory, file_format="array_record")
