"""Training pairs of given ids, for tests."""

from pathlib import Path
from typing import NamedTuple

from attn_jax.data.cut_cache import cut_in_files
from attn_jax.data.links import LinkTable
from attn_jax.data.pairs import Example
from attn_jax.data.training_pairs import TrainingPairs
from attn_jax.data.vocabulary import Symbols
from attn_jax.data.words import words_of

VOCABULARY = Symbols([str(one) for one in range(4, 200)])  # each token spells its id
NOWHERE = Path("/dev/null/nowhere")  # so that cut text stays in memory


class Pair(NamedTuple):
    """Source and target ids, and the links between them."""

    source: list[int]
    target: list[int]
    links: set[tuple[int, int]] | None = None


def training_pairs(pairs):
    """Pairs as `Batches` takes them."""
    examples = [Example(*(" ".join(map(str, side)) for side in pair[:2])) for pair in pairs]
    text = cut_in_files(examples, (words_of, words_of), NOWHERE)
    links = None if pairs[0].links is None else LinkTable(pair.links for pair in pairs)
    return TrainingPairs(text, VOCABULARY, VOCABULARY, 100, links)
