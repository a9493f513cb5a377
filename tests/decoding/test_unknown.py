"""What replaces `<unk>`, by hand."""

import numpy as np

from attn_jax.decoding.options import replaced


def test_the_source_word_of_the_largest_weight_replaces_each_unknown_one():
    alignment = np.array([[0.2, 0.5, 0.3], [0.6, 0.3, 0.1], [0.1, 0.2, 0.7], [0.0, 0.0, 0.0]])
    tokens = ["<unk>", "sees", "<unk>", "<unk>"]
    found = replaced(tokens, alignment, ["sieht", "Anna", "Otto"])
    assert found == ["Anna", "sees", "Otto", "<unk>"]
    assert tokens == ["<unk>", "sees", "<unk>", "<unk>"]
