"""Hard attention trained by a bound: its value, what its gradient is in the mean, and its use."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attn_jax.models.marginal import LOW
from attn_jax.models.randomness import by_row
from attn_jax.models.variational import ENTROPY, Bounded, Reinforce
from attn_jax.tokens import BOS, PAD
from tests.models import hard_attention_oracle, oracle
from tests.models.arithmetic import double
from tests.models.test_hard_attention import BOUNDED, TARGET, sharp
from tests.models.test_seq2seq import BOTH, SOURCE, make
from tests.stages import slow

sampled = pytest.mark.parametrize("readout", ["reinforce", "variational_sampled"])
SAMPLES, ERRORS = 1000, 4  # the mean of the samples is within so many of its standard errors
RNG = by_row(jax.random.key(3), len(SOURCE))


def wide(model):
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, float), model)


def sentences():
    """Each pair without padding, and the places of its weights in those of the batch."""
    for row, words in enumerate(zip(SOURCE, TARGET, strict=True)):
        source, target = ([i for i in side if i != PAD] for side in words)
        yield source, target, np.s_[row, : len(target), : len(source)]


def test_the_bound_is_that_of_the_paper():
    """In float64."""
    narrow, expected = sharp("variational"), 0.0
    with jax.enable_x64(True):
        model = wide(narrow)
        loss = jax.jit(lambda model: model.loss(model.read(SOURCE, TARGET, RNG), TARGET))(model)
    readout, table = model.decoder.readout, double(model.words.target_words.embedding)
    network = SimpleNamespace(layers=[readout.network], residual=False)
    for source, target, _ in sentences():
        hidden = oracle.hard_attention(model, source, [BOS, *target[:-1]])
        seen, *_ = oracle.read(network, [table[y] for y in target])
        q = hard_attention_oracle.inferred(readout, oracle.encode(model, source)[0], seen)
        expected += hard_attention_oracle.bound(hidden, q, target)
    np.testing.assert_allclose(-loss, expected, rtol=1e-9)


def test_the_bound_lacks_the_divergence_from_the_posterior(generator, monkeypatch):
    """Of any q; of the posterior it lacks nothing."""
    model = sharp("variational")
    exact = -model.loss(model.read(SOURCE, TARGET), TARGET)
    reading = model.read(SOURCE, TARGET, RNG)
    posterior = np.asarray(model.posterior(reading, TARGET), float)
    any_q = generator.dirichlet(np.ones(SOURCE.shape[1]), TARGET.shape)
    for q in (any_q * (posterior > 0), posterior):
        q = q / np.maximum(q.sum(axis=-1, keepdims=True), 1e-30)
        log_q = np.where(q > 0, np.log(np.where(q > 0, q, 1)), LOW).astype(np.float32)
        monkeypatch.setattr(type(model.decoder.readout), "log_q", lambda *_, log_q=log_q: log_q)
        lacking = sum(
            (q[real] * np.log(q[real] / posterior[real])).sum() for _, _, real in sentences()
        )
        bound = -model.loss(reading, TARGET)
        np.testing.assert_allclose(bound, exact - lacking, rtol=1e-5)
        assert bound <= exact + 1e-4


def test_the_derivative_is_that_of_differences(generator):
    model = make(decoder="luong", readout="variational")
    with jax.enable_x64(True):
        start = wide(model)
        along = jax.tree.map(lambda leaf: jnp.asarray(generator.normal(size=leaf.shape)), start)

        def value(step):
            moved = jax.tree.map(lambda leaf, by: leaf + step * by, start, along)
            return moved.loss(moved.read(SOURCE, TARGET, RNG), TARGET)

        derived, width = jax.jit(jax.value_and_grad(value)), 1e-5
        slope = float(derived(0.0)[1])
        differences = float(derived(width)[0] - derived(-width)[0]) / (2 * width)
    assert abs(slope) > 0.1
    np.testing.assert_allclose(slope, differences, rtol=1e-6)


class Parts:
    """The bound of a model as a function of what it is computed from, after encoder and states.

    The weights are given by their scores, since the mean of a baseline is 0 only where they sum to
    1.
    """

    def __init__(self, model):
        self.reading = model.read(SOURCE, TARGET, RNG)
        self.real = TARGET != PAD
        steps, projected = self.reading.steps, self.reading.source.projected
        self.all = (model.words, model.decoder.readout, projected.features, projected.own)
        self.all += (steps.of_states, steps.log_weights)

    def known(self, parts, noise):
        words, readout, features, own, of_states, scores = parts
        source, steps = self.reading.source, self.reading.steps
        projected = source.projected._replace(features=features, own=own)
        mask = source.first_mask[:, None]
        log_weights = jnp.where(mask, jax.nn.log_softmax(jnp.where(mask, scores, LOW)), LOW)
        steps = steps._replace(of_states=of_states, log_weights=log_weights, noise=noise)
        return readout, (words, TARGET, source._replace(projected=projected), steps)

    def bound(self, parts, noise):
        readout, known = self.known(parts, noise)
        return jnp.where(self.real, readout.bound(*known), 0)

    def log_q(self, parts):
        readout, known = self.known(parts, None)
        return known[-1].log_weights if isinstance(readout, Reinforce) else readout.log_q(*known)

    def expected(self, parts):
        """The mean of the bound, from the likelihoods at all positions."""
        readout, known = self.known(parts, None)
        log_q, log_p = self.log_q(parts), known[-1].log_weights
        q = jnp.exp(log_q)
        found = (q * readout._likelihoods(*known)).sum(axis=-1)
        if isinstance(readout, Reinforce):
            found -= ENTROPY * (q * log_q).sum(axis=-1)
        else:
            found -= (q * (log_q - log_p)).sum(axis=-1)
        return found.sum(where=self.real)

    def mean(self, parts):
        """A function whose derivative is the mean, over all samples, of that of the bound."""
        q = jax.lax.stop_gradient(jnp.exp(self.log_q(parts)))

        def of_place(place, weights):
            noise = jnp.broadcast_to(1e9 * place, q.shape)
            return (weights * self.bound(parts, noise)).sum()

        return jax.vmap(of_place)(jnp.eye(q.shape[-1]), jnp.moveaxis(q, -1, 0)).sum()


def derivative(function):
    """That of a function of parts, as one row of numbers."""

    def derived(*known):
        leaves = jax.tree.leaves(jax.grad(function)(*known))
        return jnp.concatenate([leaf.ravel() for leaf in leaves])

    return jax.jit(derived)


@sampled
def test_the_mean_over_samples_is_the_derivative_of_the_expectation(readout, monkeypatch):
    """With the baseline and without; in float64."""
    narrow = sharp(readout)
    with jax.enable_x64(True):
        made = Parts(wide(narrow))
        expected = derivative(made.expected)(made.all)
        means = [derivative(made.mean)(made.all)]
        monkeypatch.setattr(Bounded, "baseline", lambda *_: 0.0)
        means.append(derivative(made.mean)(made.all))
    assert np.abs(expected).max() > 0.1
    for mean in means:
        np.testing.assert_allclose(mean, expected, rtol=1e-9, atol=1e-11)


@sampled
def test_samples_have_that_mean_and_the_baseline_takes_from_their_variance(
    readout, generator, monkeypatch
):
    made = Parts(sharp(readout))
    expected = derivative(made.expected)(made.all)
    along = generator.normal(size=(expected.size, 5)).astype(np.float32)

    def derived(rng):
        noise = made.all[1].noise(by_row(rng, len(SOURCE)), made.all[-1])
        return derivative(lambda parts: made.bound(parts, noise).sum())(made.all) @ along

    rngs, variances = jax.random.split(jax.random.key(1), SAMPLES), []
    for _ in range(2):
        found = np.asarray(jax.lax.map(derived, rngs, batch_size=100))
        errors = found.std(axis=0) / SAMPLES**0.5
        assert np.all(np.abs(found.mean(axis=0) - expected @ along) < ERRORS * errors)
        variances.append(found.var(axis=0).mean())
        monkeypatch.setattr(Bounded, "baseline", lambda *_: 0.0)
    assert variances[0] < variances[1] / 2


@pytest.mark.parametrize("readout", BOUNDED)
def test_in_use_the_model_is_exact(readout):
    """With the parameters of `marginal`, it has its log-probabilities, loss and posterior."""
    bounded, exact = (make(decoder="luong", readout=one) for one in (readout, "marginal"))
    readings = [model.read(SOURCE, TARGET) for model in (bounded, exact)]
    for name in ("loss", "posterior"):
        mine, its = (
            getattr(model, name)(reading, TARGET)
            for model, reading in zip((bounded, exact), readings, strict=True)
        )
        np.testing.assert_array_equal(mine, its)
    training = bounded.read(SOURCE, TARGET, RNG)  # as scheduled sampling reads it
    words = bounded.log_probabilities(training.steps, training.source)
    expected = exact.log_probabilities(readings[1].steps, readings[1].source)
    np.testing.assert_allclose(words, expected, rtol=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        {"normalizer": "sparsemax"},
        {"values": "embeddings"},
        {"sources": "concatenated"},
        pytest.param({"sources": "flat"}, marks=slow),
        pytest.param({"decoder": "transformer"}, marks=slow),
    ],
    ids=lambda options: "-".join(options.values()),
)
def test_the_bound_is_below_the_likelihood_with_any_parts(options):
    """And no sample is of a position whose weight is 0, which would have an infinite divergence."""
    source = BOTH if "sources" in options else SOURCE
    model = make(**({"decoder": "luong", "readout": "variational"} | options))
    exact = model.loss(model.read(source, TARGET), TARGET)
    bound = model.loss(model.read(source, TARGET, RNG), TARGET)
    assert exact < bound < 2 * exact
    model = make(**({"decoder": "luong", "readout": "variational_sampled"} | options))
    assert 0 < model.loss(model.read(source, TARGET, RNG), TARGET) < 2 * exact
