"""The pairs that a model is trained on, as ids."""

import numpy as np

from attn_jax.data.cuts import CutText
from attn_jax.data.encoded import Encoded
from attn_jax.data.links import LinkTable
from attn_jax.data.vocabulary import Vocabulary
from attn_jax.tokens import EOS, Batch


class TrainingPairs:
    """The pairs of a text of which each side has at least one token, and not too many.

    Args:
      text: the text.
      source: the source vocabulary.
      target: the target vocabulary.
      max_length: most tokens of a side.
      links: of all pairs of the text, where attention is guided.
    """

    def __init__(
        self,
        text: CutText,
        source: Vocabulary,
        target: Vocabulary,
        max_length: int,
        links: LinkTable | None = None,
    ):
        self._sides = Encoded(text.source, source), Encoded(text.target, target)
        self._links = links
        lengths = np.stack([side.lengths for side in self._sides], axis=1)
        self._fits = np.all((lengths > 0) & (lengths <= max_length), axis=1)
        self._numbers = np.flatnonzero(self._fits)
        # [n, 2], source and target tokens of each pair, `EOS` included in the target.
        self.lengths = lengths[self._numbers] + np.array([0, 1], np.int32)

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def left_out(self) -> int:
        """The number of pairs that are empty or too long."""
        return len(self._fits) - len(self)

    def counts(self) -> tuple[np.ndarray, np.ndarray]:
        """How often each source and each target id occurs."""
        source, target = self._sides
        return source.counts(self._fits), target.counts(self._fits)

    def batch(self, indices: np.ndarray, source_length: int, target_length: int) -> Batch:
        """Some pairs, padded to these lengths."""
        numbers = self._numbers[indices]
        source, target = self._sides
        links = self._links
        return Batch(
            source.padded(numbers, source_length, []),
            target.padded(numbers, target_length, [EOS]),
            None if links is None else links.matrix(numbers, source_length, target_length),
        )
