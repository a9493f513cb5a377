"""Masks: what depends on padding and what does not, at the sizes and lengths of runs."""

import jax
import jax.numpy as jnp
import pytest

from attn_jax import Normalizer, Window
from attn_jax.attention.plain import as_part
from attn_jax.checks.mechanisms import CHECKS, QUICKLY_COMPILED, _made
from attn_jax.checks.subject import Subject, surrounded
from tests.checks.faulty import FromTheEnd, Perceptron, Products, StandardizesAll


def normalizer(function):
    return as_part(Normalizer, function)


def heeds(scores, mask):
    return jax.nn.softmax(scores, where=mask)


def forgets(scores, mask):
    return jax.nn.softmax(scores)


def forgets_but_seldom(scores, mask):
    kept = jax.nn.relu(scores)
    return kept / (kept.sum() + 1e-6)


def divides_by_all(scores, mask):
    return jnp.where(mask, jax.nn.softmax(scores), 0)


def shifts_by_all(scores, mask):
    return jax.nn.softmax(scores - scores.max(), where=mask)


def divides_by_their_spread(scores, mask):
    return jax.nn.softmax(scores / (scores.std() + 1e-3), where=mask)


def five_best(scores, mask):
    least = jax.lax.top_k(jnp.where(mask, scores, -jnp.inf), 5)[0][-1]
    return jax.nn.softmax(scores, where=mask & (scores >= least))


def five_best_of_longer_ones(scores, mask):
    least = jax.lax.top_k(jnp.where(mask, scores, -jnp.inf), 5)[0][-1]
    return jax.nn.softmax(scores, where=scores >= least)


class Noisy(Normalizer):
    def weights(self, p, scores, mask, past):
        if past.rng is None:
            return heeds(scores, mask)
        return heeds(scores + jax.random.normal(past.rng, scores.shape), mask)


class NoisyAndForgets(Normalizer):
    def weights(self, p, scores, mask, past):
        if past.rng is None:
            return forgets(scores, mask)
        return heeds(scores + jax.random.normal(past.rng, scores.shape), mask)


class ForgetsInTraining(Normalizer):
    def weights(self, p, scores, mask, past):
        return (heeds if past.rng is None else forgets)(scores, mask)


class Scaled(Normalizer):
    power: float = 1.0

    def init(self, rng, Q, D):
        return {"scale": jnp.zeros(())}  # with which nothing would show

    def weights(self, p, scores, mask, past):
        return jax.nn.softmax(p["scale"] * jnp.abs(scores) ** self.power)


class CountsPositions(Normalizer):
    def start(self, p, mask):
        return jnp.zeros(mask.shape)

    def advance(self, p, scores, mask, past):
        return past.own + 1

    def weights(self, p, scores, mask, past):
        return heeds(scores * (1 + past.own.sum()), mask)


class CountsWords(CountsPositions):
    def advance(self, p, scores, mask, past):
        return past.own + mask


class ForgetsLater(Normalizer):
    reads = ("step",)

    def weights(self, p, scores, mask, past):
        return jax.nn.softmax(scores, where=mask | (past.step > 1))


class NotFinite(Products):
    def score(self, p, query, keys, past):
        return super().score(p, query, keys, past) * jnp.nan


class PerceptronOfAll(Perceptron):
    def keys(self, p, annotations):
        return annotations - annotations.mean(axis=0)


class Nearby(Window):
    reads = ("step",)

    def bias(self, p, query, past):
        return jnp.where(jnp.arange(past.mask.size) <= past.step, 0, -jnp.inf)


class Centred(Window):
    """Around the middle of the padded sentence."""

    def bias(self, p, query, past):
        size = past.mask.size
        return jnp.where(jnp.abs(jnp.arange(size) - size / 2) < 3, 0, -jnp.inf)


class GainOfPadded(Window):
    def gain(self, p, query, past):
        return jnp.full(past.mask.shape, 1 / past.mask.size)


RIGHT = [
    normalizer(heeds),
    normalizer(shifts_by_all),
    normalizer(five_best),
    Noisy(),
    CountsWords(),
    Nearby(),
    Products(),
    Perceptron(),
    NotFinite(),  # which is told as such
]
WRONG = [
    normalizer(forgets),
    normalizer(forgets_but_seldom),
    normalizer(divides_by_all),
    normalizer(divides_by_their_spread),
    normalizer(five_best_of_longer_ones),
    NoisyAndForgets(),
    ForgetsInTraining(),
    CountsPositions(),
    ForgetsLater(),
    Scaled(power=2),
    StandardizesAll(),
    PerceptronOfAll(),
    FromTheEnd(),
    Centred(),
    GainOfPadded(),
]
sizes = pytest.mark.parametrize("sizes", [(1, 1), (256, 256)], ids=["small", "large"])


def words(part):
    return part.word.rpartition(":")[2]


def statuses(part, sizes):
    subject = Subject(*surrounded(part), *sizes, 8, QUICKLY_COMPILED)
    checks = [check for check in CHECKS if check.find.__name__ in ("masked", "padded")]
    return {found.status for found in _made(subject, checks)}


@sizes
@pytest.mark.parametrize("part", RIGHT, ids=words)
def test_what_depends_on_no_padding_passes(part, sizes):
    assert statuses(part, sizes) == {"ok"}


@sizes
@pytest.mark.parametrize("part", WRONG, ids=words)
def test_what_depends_on_padding_is_found(part, sizes):
    assert "FAILS" in statuses(part, sizes)
