"""The base of this package's own TFDS builders."""

from typing import ClassVar

import tensorflow_datasets as tfds


class TextPairs(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    """Source and target texts, and `EXTRA_FEATURES`, in the order in which they are generated."""

    VERSION = tfds.core.Version("1.0.0")
    EXTRA_FEATURES: ClassVar[dict[str, tfds.features.FeatureConnector]] = {}

    def _info(self) -> tfds.core.DatasetInfo:
        texts = {"source": tfds.features.Text(), "target": tfds.features.Text()}
        return self.dataset_info_from_configs(
            features=tfds.features.FeaturesDict(texts | self.EXTRA_FEATURES),
            supervised_keys=("source", "target"),
            disable_shuffling=True,
        )
