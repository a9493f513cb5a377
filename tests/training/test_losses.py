"""The losses of weights, by the equations of their papers in float64, one sentence at a time."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import betabinom

from attn_jax.attention import Concatenated, Dot, Dropped, General, Milk, Mocha
from attn_jax.attention.head_names import MeanHead, Single
from attn_jax.config import Model
from attn_jax.errors import InputError
from attn_jax.models.randomness import by_row
from attn_jax.recipe.loss import Loss, total
from attn_jax.recipe.losses import (
    LOSSES,
    Coverage,
    DelayVariance,
    Diagonal,
    Disagreement,
    DoublyStochastic,
    Entropy,
    ForwardSum,
    Guided,
    Latency,
    Monotonicity,
)
from attn_jax.tokens import EOS, PAD, Batch
from tests.drawn import drawn

B, L, N, T, S = 4, 2, 3, 6, 5
LENGTHS = ((5, 6), (3, 4), (5, 2), (1, 1))  # source words, target tokens


def coverage(alignment, links, loss):
    """See et al. 2017, equation 12: Σ_i min(a_i^t, c_i^t), c^t = Σ_{t'<t} a^{t'} (equation 10)."""
    found, covered = 0.0, np.zeros(alignment.shape[1])
    for weights in alignment:
        found += sum(min(a, c) for a, c in zip(weights, covered, strict=True))
        covered = covered + weights
    return found


def guided(alignment, links, loss):
    """Chen et al. 2016, section 3: -Σ_t Σ_i A_ti log α_ti."""
    places = np.ndindex(alignment.shape)
    return -sum(links[at] * np.log(alignment[at]) for at in places if links[at])


def diagonal(alignment, links, loss):
    """Tachibana et al. 2017, section 4.1: the mean over nt of A_nt W_nt, times T.

    Training divides by the target tokens, which stands for 1 / T.
    """
    count_t, count_n = alignment.shape
    mean = 0.0
    for t in range(1, count_t + 1):
        for n in range(1, count_n + 1):
            apart = n / count_n - t / count_t
            penalty = 1 - np.exp(-(apart**2) / (2 * loss.width**2))
            mean += alignment[t - 1, n - 1] * penalty / (count_n * count_t)
    return mean * count_t


def entropy(alignment, links, loss):
    """-Σ_i Σ_j α_ij log α_ij, where 0 log 0 = 0."""
    return -sum(a * np.log(a) for a in alignment.flat if a > 0)


def doubly_stochastic(alignment, links, loss):
    """Xu et al. 2015, equation 14: Σ_i^L (1 - Σ_t^C α_ti)²."""
    return sum((1 - alignment[:, i].sum()) ** 2 for i in range(alignment.shape[1]))


def monotonicity(alignment, links, loss):
    """Rios et al. 2021: the mean attended positions should not decrease, with a scaled margin."""
    of_target, of_source = alignment.shape
    positions = [sum((j + 1) * a for j, a in enumerate(weights)) for weights in alignment]
    steps = itertools.pairwise(positions)
    margin = loss.margin * of_source / of_target
    return sum(max(0.0, before - after + margin) for before, after in steps) / of_source


@functools.cache
def readings(of_target, of_source):
    """Which word each token belongs to, from 1, or 0 for none: all words, from left to right."""
    every = itertools.product(range(of_source + 1), repeat=of_target)
    in_order = [*range(1, of_source + 1)]
    return [
        one for one in every if [word for word, _ in itertools.groupby(one) if word] == in_order
    ]


def forward_sum(alignment, links, loss):
    """Badlani et al. 2021: -log of the sum of the probabilities of all readings.

    The prior is their static one, and none of the words has a score of -1.
    """
    of_target, of_source = alignment.shape
    chances = np.zeros((of_target, of_source + 1))
    for t in range(1, of_target + 1):
        chances[t - 1, 0] = np.exp(-1)
        prior = np.ones(of_source)
        if loss.sharpness is not None:
            a, b = loss.sharpness * t, loss.sharpness * (of_target - t + 1)
            prior = betabinom.pmf(range(of_source), of_source - 1, a, b)
        chances[t - 1, 1:] = alignment[t - 1] * prior
        chances[t - 1] /= chances[t - 1].sum()
    all_of_them = readings(of_target, of_source)
    found = sum(np.prod([chances[t, a] for t, a in enumerate(one)]) for one in all_of_them)
    return -np.log(found) if all_of_them else 0.0


def delays(alignment, loss):
    """Arivazhagan et al. 2019: g_i = Σ_j j α_ij of each head, what is left on the last word."""
    found = []
    for weights in heads_of(loss, alignment):
        of_head = []
        for row in weights:
            row = row.copy()
            row[-1] += 1 - row.sum()
            of_head.append(sum((j + 1) * a for j, a in enumerate(row)))
        found.append(of_head)
    return np.array(found)


def latency(alignment, loss):
    """Arivazhagan et al. 2019, section 3.2 (DAL), of Ma et al.'s weighted average of heads."""
    *_, of_target, of_source = alignment.shape
    gamma = of_target / of_source
    lagging, before = 0.0, None
    for i, of_heads in enumerate(delays(alignment, loss).T, start=1):
        g = sum(np.exp(one) * one for one in of_heads) / sum(np.exp(one) for one in of_heads)
        before = g if before is None else max(g, before + 1 / gamma)
        lagging += before - (i - 1) / gamma
    return lagging / of_target


