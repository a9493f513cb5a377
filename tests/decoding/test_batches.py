"""Sentences in batches, which come back in their order."""

import pytest

from attn_jax.decoding import batches


@pytest.mark.parametrize("per_pair", [1, 48])
def test_batches_are_in_order_and_bounded(generator, per_pair):
    lengths = generator.integers(1, 700, 300).tolist()
    shapes = set()

    def run(indices, rows, length):
        assert max(lengths[index] for index in indices) <= length
        assert len(indices) <= rows
        assert rows == 1 or per_pair * rows * length**2 <= batches.WEIGHTS
        shapes.add((rows, length))
        return [f"result {index}" for index in indices]

    results = batches.in_order(lengths, run, per_pair)
    assert results == [f"result {index}" for index in range(300)]
    assert len(shapes) < 20


def test_a_small_call_has_few_rows():
    assert batches.in_order([3, 9, 4], lambda *batch: [batch[1:]] * len(batch[0])) == [(4, 16)] * 3
