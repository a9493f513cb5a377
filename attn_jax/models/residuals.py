"""Residual connections around the sublayers f of a Transformer, with layer normalisation."""

from flax import nnx
from jaxtyping import Array, Float, Key

from attn_jax.config import Model
from attn_jax.errors import choose
from attn_jax.kernels.forms import FAST
from attn_jax.models.dropout import make_dropout

EPSILON = 1e-5  # of layer normalisation


class LayerNorm(nnx.LayerNorm):
    """Flax's layer normalisation, recomputed from the inputs for the derivative."""

    forms = FAST

    def __call__(self, inputs: Float[Array, "... Q"]) -> Float[Array, "... Q"]:
        """The inputs with a mean of 0 and a variance of 1, scaled and shifted."""
        return self.forms.recomputed(nnx.LayerNorm.__call__)(self, inputs)


class PostNorm(nnx.Module):
    """LayerNorm(x + f(x)). Vaswani et al. 2017, section 3.1; with dropout on f(x), section 5.4."""

    normalizes_output = True

    def __init__(self, config: Model, width: int, *, rngs: nnx.Rngs):
        self.norm = LayerNorm(width, epsilon=EPSILON, rngs=rngs)
        self.dropout = make_dropout(config)

    def enter(self, inputs: Float[Array, "... Q"]) -> Float[Array, "... Q"]:
        """The input of f: x."""
        return inputs

    def leave(
        self,
        inputs: Float[Array, "... Q"],
        outputs: Float[Array, "... Q"],
        rng: Key[Array, " B"] | None,
    ) -> Float[Array, "... Q"]:
        """LayerNorm(x + f(x)), from x and f(x)."""
        return self.norm(inputs + self.dropout(outputs, rng))


class PreNorm(PostNorm):
    """x + f(LayerNorm(x)), which needs a final LayerNorm above all blocks. Xiong et al. 2020."""

    normalizes_output = False

    def enter(self, inputs: Float[Array, "... Q"]) -> Float[Array, "... Q"]:
        """The input of f: LayerNorm(x)."""
        return self.norm(inputs)

    def leave(
        self,
        inputs: Float[Array, "... Q"],
        outputs: Float[Array, "... Q"],
        rng: Key[Array, " B"] | None,
    ) -> Float[Array, "... Q"]:
        """The sum of x and the output of f."""
        return inputs + self.dropout(outputs, rng)


RESIDUALS: dict[str, type[PostNorm]] = {"post": PostNorm, "pre": PreNorm}


def make_residual(config: Model, width: int, *, rngs: nnx.Rngs) -> PostNorm:
    """The residual connection selected by the options."""
    return choose(RESIDUALS, config.norm, "norm")(config, width, rngs=rngs)


def make_last_norm(config: Model, width: int, *, rngs: nnx.Rngs) -> LayerNorm | None:
    """The layer normalisation above all blocks; None if the blocks end with one."""
    if choose(RESIDUALS, config.norm, "norm").normalizes_output:
        return None
    return LayerNorm(width, epsilon=EPSILON, rngs=rngs)
