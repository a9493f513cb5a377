"""The losses by hand and in float64."""

import jax
import jax.numpy as jnp
import numpy as np

from attn_jax.training.losses import coverage_loss, guided_loss


def test_coverage_loss_by_hand():
    # The second step attends 0.5 and 0.4 again.
    alignment = jnp.array([[0.6, 0.4], [0.5, 0.5], [1.0, 0.0]])[None, None, None]
    np.testing.assert_allclose(coverage_loss(alignment), [[0, 0.9, 1]], rtol=1e-6)


def test_coverage_loss_equals_a_loop(generator):
    alignment = generator.dirichlet(np.ones(5), size=(2, 3, 2, 4)).astype(np.float32)
    expected = np.zeros((2, 4))
    for row, layer, head, step in np.ndindex(2, 3, 2, 4):
        before = alignment[row, layer, head, :step].sum(axis=0)
        expected[row, step] += np.minimum(alignment[row, layer, head, step], before).sum() / 6
    np.testing.assert_allclose(coverage_loss(jnp.asarray(alignment)), expected, rtol=1e-5)


def test_guided_loss_equals_a_loop(generator):
    weights = generator.dirichlet(np.ones(5), size=(2, 3)).astype(np.float32)
    links = np.zeros((2, 3, 5), np.float32)
    links[0, 0, 3] = 1
    links[0, 1, [1, 2]] = 0.5
    links[1, 2, 4] = 1
    expected = np.zeros((2, 3))
    for row, step, position in np.ndindex(2, 3, 5):
        expected[row, step] -= links[row, step, position] * np.log(weights[row, step, position])
    actual = guided_loss(jnp.asarray(weights), jnp.asarray(links))
    np.testing.assert_allclose(actual, expected, rtol=1e-5)


def test_weights_are_guided_as_shares_of_one(generator):
    """Otherwise, larger weights would lower the loss wherever they lie; smaller ones raise it."""
    shares = jnp.asarray(generator.dirichlet(np.ones(5), size=(2, 3)))
    links = jnp.eye(5)[jnp.array([[0, 1, 2], [3, 4, 0]])]
    of_shares = guided_loss(shares, links)
    np.testing.assert_allclose(guided_loss(7 * shares, links), of_shares, rtol=1e-5)
    np.testing.assert_allclose(guided_loss(shares / 2, links), of_shares + np.log(2), rtol=1e-5)


def test_guided_loss_where_a_link_has_no_weight():
    weights, links = jnp.array([[[0.0, 1.0]]]), jnp.array([[[1.0, 0.0]]])
    value, gradient = jax.value_and_grad(lambda w: guided_loss(w, links).sum())(weights)
    np.testing.assert_allclose(value, -np.log(1e-30), rtol=1e-6)
    assert np.isfinite(gradient).all()


def test_guidance_reaches_even_the_smallest_weights():
    """-log softmax(s)_0 has the gradient (α_0 - 1, α_1), for α_0 = exp(-30) as for any other."""
    links = jnp.array([[[1.0, 0.0]]])

    def loss(scores):
        return guided_loss(jax.nn.softmax(scores)[None, None], links).sum()

    gradient = jax.grad(loss)(jnp.array([0.0, 30.0]))
    np.testing.assert_allclose(gradient, [-1, 1], rtol=1e-5)
