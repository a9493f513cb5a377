"""Batches: they cover all data in few shapes, and are the same from any step."""

import hashlib
import itertools

import numpy as np
import pytest

from attn_jax.data.batches import Batches
from attn_jax.errors import InputError
from attn_jax.recipe.orders import Shape, make_shapes, smallest
from attn_jax.tokens import EOS, PAD
from tests.options import train_options
from tests.pairs import Pair, training_pairs

PAIRS = [Pair([5 + n] * (1 + n % 13), [5 + n] * (1 + n % 7)) for n in range(101)]
ORDERS = ["bucketed", "sorted", "sorted(batches=3)"]


def make(batch_size, buckets, seed=3, order="bucketed", pairs=PAIRS):
    options = train_options(batch_size=batch_size, buckets=buckets, order=order)
    return Batches(training_pairs(pairs), options, seed)


@pytest.mark.parametrize("batch_size", [8, 64, 200])
@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("order", ORDERS)
def test_an_epoch_sees_every_pair(batch_size, count, order):
    batches = make(batch_size, count, order=order)
    for epoch in range(2):
        steps = range(epoch * batches.per_epoch, (epoch + 1) * batches.per_epoch)
        rows = [row for step in steps for row in batches[step].source]
        assert {row[0] for row in rows} == {pair.source[0] for pair in PAIRS}
        assert len(rows) - len(PAIRS) < batch_size
    assert len({batches[step].source.shape for step in range(40)}) <= count


def test_rows_are_the_pairs_padded():
    batch = make(8, 4)[5]
    for source, target in zip(batch.source, batch.target, strict=True):
        expected_source, expected_target, _ = PAIRS[source[0] - 5]
        assert [i for i in source if i != PAD] == expected_source
        assert [i for i in target if i != PAD] == [*expected_target, EOS]


@pytest.mark.parametrize(
    ("order", "digest"), [("bucketed", "42d4a700d8c506bb"), ("sorted", "173c113a2edec776")]
)
def test_batches_are_those_of_earlier_releases(order, digest):
    """Digests of three epochs, taken before ids were kept in files: earlier runs can resume."""
    pairs = [
        pair._replace(links={(n % (1 + n % 13), n % (1 + n % 7)), (0, 0)})
        for n, pair in enumerate(PAIRS)
    ]
    batches, sha = make(8, 4, order=order, pairs=pairs), hashlib.sha256()
    for step in range(40):
        for array in batches[step]:
            sha.update(f"{array.dtype} {array.shape}".encode())
            sha.update(array.tobytes())
    assert sha.hexdigest()[:16] == digest


def test_goes_on_from_any_step():
    batches = make(8, 4)
    all_steps = batches.from_step(0)
    first = [next(all_steps) for _ in range(40)]
    later = batches.from_step(29)
    for batch in first[29:]:
        again = next(later)
        np.testing.assert_array_equal(batch.source, again.source)
        np.testing.assert_array_equal(batch.target, again.target)


def test_the_seed_and_the_epoch_decide_the_order():
    batches = make(8, 1)
    orders = [
        make(8, 1, seed=4)[0].source[:, 0],
        batches[0].source[:, 0],
        batches[batches.per_epoch].source[:, 0],
    ]
    assert len({tuple(order) for order in orders}) == 3


def test_shapes_follow_one_another_in_random_order():
    batches = make(8, 4)
    shapes = [batches[step].source.shape[1] for step in range(batches.per_epoch)]
    assert len(set(shapes)) > 1
    assert shapes not in (sorted(shapes), sorted(shapes, reverse=True))


@pytest.mark.parametrize("order", ["bucketed", "sorted"])
def test_the_last_batch_is_filled_up_with_any_pairs(order):
    """Of 101 pairs in batches of 8, three are drawn a second time in each epoch."""
    batches = make(8, 4, order=order)
    drawn = set()
    for epoch in range(20):
        steps = range(epoch * batches.per_epoch, (epoch + 1) * batches.per_epoch)
        firsts = [row[0] for step in steps for row in batches[step].source]
        drawn |= {pair for pair in firsts if firsts.count(pair) > 1}
    assert len(drawn) > 30