def delay_variance(alignment, loss):
    """Ma et al. 2020: how far the delays of heads are from their mean, for the mean token."""
    of_tokens = delays(alignment, loss).T
    return np.mean([sum((of - one.mean()) ** 2 for of in one) / len(one) for one in of_tokens])


def disagreement(alignment, loss):
    """Li et al. 2018: 1/H² Σ_i Σ_j |A^i ∘ A^j| in a layer, of which the mean is taken."""
    pairs = [(layer, i, j) for layer, i, j in np.ndindex(L, N, N)]
    return sum((alignment[la, i] * alignment[la, j]).sum() for la, i, j in pairs) / len(pairs)


ORACLES = {
    Coverage: coverage,
    Guided: guided,
    Diagonal: diagonal,
    Entropy: entropy,
    DoublyStochastic: doubly_stochastic,
    Monotonicity: monotonicity,
    ForwardSum: forward_sum,
}
OF_ALL_HEADS = {Disagreement: disagreement, Latency: latency, DelayVariance: delay_variance}
SETTINGS = [
    Coverage(),
    Coverage(weight=0.3, head=MeanHead()),
    Guided(),
    Guided(weight=2, head=Single(layer=2, head=1)),
    Diagonal(),
    Diagonal(width=0.05, head=Single(layer=1, head=3)),
    Entropy(),
    Entropy(head=MeanHead()),
    DoublyStochastic(),
    Monotonicity(),
    Monotonicity(margin=0.5, weight=0.1),
    ForwardSum(),
    ForwardSum(sharpness=0.3, weight=0.2, head=MeanHead()),
    ForwardSum(sharpness=None, head=Single(layer=1, head=2)),
    Latency(),
    Latency(weight=0.5, head=Single(layer=2, head=3)),
    DelayVariance(),
    Disagreement(),
]


def batch(generator, sharpness=1.0):
    """Weights that are 0 at padding of the source, ids and links."""
    weights = np.zeros((B, L, N, T, S), np.float32)
    source, target = np.full((B, S), PAD), np.full((B, T), PAD)
    links = np.zeros((B, T, S), np.float32)
    for row, (words, tokens) in enumerate(LENGTHS):
        weights[row, ..., :words] = generator.dirichlet(sharpness * np.ones(words), (L, N, T))
        source[row, :words], target[row, :tokens] = 7, 9
        target[row, tokens - 1] = EOS
        for step in range(tokens - 1):
            at = generator.integers(words, size=2)
            links[row, step, at] = 1 / len({*at})
    return weights, source, target, links


def of_batch(loss, weights, source, target, links):
    rng = jax.random.split(jax.random.key(0), len(source))
    ids = (jnp.asarray(each, jnp.int32) for each in (source, target))
    return total(loss, jnp.asarray(weights), Batch(*ids, jnp.asarray(links)), jnp.asarray(3), rng)


def heads_of(loss, alignment):
    """The weights of each head that a loss concerns, [H, T, S]."""
    if loss.head == MeanHead():
        return [np.mean(alignment, axis=(0, 1))]
    if isinstance(loss.head, Single):
        return [alignment[loss.head.layer - 1, loss.head.head - 1]]
    return [alignment[place] for place in np.ndindex(L, N)]


