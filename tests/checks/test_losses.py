"""Checks of losses: each finds the fault it is made for, and none in the losses of this package."""

import re

import jax
import jax.numpy as jnp
import pytest

import attn_jax
from attn_jax import InputError, Loss
from attn_jax.attention.head_names import Single
from attn_jax.checks.losses import CHECKS, problem_at_start
from tests.training.test_losses import SETTINGS


class Fair(Loss):
    def loss(self, seen):
        return jnp.square(seen.weights).sum()


class PerToken(Loss):
    def loss(self, seen):
        return seen.weights.max(axis=1)


class CountsPadding(Loss):
    def loss(self, seen):
        return jnp.square(1 - seen.weights.sum(axis=0)).sum()


class DividesByNothing(Loss):
    def loss(self, seen):
        return seen.weights.sum() / seen.source_mask.sum()


class Logarithm(Loss):
    def loss(self, seen):
        real = seen.target_mask[:, None] & seen.source_mask
        return -(seen.weights * jnp.log(seen.weights)).sum(where=real)


class Blind(Loss):
    def loss(self, seen):
        return seen.target_mask.sum() * 1.0


class Noisy(Loss):
    def loss(self, seen):
        return (seen.weights * jax.random.uniform(seen.rng, seen.weights.shape)).sum()


class OfSet(Fair):
    kinds: frozenset = frozenset({1, 2})


FAULTS = [
    (OfSet(), "value", "could not record it as"),
    (PerToken(), "returned", r"PerToken gives shape \[7\], not a number for a pair"),
    (CountsPadding(), "padded", "changes by .* when the pair is padded: use the masks of `seen`"),
    (DividesByNothing(), "extreme", "of a pair without any word, or its gradient, is not finite"),
    (Logarithm(), "extreme", "of weights of 0 and 1, or its gradient, is not finite"),
    (Blind(), "influence", "the gradient of the loss of random weights is 0"),
]


@pytest.mark.parametrize(("loss", "check", "told"), FAULTS, ids=[str(one[0]) for one in FAULTS])
def test_a_check_finds_the_fault_that_it_is_made_for(loss, check, told):
    number = [one.find.__name__ for one in CHECKS].index(check)
    found = list(attn_jax.check(loss))[number]
    assert re.search(told, str(found.problem))
    assert found.status == ("note" if check == "influence" else "FAILS")
    at_start = {one.find.__name__ for one in CHECKS if one.at_start}
    problem = problem_at_start(loss)
    assert re.search(told, problem) if check in at_start else problem is None


def test_every_check_has_a_fault():
    assert {check for _, check, _ in FAULTS} == {check.find.__name__ for check in CHECKS}


@pytest.mark.parametrize(
    "loss",
    [*SETTINGS, Fair(head=Single(layer=3, head=4)), Noisy()],
    ids=str,
)
def test_losses_without_a_fault_pass(loss):
    findings = attn_jax.check(loss)
    assert {one.status for one in findings} == {"ok"}, findings
    assert problem_at_start(loss) is None


def test_a_loss_sees_no_queries():
    with pytest.raises(InputError, match="a loss sees no queries or annotations"):
        attn_jax.check(Fair(), query_size=3)
