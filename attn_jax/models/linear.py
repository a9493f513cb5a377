"""Linear maps, the same as Flax's except for how their products are computed."""

import functools
import itertools
import operator

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from attn_jax.kernels.forms import FAST


class Linear(nnx.Linear):
    """y = x W + b."""

    forms = FAST

    def __call__(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, *inputs: Float[Array, "*any _"]
    ) -> Float[Array, "*any G"]:
        """The outputs, in float32 at least; several inputs are the parts of x, in order.

        Each part has its own product, which need not wait for the other parts.
        """
        ends = list(itertools.accumulate(part.shape[-1] for part in inputs))
        matrices = jnp.split(self.kernel[...], ends[:-1])
        outputs = functools.reduce(operator.add, map(self.forms.product, inputs, matrices))
        return outputs if self.bias is None else outputs + self.bias[...]