def test_counts_tokens_with_and_without_padding():
    pairs = [
        Pair([5], [5]),
        Pair([5, 5, 5], [5, 5, 5]),
    ]  # with EOS 3 and 7 tokens, in shapes 1+2 and 3+4
    assert make(1, 2, pairs=pairs).tokens() == (10, 10)
    assert make(1, 1, pairs=pairs).tokens() == (10, 14)


def test_a_batch_of_more_pairs_than_there_are_is_told():
    pairs = [Pair([5], [5])] * 3
    told = "; a batch has more pairs than there are, which are repeated"
    assert make(4, 1, pairs=pairs).summary().endswith(told)
    assert told not in make(3, 1, pairs=pairs).summary()


def test_sorted_batches_are_of_like_length_within_a_group():
    """Of four batches at a time, the first has the shortest targets and the last the longest."""
    batches = make(8, 1, order="sorted(batches=4)")
    for group in range(0, 12, 4):
        lengths = [(batches[step].target != PAD).sum(axis=1) for step in range(group, group + 4)]
        for shorter, longer in itertools.pairwise(lengths):
            assert max(shorter) <= min(longer)
        assert max(lengths[0]) < min(lengths[3])


def test_batches_are_no_larger_than_a_shape_that_holds_them():
    batches = make(8, 4, order="sorted(batches=4)")
    for step in range(batches.per_epoch):
        source, target, _ = batches[step]
        needed = (source != PAD).sum(axis=1).max(), (target != PAD).sum(axis=1).max()
        (used,) = [s for s in batches.shapes if s == (source.shape[1], target.shape[1])]
        smaller = batches.shapes[: batches.shapes.index(used)]
        assert not any(shape[0] >= needed[0] and shape[1] >= needed[1] for shape in smaller)


def test_links_are_weights_of_each_target_word():
    pairs = [Pair([5, 6, 7], [8, 9], {(0, 0), (2, 0), (1, 1)}), Pair([5], [6], set())]
    (batch,) = [make(2, 1, pairs=pairs)[0]]
    row = batch.source[:, 1].argmax()  # of the pair with more than one source word
    expected = [[0.5, 0, 0.5], [0, 1, 0], [0, 0, 0]]
    np.testing.assert_array_equal(batch.links[row], expected)
    assert not batch.links[1 - row].any()
    assert make(8, 1)[0].links is None


def test_an_unknown_order():
    with pytest.raises(InputError, match="unknown order 'random'; allowed: bucketed, sorted"):
        make(8, 1, order="random")
    with pytest.raises(InputError, match="batches must be of type int, got 'x'"):
        make(8, 1, order="sorted(batches=x)")
    with pytest.raises(InputError, match="batches must be at least 1, got 0"):
        make(8, 1, order="sorted(batches=0)")


@pytest.mark.parametrize("count", [1, 2, 3, 5, 20])
def test_no_other_shapes_pad_less(generator, count):
    lengths = generator.geometric(0.2, size=(60, 2)).clip(max=9)
    longest = lengths.max(axis=1)

    def taken(shapes):
        held = smallest(shapes, lengths)
        return sum(shapes[one].source_length + shapes[one].target_length for one in held)

    def ending(at):
        return [Shape(*lengths[longest <= end].max(axis=0)) for end in (*at, longest.max())]

    ends = np.unique(longest)[:-1]
    fewer = min(count - 1, len(ends))
    least = min(taken(ending(at)) for at in itertools.combinations(ends, fewer))
    shapes = make_shapes(lengths, count)
    assert len(shapes) <= count
    assert shapes == sorted(shapes)
    assert taken(shapes) == least
