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
    assert shapes <= set(batches.shapes(range(1, 700), [300], per_pair))
    assert len(batches.shapes(range(1, 700), [300], per_pair)) == 8  # of 8, 16, ... 1024 tokens


def test_a_small_call_has_few_rows():
    assert batches.in_order([3, 9, 4], lambda *batch: [batch[1:]] * len(batch[0])) == [(4, 16)] * 3


@pytest.mark.parametrize("per_pair", [1, 7, 60])
def test_shapes_are_foretold_by_lengths_and_numbers_of_sentences(generator, per_pair):
    for count in (1, 3, 40, 90):
        lengths = generator.integers(1, 600, count).tolist()
        used = set()

        def run(indices, rows, length, used=used, lengths=lengths):
            used.add((rows, length))
            assert max(lengths[index] for index in indices) <= length
            return indices

        assert batches.in_order(lengths, run, per_pair) == list(range(count))
        assert used <= set(batches.shapes(lengths, [count], per_pair))
    assert batches.in_order([], list, per_pair) == []
    assert batches.shapes([9, 12, 3], [5, 8]) == [(8, 8), (8, 16)]
