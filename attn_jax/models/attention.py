"""The attention of a decoder: a score together with the parameters that it names."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
from flax import nnx
from jaxtyping import Array, Bool, Float

from attn_jax.attention import scores
from attn_jax.attention.context import attend
from attn_jax.attention.normalizers import CONTROLS, softmax
from attn_jax.attention.scores import SCORES, Sizes
from attn_jax.errors import InputError


class Source(NamedTuple):
    """A batch of encoded sentences, as a decoder reads it."""

    annotations: Float[Array, "B S D"]
    keys: Float[Array, "B S A"]  # projected annotations, made once per sentence
    mask: Bool[Array, "B S"]
    summary: Float[Array, "B Z"]  # what the first decoder state is made of


def mechanism(name: str) -> tuple[Callable, Callable]:
    """The score and the normalizer that a name stands for.

    Raises:
      InputError: the name is neither a score, nor a control, nor `module:function`.
    """
    if name in CONTROLS:
        return scores.constant, CONTROLS[name]
    if name not in SCORES and ":" not in name:
        allowed = ", ".join([*SCORES, *CONTROLS])
        raise InputError(f"unknown score {name!r}; allowed: {allowed}, or your own module:function")
    return scores.resolve(name), softmax


def scaled_normal(rng: Array, shape: tuple[int, ...]) -> Array:
    """Normal values that keep the variance of what is multiplied with them."""
    return jax.random.normal(rng, shape) * shape[0] ** -0.5


class Attention(nnx.Module):
    """Any score, over a batch, with the parameters that it asks for."""

    def __init__(self, name: str, sizes: Sizes, *, rngs: nnx.Rngs):
        self.score, self.normalizer = mechanism(name)
        self.parameters = nnx.Dict(
            {
                name: nnx.Param(scaled_normal(rngs.params(), shape))
                for name, shape in scores.shapes(self.score, sizes).items()
            }
        )

    def _arrays(self) -> dict[str, Array]:
        return {name: parameter[...] for name, parameter in self.parameters.items()}

    def keys(self, annotations: Float[Array, "B S D"]) -> Float[Array, "B S A"]:
        """What the score needs of the annotations, once per sentence."""
        return jax.vmap(partial(scores.keys, self.score, **self._arrays()))(annotations)

    def __call__(
        self, query: Float[Array, "B Q"], source: Source
    ) -> tuple[Float[Array, "B D"], Float[Array, "B S"]]:
        """The context and the weights of one query per sentence."""
        one = partial(
            attend, score=partial(self.score, **self._arrays()), normalizer=self.normalizer
        )
        return jax.vmap(one)(query, source.keys, source.annotations, source.mask)