def expected(loss, weights, links):
    found = 0.0
    for row, (words, tokens) in enumerate(LENGTHS):
        alignment = weights[row, ..., :tokens, :words].astype(np.float64)
        if type(loss) in OF_ALL_HEADS:
            found += OF_ALL_HEADS[type(loss)](alignment, loss)
            continue
        heads = heads_of(loss, alignment)
        of_pair = [ORACLES[type(loss)](one, links[row, :tokens, :words], loss) for one in heads]
        found += sum(of_pair) / len(of_pair)
    return loss.weight * found


def test_every_loss_has_an_oracle():
    assert {*ORACLES, *OF_ALL_HEADS} == {*map(type, SETTINGS)} == {*LOSSES.values()}


@pytest.mark.parametrize("loss", SETTINGS, ids=str)
def test_a_loss_equals_its_papers_equation(loss, generator):
    weights, source, target, links = batch(generator)
    found = of_batch(loss, weights, source, target, links)
    np.testing.assert_allclose(found, expected(loss, weights, links), rtol=1e-5)


@pytest.mark.parametrize("loss", SETTINGS, ids=str)
def test_what_lies_at_padding_changes_neither_a_loss_nor_a_gradient(loss, generator):
    weights, source, target, links = batch(generator)
    real = (target != PAD)[:, None, None, :, None] & (source != PAD)[:, None, None, None, :]
    of_weights = jax.value_and_grad(lambda w: of_batch(loss, w, source, target, links))
    one, gradient = of_weights(np.where(real, weights, 0))
    for filling in (0.7, np.nan):
        other, again = of_weights(np.where(real, weights, np.float32(filling)))
        np.testing.assert_array_equal(other, one)
        np.testing.assert_array_equal(again, gradient)
    assert not np.any(np.where(real, 0, gradient))


