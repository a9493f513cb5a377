"""Leading batch axes are those of `jax.vmap`, by hand."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attn_jax import (
    InputError,
    Mechanism,
    Score,
    attend,
    attend_all,
    attend_step,
    begin,
)
from attn_jax.attention.monotonic import Mocha, Monotonic
from attn_jax.attention.moving_scores import Gmm
from attn_jax.attention.position_scores import Coverage
from attn_jax.attention.scores import Additive, Dot, General
from attn_jax.attention.sparse_normalizers import Entmax
from attn_jax.attention.windows import LocalM, LocalP
from tests.attention.cases import as_arrays, parameters
from tests.attention.test_wrong_inputs import unchecked
from tests.stages import slow

T, S, Q, D, C = 4, 7, 3, 5, 2


class Recalling(Score):
    """Compares annotations, a part of which are values, with the query and the last context."""

    reads = ("context", "step")

    def score(self, p, query, keys, past):
        return keys[:, : past.context.size] @ past.context + keys[:, 0] * past.step * query[0]


MECHANISMS = [
    Mechanism(General()),
    Mechanism(Additive(units=2), LocalP(half_width=2, units=2)),
    Mechanism(General(), LocalM(half_width=1), Entmax(alpha=1.25)),
    Mechanism(Coverage(units=2)),
    Mechanism(Gmm(components=2)),
    Mechanism(Recalling()),
    Mechanism(General(), normalizer=Monotonic()),
    Mechanism(General(), normalizer=Mocha()),
]
every_mechanism = pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
RNGS = {"in use": None, "in training": 0}


def drawn(generator, mechanism, batch):
    """Parameters, queries, annotations, masks and values."""
    mask = generator.random((*batch, S)) < 0.8
    mask[..., 0] = True
    sizes = ((*batch, T, Q), (*batch, S, D), (*batch, S, C))
    queries, annotations, values = (generator.normal(size=size) for size in sizes)
    p = parameters(generator, mechanism, Q, D)
    p, queries, annotations, values = as_arrays((p, queries, annotations, values))
    return p, queries, annotations, jnp.asarray(mask), values


def by_hand(function, batch, rng, *arrays):
    """A function of one sentence over the axes of a batch, each place with a key of its own."""
    if rng is None:
        over = partial(function, rng=None)
    else:
        arrays += (jax.random.split(rng, batch),)
        over = lambda *inputs: function(*inputs[:-1], rng=inputs[-1])  # noqa: E731
    for _ in batch:
        over = jax.vmap(over)
    return over(*arrays)


def equal(found, expected):
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("batch", [pytest.param((2,), marks=slow), (2, 3)], ids=str)
@pytest.mark.parametrize("rng", RNGS.values(), ids=RNGS)
@every_mechanism
def test_batches_equal_vmap_by_hand(mechanism, rng, batch, generator):
    p, *arrays = drawn(generator, mechanism, batch)
    rng = None if rng is None else jax.random.key(rng)

    def made(queries, annotations, mask, values, rng):
        given = {"values": values}
        whole = attend_all(mechanism, p, queries, annotations, mask, **given, rng=rng)
        query = queries[..., 0, :]
        alone = attend(mechanism, p, query, annotations, mask, **given, rng=rng)
        sentence, memory = begin(mechanism, p, annotations, mask, **given)
        memory, *first = attend_step(mechanism, p, sentence, memory, query, rng=rng)
        query = queries[..., 1, :]
        return whole, alone, first, attend_step(mechanism, p, sentence, memory, query, rng=rng)

    both = jax.jit(lambda *arrays: (made(*arrays, rng), by_hand(made, batch, rng, *arrays)))
    equal(*both(*arrays))


def test_rows_of_a_batch_have_noise_of_their_own():
    mechanism = Mechanism(Dot(), normalizer=Monotonic())
    p = mechanism.init(jax.random.key(0), 2, 2)
    arrays = jnp.zeros((2, 2)), jnp.zeros((2, S, 2))
    _, weights = attend(mechanism, p, *arrays, rng=jax.random.key(1))
    assert np.any(weights[0] != weights[1])


def test_without_a_mask_all_positions_of_a_batch_are_real(generator):
    p, queries, annotations, mask, _ = drawn(generator, MECHANISMS[0], (2, 3))
    found = attend_all(MECHANISMS[0], p, queries, annotations)
    equal(found, attend_all(MECHANISMS[0], p, queries, annotations, jnp.ones_like(mask)))


@pytest.mark.parametrize("shape", [(3, 2), (2,), (2, 4, 2)])
def test_queries_have_the_batch_axes_of_the_annotations(shape):
    annotations = jnp.ones((2, S, 2))
    with pytest.raises(InputError, match=r"query must be \[2, Q\], as the annotations are, got"):
        unchecked(attend)(Dot(), {}, jnp.ones(shape), annotations)
    with pytest.raises(InputError, match=r"query must be \[2, T, Q\], as the annotations are, got"):
        unchecked(attend_all)(Dot(), {}, jnp.ones((T, *shape)), annotations)
