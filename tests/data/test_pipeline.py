"""Batches: all of the data, few shapes, the same from any step."""

import numpy as np
import pytest

from attn_jax.data.pipeline import BucketedBatches
from attn_jax.tokens import EOS, PAD

PAIRS = [([5 + n] * (1 + n % 13), [5 + n] * (1 + n % 7)) for n in range(101)]


@pytest.mark.parametrize("batch_size", [8, 64, 200])
@pytest.mark.parametrize("count", [1, 4])
def test_an_epoch_sees_every_pair(batch_size, count):
    batches = BucketedBatches(PAIRS, batch_size, count, seed=3)
    for epoch in range(2):
        steps = range(epoch * batches.batches_per_epoch, (epoch + 1) * batches.batches_per_epoch)
        rows = [row for step in steps for row in batches[step].source]
        assert {row[0] for row in rows} == {source[0] for source, _ in PAIRS}
        assert len(rows) - len(PAIRS) < batch_size
    assert len({batches[step].source.shape for step in range(40)}) <= count


def test_rows_are_the_pairs_padded():
    batch = BucketedBatches(PAIRS, 8, 4, seed=3)[5]
    for source, target in zip(batch.source, batch.target, strict=True):
        expected_source, expected_target = PAIRS[source[0] - 5]
        assert [i for i in source if i != PAD] == expected_source
        assert [i for i in target if i != PAD] == [*expected_target, EOS]


def test_goes_on_from_any_step():
    batches = BucketedBatches(PAIRS, 8, 4, seed=3)
    all_steps = batches.from_step(0)
    first = [next(all_steps) for _ in range(40)]
    later = batches.from_step(29)
    for batch in first[29:]:
        again = next(later)
        np.testing.assert_array_equal(batch.source, again.source)
        np.testing.assert_array_equal(batch.target, again.target)


def test_the_seed_and_the_epoch_decide_the_order():
    batches = BucketedBatches(PAIRS, 8, 1, seed=3)
    orders = [
        BucketedBatches(PAIRS, 8, 1, seed=4)[0].source[:, 0],
        batches[0].source[:, 0],
        batches[batches.batches_per_epoch].source[:, 0],
    ]
    assert len({tuple(order) for order in orders}) == 3


def test_counts_tokens_with_and_without_padding():
    pairs = [([5], [5]), ([5, 5, 5], [5, 5, 5])]  # with EOS 3 and 7 tokens, in shapes 1+2 and 3+4
    assert BucketedBatches(pairs, 1, 2, seed=0).tokens() == (10, 10)
    assert BucketedBatches(pairs, 1, 1, seed=0).tokens() == (10, 14)
