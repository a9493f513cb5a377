"""Checks of a way to mix heads of one's own."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from attn_jax.attention import steps
from attn_jax.attention.protocol import Mixing
from attn_jax.checks.findings import Advice
from attn_jax.checks.subject import TOLERANCE, all_finite, difference

HEADS, LENGTH = 4, 24


class Mixed:
    """Mixing with parameters, scores and weights of one step."""

    def __init__(self, mixing: Mixing):
        self.mixing, self.own = mixing, (mixing,)
        self.modules = {type(part).__module__ for part in mixing.parts()}

    @functools.cached_property
    def made(self) -> tuple[PyTree, PyTree, PyTree]:
        """The first parameters of two keys, and once more of the first one."""
        keys = (jax.random.key(seed) for seed in (0, 1, 0))
        one, other, again = (self.mixing.init(rng, HEADS) for rng in keys)
        return one, other, again

    @functools.cached_property
    def p(self) -> PyTree:
        """Parameters away from the first ones, which often mix nothing."""
        generator = np.random.default_rng(0)
        return jax.tree.map(
            lambda leaf: jnp.float32(leaf + generator.normal(size=jnp.shape(leaf))), self.made[0]
        )

    def inputs(self, positions: int = LENGTH) -> tuple[Array, Array]:
        """Scores and weights of all heads; the weights are 0 from `LENGTH` on."""
        scores = np.random.default_rng(1).normal(size=(HEADS, LENGTH)).astype(np.float32)
        more = (0, 0), (0, positions - LENGTH)
        weights = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        return jnp.pad(scores, more), jnp.pad(weights, more)

    def mixed(self, p: PyTree, scores: Array, weights: Array) -> tuple[Array, Array]:
        """The scores and the weights as the machinery mixes them."""
        mask = jnp.arange(scores.shape[1]) < LENGTH
        mixed = steps.mix_scores(self.mixing, p, scores)
        return mixed, steps.mix_weights(self.mixing, p, weights, mask)


def returned(subject: Mixed) -> str | None:
    """The machinery refuses other shapes."""
    if all_finite(subject.mixed(subject.p, *subject.inputs())):
        return None
    return "mixed scores or weights of random ones are not finite"


def signs(subject: Mixed) -> str | None:
    """Losses and the coverage penalty rely on what the class says."""
    _, weights = subject.mixed(subject.p, *subject.inputs())
    if subject.mixing.non_negative and np.any(np.asarray(weights) < 0):
        return "mixed weights may be negative: give its class non_negative = False"
    return None


def padded(subject: Mixed) -> str | None:
    """Each position is mixed by itself, so that padding changes nothing."""
    alone = subject.mixed(subject.p, *subject.inputs())
    beside = subject.mixed(subject.p, *subject.inputs(LENGTH + 8))
    change = difference(alone, tuple(each[:, :LENGTH] for each in beside))
    return f"padding changes what is mixed by {change:.2g}" if change > TOLERANCE else None


def gradients(subject: Mixed) -> str | None:
    """They are finite, also with the first parameters, and reach every parameter."""

    def seen(p: PyTree, *inputs: Array) -> Float[Array, ""]:
        scores, weights = subject.mixed(p, *inputs)
        return jnp.square(scores).sum() + jnp.square(weights).sum()

    found: Any = [
        jax.grad(seen, (0, 1, 2))(p, *subject.inputs()) for p in (subject.made[0], subject.p)
    ]
    if not all_finite(found):
        return "gradients are not finite"
    without = [
        jax.tree_util.keystr(path, simple=True, separator=".")
        for path, leaf in jax.tree.leaves_with_path(found[1][0])
        if not np.any(leaf)
    ]
    if not without:
        return None
    return Advice(f"nothing that is seen depends on {' and '.join(without)}: the gradient is 0")
