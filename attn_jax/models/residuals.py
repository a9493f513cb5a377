"""The residual sum around a part of a Transformer, and where it is normalised."""

import jax
from flax import nnx
from jaxtyping import Array, Float

from attn_jax.config import Model
from attn_jax.errors import choose
from attn_jax.models.dropout import make_dropout

EPSILON = 1e-5  # of layer normalisation


class LayerNorm(nnx.LayerNorm):
    """Flax's, of which a derivative makes all again from the inputs.

    JAX would keep four arrays as large as those, two of them broadcast from a few numbers.
    """

    __call__ = jax.checkpoint(nnx.LayerNorm.__call__)


class PostNorm(nnx.Module):
    """LayerNorm(x + f(x)). Vaswani et al. 2017, section 3.1; dropout of f(x), section 5.4."""

    def __init__(self, config: Model, width: int, *, rngs: nnx.Rngs):
        self.norm = LayerNorm(width, epsilon=EPSILON, rngs=rngs)
        self.dropout = make_dropout(config)

    def enter(self, inputs: Float[Array, "... Q"]) -> Float[Array, "... Q"]:
        """What f reads of x."""
        return inputs

    def leave(
        self, inputs: Float[Array, "... Q"], outputs: Float[Array, "... Q"], rng: Array | None
    ) -> Float[Array, "... Q"]:
        """The sum of x and what f made of it."""
        return self.norm(inputs + self.dropout(outputs, rng))


class PreNorm(PostNorm):
    """x + f(LayerNorm(x)), which needs a last LayerNorm above all blocks. Xiong et al. 2020."""

    def enter(self, inputs: Float[Array, "... Q"]) -> Float[Array, "... Q"]:
        """What f reads of x."""
        return self.norm(inputs)

    def leave(
        self, inputs: Float[Array, "... Q"], outputs: Float[Array, "... Q"], rng: Array | None
    ) -> Float[Array, "... Q"]:
        """The sum of x and what f made of it."""
        return inputs + self.dropout(outputs, rng)


RESIDUALS: dict[str, type[PostNorm]] = {"post": PostNorm, "pre": PreNorm}


def make_residual(config: Model, width: int, *, rngs: nnx.Rngs) -> PostNorm:
    """The residual sum that the options ask for."""
    return choose(RESIDUALS, config.norm, "norm")(config, width, rngs=rngs)


def make_last_norm(config: Model, width: int, *, rngs: nnx.Rngs) -> LayerNorm | None:
    """The norm above all blocks, where they do not end with one."""
    if RESIDUALS[config.norm] is PostNorm:
        return None
    return LayerNorm(width, epsilon=EPSILON, rngs=rngs)
