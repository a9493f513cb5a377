"""Dropout as a pure function."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def dropout(
    features: Float[Array, "*shape"], rate: float, rng: Array | None
) -> Float[Array, "*shape"]:
    """Zeroes a share `rate` of the features and scales the others up, so that means stay.

    Without `rng`, as at use, the features come back as they are. Srivastava et al. 2014.
    """
    if rng is None or rate == 0:
        return features
    kept = jax.random.bernoulli(rng, 1 - rate, features.shape)
    return jnp.where(kept, features / (1 - rate), 0)
