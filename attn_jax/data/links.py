"""Links of training pairs, which guide attention: where they come from, and as weights."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from attn_jax.config import LINKED_LEVELS, Data
from attn_jax.data.pairs import Example
from attn_jax.data.pharaoh import Links, check_links, read_pharaoh
from attn_jax.data.words import words_of
from attn_jax.errors import InputError


def links_of(config: Data, examples: Sequence[Example]) -> list[Links]:
    """The links of training examples: those of --data.links, or those of generated data.

    Raises:
      InputError: there are none, they cannot be read, or they do not fit the sentences.
    """
    if not config.links:
        if any(example.alignment is None for example in examples):
            raise InputError(
                f"the data set {config.name!r} has no word alignments to guide attention with: "
                "copy, reverse and sort have in symbols, and text in words with --data.links, a "
                "Pharaoh file"
            )
        return [
            {(int(source), target) for target, source in enumerate(example.alignment)}
            for example in examples
        ]
    if not {config.source_level, config.target_level} <= LINKED_LEVELS:
        raise InputError(
            "--data.links are between words: give --data.source_level and --data.target_level "
            f"word or symbol, got {config.source_level} and {config.target_level}"
        )
    links = read_pharaoh(Path(config.links))
    if len(links) != len(examples):
        raise InputError(
            f"{config.links} has {len(links)} lines, but there are {len(examples)} training pairs"
        )
    sizes = [(len(words_of(one.source)), len(words_of(one.target))) for one in examples]
    check_links(links, sizes, config.links, "subtract 1 from each number")
    return links


def matrix(links: Sequence[Links], source_length: int, target_length: int) -> np.ndarray:
    """Links as weights [B, T, S], which sum to 1 for each target word with links, else to 0."""
    weights = np.zeros((len(links), target_length, source_length), np.float32)
    for row, pairs in zip(weights, links, strict=True):
        for source, target in pairs:
            row[target, source] = 1
    return weights / np.maximum(weights.sum(axis=2, keepdims=True), 1)
