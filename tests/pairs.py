"""Training pairs of given ids, for tests."""

from typing import NamedTuple

from attn_jax.data.batches import TrainingPairs
from attn_jax.data.links import LinkTable
from attn_jax.data.pretokens import cut_pairs
from attn_jax.data.sentences import Example
from attn_jax.data.vocabulary import Symbols

VOCABULARY = Symbols([str(one) for one in range(4, 200)])  # each token spells its id


class Pair(NamedTuple):
    """Source and target ids, and the links between them."""

    source: list[int]
    target: list[int]
    links: set[tuple[int, int]] | None = None


def training_pairs(pairs):
    """Pairs as `Batches` takes them."""
    examples = [Example(*(" ".join(map(str, side)) for side in pair[:2])) for pair in pairs]
    text = cut_pairs(examples, ("words", "words"))
    links = None if pairs[0].links is None else LinkTable(pair.links for pair in pairs)
    return TrainingPairs(text, VOCABULARY, VOCABULARY, 100, links)
