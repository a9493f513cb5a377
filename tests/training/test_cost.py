"""The cost of a training step in operations: no product is repeated, and none grows unnoticed."""

import jax
import jax.numpy as jnp
import pytest

from attn_jax.models.randomness import by_row
from attn_jax.tokens import EOS, Batch
from attn_jax.training.objective import Objective
from tests.drawn import drawn
from tests.options import model_options
from tests.training.counting import operations

B, S, T, E, H, D, A, R, V = 4, 11, 13, 16, 24, 32, 20, 28, 500
SIZES = {
    "embedding_size": E,
    "hidden_size": H,
    "annotation_size": D,
    "units": A,
    "readout_size": R,
}


def make(**options):
    return drawn(model_options(**SIZES, **options), V, V)


def batch(source_length=S, target_length=T):
    source = jnp.full((B, source_length), 5)
    return source, jnp.full((B, target_length), 6).at[:, -1].set(EOS)


def counted(model):
    def loss(model):
        rng = by_row(jax.random.key(0), B)
        return Objective()(model, Batch(*batch()), jnp.zeros((), int), rng)

    return operations(loss, model), operations(jax.grad(loss), model)


def test_counts_a_product_in_a_scan_as_often_as_it_runs():
    matrix = jnp.ones((3, 5))

    def scanned(x):
        return jax.lax.scan(lambda x, _: (x @ matrix @ matrix.T, None), x, None, length=7)[0]

    assert operations(jax.jit(scanned), jnp.ones((2, 3))) == 7 * 2 * (2 * 3 * 5) * 2


def test_rnnsearch_forwards():
    half, gates = D // 2, 3
    encoder = 2 * (E * gates * half + half * gates * half) + D * A
    attention = H * A + S * D  # v · tanh(...), a sum of S A terms, is not computed as a product
    decoder = E * gates * H + attention + D * gates * H + H * gates * H
    output = (H + E + D) * 2 * R + R * V
    expected = 2 * B * (S * encoder + half * H + T * (decoder + output))
    forwards, _ = counted(make(decoder="bahdanau", score="additive"))
    assert forwards == expected


@pytest.mark.parametrize(
    "options",
    [
        {"decoder": "bahdanau"},
        {"decoder": "luong_input_feeding", "cell": "lstm", "score": "general"},
        {"decoder": "transformer", "encoder": "transformer", "score": "scaled_dot", "heads": 2},
    ],
    ids=lambda options: options["decoder"],
)
def test_a_derivative_does_each_product_twice_more(options):
    forwards, both = counted(make(**options))
    # A step is traced once more to find what it multiplies; that is not executed.
    assert both <= (3 + 1 / min(S, T)) * forwards
