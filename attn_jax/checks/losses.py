"""Checks of a loss of one's own."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from attn_jax.attention.head_names import Single
from attn_jax.checks import declared
from attn_jax.checks.findings import Advice, Check, first_problem
from attn_jax.checks.subject import TOLERANCE, all_finite, difference
from attn_jax.recipe.loss import Loss, total
from attn_jax.tokens import EOS, PAD, UNK, Batch

S, T = 5, 7  # source words and target tokens of a pair: a token for each word, and more


class Example(NamedTuple):
    """A pair of sentences, as a batch of one."""

    weights: Float[np.ndarray, "1 L N T S"]
    source: np.ndarray
    target: np.ndarray
    links: Float[np.ndarray, "1 T S"]

    def padded(self, more: int) -> "Example":
        """The pair in longer arrays."""
        both = (0, more), (0, more)
        around = (0, 0), *both
        return Example(
            np.pad(self.weights, ((0, 0), (0, 0), *around)),
            np.pad(self.source, ((0, 0), (0, more)), constant_values=PAD),
            np.pad(self.target, ((0, 0), (0, more)), constant_values=PAD),
            np.pad(self.links, around),
        )


class Subject:
    """A loss, and pairs of sentences for it."""

    def __init__(self, loss: Loss):
        self.loss, self.own = loss, (loss,)
        one = loss.head if isinstance(loss.head, Single) else Single(layer=2, head=2)
        self.shape = one.layer, one.head, T, S
        self.modules = {type(loss).__module__}

        @jax.jit  # compiled once for each shape
        @jax.value_and_grad
        def of_weights(weights: Array, batch: Batch, rng: Array) -> Array:
            return total(loss, weights, batch, jnp.ones((), jnp.int32), rng)

        self._of_weights = of_weights

    def pair(self) -> Example:
        """Random weights, and links along the diagonal."""
        weights = np.random.default_rng(0).dirichlet(np.ones(S), (1, *self.shape[:3]))
        links = np.eye(T, S)[None]
        target = np.array([[UNK] * (T - 1) + [EOS]])
        return Example(weights, np.full((1, S), UNK), target, links)

    def at(self, pair: Example, seed: int = 0) -> tuple[Array, Array]:
        """The loss, and its gradient with respect to the weights."""
        weights, links = (jnp.asarray(each, jnp.float32) for each in (pair.weights, pair.links))
        batch = Batch(jnp.asarray(pair.source), jnp.asarray(pair.target), links)
        return self._of_weights(weights, batch, jax.random.split(jax.random.key(seed), 1))


def returned(subject: Subject) -> str | None:
    """Other shapes are refused as in training."""
    finite = all_finite(subject.at(subject.pair()))
    return None if finite else "the loss of random weights, or its gradient, is not finite"


def padded(subject: Subject) -> str | None:
    """Which sentences are in its batch must not matter to a pair."""
    pair = subject.pair()
    (loss, _), (drawn, _) = subject.at(pair), subject.at(pair, seed=1)
    if loss != drawn:  # what is random may depend on the length
        return None
    change = difference(loss, subject.at(pair.padded(3))[0])
    if change <= TOLERANCE:
        return None
    return f"the loss changes by {change:.2g} when the pair is padded: use the masks of `seen`"


def extreme(subject: Subject) -> str | None:
    """One gradient that is not finite ends a training."""
    pair = subject.pair()
    empty = pair._replace(source=0 * pair.source + PAD, target=0 * pair.target + PAD)
    first = np.zeros_like(pair.weights)
    first[..., 0] = 1
    for told, one in {
        "of weights of 0 and 1": pair._replace(weights=first),
        "where all weights are 0": pair._replace(weights=0 * pair.weights),
        "of a pair without any word": empty,
    }.items():
        if not all_finite(subject.at(one)):
            return f"the loss {told}, or its gradient, is not finite"
    return None


def influence(subject: Subject) -> str | None:
    """A loss without a gradient changes nothing."""
    _, gradient = subject.at(subject.pair())
    return None if np.any(gradient) else Advice("the gradient of the loss of random weights is 0")


CHECKS = (
    Check(declared.value, "is a value, equal to its copy and its text", "as a value", needed=True),
    Check(
        returned,
        "gives a finite number for a pair of sentences",
        "with random weights",
        needed=True,
        at_start=True,
    ),
    Check(padded, "padding changes nothing", "with padding", at_start=True),
    Check(
        extreme,
        "is finite, with its gradient, for weights of 0 and 1 and without any word",
        "with weights of 0 and 1",
        at_start=True,
    ),
    Check(influence, "the weights have a gradient", "in the derivative"),
)


def problem_at_start(loss: Loss) -> str | None:
    """What is wrong with a loss that would train wrongly without a word, if anything is."""
    return first_problem(Subject(loss), CHECKS)