@pytest.mark.parametrize("loss", SETTINGS, ids=str)
def test_a_gradient_equals_finite_differences(loss, generator):
    weights, source, target, links = batch(generator, sharpness=5.0)
    weights *= np.float32(0.9)  # a sum of 1 is where guided weights begin to be rescaled
    direction = generator.normal(size=weights.shape) * (weights > 0)
    gradient = jax.grad(lambda w: of_batch(loss, w, source, target, links))(weights)
    ends = [
        expected(loss, weights.astype(np.float64) + at * direction, links) for at in (-1e-6, 1e-6)
    ]
    along = (np.asarray(gradient, np.float64) * direction).sum()
    np.testing.assert_allclose(along, (ends[1] - ends[0]) / 2e-6, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
@pytest.mark.parametrize("loss", SETTINGS, ids=str)
def test_weights_in_half_precision_lose_no_more_than_their_rounding(loss, dtype, generator):
    weights, source, target, links = batch(generator)
    rounded = jnp.asarray(weights, dtype)
    found = of_batch(loss, rounded, source, target, links)
    assert found.dtype == jnp.float32
    whole = of_batch(loss, np.asarray(rounded, np.float32), source, target, links)
    np.testing.assert_array_equal(found, whole)


def test_coverage_by_hand():
    # The second step attends 0.5 and 0.4 again, the third one 1.
    weights = jnp.array([[0.6, 0.4], [0.5, 0.5], [1.0, 0.0]])[None, None, None]
    words = np.array([[7, 7]]), np.array([[9, 9, EOS]])
    found = of_batch(Coverage(), weights, *words, np.zeros((1, 3, 2)))
    np.testing.assert_allclose(found, 1.9, rtol=1e-6)


def one_step(loss, weights, links):
    """The loss of one step of one head."""
    source, target = np.full((1, len(weights)), 7), np.array([[EOS]])
    weights, links = (jnp.asarray(each)[None, None] for each in (weights, links))
    return of_batch(loss, weights[None, None], source, target, links)


def test_weights_are_guided_as_shares_of_one(generator):
    """Otherwise, larger weights would lower the loss wherever they lie; smaller ones raise it."""
    shares, link = jnp.asarray(generator.dirichlet(np.ones(5)), jnp.float32), jnp.eye(5)[2]
    of_shares = one_step(Guided(), shares, link)
    np.testing.assert_allclose(one_step(Guided(), 7 * shares, link), of_shares, rtol=1e-5)
    halved = one_step(Guided(), shares / 2, link)
    np.testing.assert_allclose(halved, of_shares + np.log(2), rtol=1e-5)


def test_guided_loss_where_a_link_has_no_weight():
    weights, links = jnp.array([0.0, 1.0]), jnp.array([1.0, 0.0])
    value, gradient = jax.value_and_grad(lambda w: one_step(Guided(), w, links))(weights)
    np.testing.assert_allclose(value, -np.log(1e-30), rtol=1e-6)
    assert np.isfinite(gradient).all()


def test_guidance_reaches_even_the_smallest_weights():
    """-log softmax(s)_0 has the gradient (α_0 - 1, α_1), for α_0 = exp(-30) as for any other."""
    links = jnp.array([1.0, 0.0])
    gradient = jax.grad(lambda s: one_step(Guided(), jax.nn.softmax(s), links))(
        jnp.array([0.0, 30.0])
    )
    np.testing.assert_allclose(gradient, [-1, 1], rtol=1e-5)


class Tokens(Loss):
    def loss(self, seen):
        return seen.weights.sum(axis=1)


class Nothing(Loss):
    def loss(self, seen):
        seen.weights.sum()


class Secretly(Loss):
    def loss(self, seen):
        return (seen.weights * seen.links).sum()


@pytest.mark.parametrize(
    ("loss", "told"),
    [
        (Tokens(), r"Tokens gives shape \[6\], not a number for a pair of sentences"),
        (Nothing(), "Nothing gives NoneType, not a number"),
        (Secretly(), "give its class needs_links = True"),
        (Entropy(head=Single(layer=3, head=1)), r"losses: entropy: head=3\.1 does not exist"),
        (Latency(head=Single(layer=3, head=1)), r"losses: latency: head=3\.1 does not exist"),
        (DelayVariance(head=MeanHead()), "delay_variance compares heads, and there is one"),
    ],
)
def test_what_is_no_loss_is_refused(loss, told, generator):
    with pytest.raises(InputError, match=told):
        of_batch(loss, *batch(generator))


def test_guidance_needs_links(generator):
    weights, source, target, _ = batch(generator)
    rng = jax.random.split(jax.random.key(0), B)
    ids = (jnp.asarray(each, jnp.int32) for each in (source, target))
    with pytest.raises(InputError, match="the loss guided needs the links of the pairs"):
        total(Guided(), jnp.asarray(weights), Batch(*ids), jnp.asarray(0), rng)


class Stopping(Loss):
    """Σ_i Σ_j j s_ij, s the probabilities of stopping."""

    def loss(self, seen):
        return (seen.stops @ (1.0 + jnp.arange(seen.stops.shape[1]))).sum()


SIZES = {"embedding_size": 4, "annotation_size": 6, "hidden_size": 6, "readout_size": 4}


@pytest.mark.parametrize(
    "options",
    [
        {"decoder": "bahdanau"},
        {"decoder": "luong"},
        {"decoder": "syntactic"},
        {"decoder": "transformer", "decoder_layers": 2, "heads": 2},
    ],
    ids=lambda options: options["decoder"],
)
@pytest.mark.parametrize("normalizer", [Milk(noise=0), Dropped(Mocha(noise=0), rate=0.5)], ids=str)
def test_a_loss_sees_where_reading_stops(options, normalizer):
    config = Model(score=General(), normalizer=normalizer, **SIZES, **options)
    model = drawn(config, 9, 9)
    batch = Batch(jnp.array([[4, 5, 6, 7]]), jnp.array([[4, 5, EOS]]))
    rngs = by_row(jax.random.key(0), 1)
    weights, stops = model.read(batch.source, batch.target, rngs).weights
    # Weights are spread to the left of where reading stops, and none is lost.
    np.testing.assert_allclose(weights.sum(-1), stops.sum(-1), rtol=1e-5)
    right = [np.cumsum(each[..., ::-1], axis=-1) for each in (weights, stops)]
    assert np.all(right[0] <= right[1] + 1e-6)
    assert not np.allclose(*right)
    found = total(Stopping(), (weights, stops), batch, jnp.asarray(0), rngs)
    places = (stops * np.arange(1, 5)).sum(axis=(3, 4)).mean()
    np.testing.assert_allclose(found, places, rtol=1e-5)


def test_a_loss_sees_where_reading_of_two_sources_stops():
    sources = Concatenated(score=Dot())
    config = Model(score=General(), normalizer=Milk(), sources=sources, **SIZES)
    model = drawn(config, (9, 9), 9)
    # The words of the second source stand behind those of the first, numbered after them.
    source = jnp.array([[4, 5, 6, 13, 14]])
    reading = model.read(source, jnp.array([[4, EOS]]), by_row(jax.random.key(0), 1))
    weights, stops = reading.weights
    np.testing.assert_allclose(weights[..., 3:], stops[..., 3:], rtol=1e-6)
    assert not np.allclose(weights[..., :3], stops[..., :3])
