"""Dates as people write them in many languages, to ISO 8601: "mardi 3 mars 1998" → "1998-03-03".

Every source spells out the month and gives the four-digit Gregorian year, so that it has a unique
answer. Calendar dates are held out rather than strings: no date of the validation or test split is
in training, in any language.
"""

import dataclasses
import datetime
from collections.abc import Iterator
from typing import cast

import babel
import numpy as np
import tensorflow_datasets as tfds
from babel.dates import format_date
from tensorflow_datasets.core.dataset_builder import BuilderConfig

from attn_jax.config import Data
from attn_jax.data.tfds_sets import TextPairs
from attn_jax.errors import InputError

# Languages whose month names do not contradict each other: "listopada" is November in Polish and
# October in Croatian, so Croatian is left out.
LOCALES = (
    *("ca", "cs", "cy", "da", "de", "el", "en_GB", "en_US", "es", "et", "eu", "fi", "fr", "hu"),
    *("id", "is", "it", "lt", "lv", "nb", "nl", "pl", "pt", "ro", "ru", "sk", "sl", "sv", "tr"),
    "uk",
)
FORMATS = ("long", "full", "d MMMM y", "EEEE d MMMM y", "MMMM d, y", "d MMMM, y", "y MMMM d")
FIRST, LAST = datetime.date(1900, 1, 1), datetime.date(2049, 12, 31)


def write_date(date: datetime.date, locale: str, style: str) -> str:
    """The date in a locale and one of `FORMATS`, in lower case and with plain spaces."""
    return " ".join(format_date(date, style, locale=locale).lower().split())


@dataclasses.dataclass
class DatesConfig(BuilderConfig):
    """The sizes of the splits and the random seed."""

    examples: int = 20000
    held_out: int = 1000
    seed: int = 0


class Dates(TextPairs, skip_registration=True):
    """Dates in many languages and formats, with the same date in ISO 8601."""

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict:
        config = cast(DatesConfig, self.builder_config)
        rng = np.random.default_rng(config.seed)
        days = rng.permutation((LAST - FIRST).days + 1)
        held_out = config.held_out
        valid, test, train = days[:held_out], days[held_out : 2 * held_out], days[2 * held_out :]
        return {
            "train": self._generate_examples(np.resize(train, config.examples), (config.seed, 0)),
            "validation": self._generate_examples(valid, (config.seed, 1)),
            "test": self._generate_examples(test, (config.seed, 2)),
        }

    def _generate_examples(
        self, days: np.ndarray, seed: tuple[int, int]
    ) -> Iterator[tuple[int, dict]]:
        rng = np.random.default_rng(seed)
        for index, day in enumerate(days):
            date = FIRST + datetime.timedelta(days=int(day))
            source = write_date(date, str(rng.choice(LOCALES)), str(rng.choice(FORMATS)))
            yield index, {"source": source, "target": date.isoformat()}


def make_dates(config: Data, directory: str) -> tfds.core.DatasetBuilder:
    """The builder of the dates that the options ask for.

    Raises:
      InputError: nothing would be left to train on.
    """
    days = (LAST - FIRST).days + 1
    if 2 * config.held_out >= days:
        raise InputError(
            f"data.held_out={config.held_out} leaves nothing to train on: validation and test "
            f"must share fewer than {days} dates"
        )
    sizes = f"{config.examples}-{config.held_out}-{config.seed}"
    builder_config = DatesConfig(
        # Another release of Babel may write some dates differently.
        name=f"dates-{sizes}-babel-{babel.__version__}",
        version="1.0.0",
        examples=config.examples,
        held_out=config.held_out,
        seed=config.seed,
    )
    return Dates(config=builder_config, data_dir=directory, file_format="array_record")
