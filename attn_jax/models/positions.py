"""Positions in a Transformer: added to the word vectors, or as rotations of queries and keys."""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int


def angles(positions: Int[Array, " T"], features: int) -> Float[Array, "T P"]:
    """The angles of positions, in radians, one for each of the P = ⌈features / 2⌉ pairs.

    Wavelengths are from 2π to 10000 · 2π.
    """
    rates = 10000.0 ** (-jnp.arange(0, features, 2) / features)
    return positions[:, None] * rates


class Sinusoidal:
    """Sines and cosines of positions, added to word vectors. Vaswani et al. 2017, section 3.5."""

    @staticmethod
    def add(vectors: Float[Array, "B T Q"], positions: Int[Array, " T"]) -> Float[Array, "B T Q"]:
        """Word vectors with their positions."""
        features = vectors.shape[-1]
        turned = angles(positions, features)
        waves = jnp.stack([jnp.sin(turned), jnp.cos(turned)], axis=-1)
        waves = waves.reshape(positions.size, -1)[:, :features]
        return vectors + waves.astype(vectors.dtype)

    @staticmethod
    def rotate(
        heads: Float[Array, "B T N H"], positions: Int[Array, " T"]
    ) -> Float[Array, "B T N H"]:
        """Queries or keys, unchanged."""
        return heads


class Rotary:
    """Rotates pairs of features of queries and keys by angles proportional to the position.

    Positions then affect a score only through their difference. Su et al. 2021, section 3.2.2;
    computed as in section 3.4.2.
    """

    @staticmethod
    def add(vectors: Float[Array, "B T Q"], positions: Int[Array, " T"]) -> Float[Array, "B T Q"]:
        """Word vectors, unchanged."""
        return vectors

    @staticmethod
    def rotate(
        heads: Float[Array, "B T N H"], positions: Int[Array, " T"]
    ) -> Float[Array, "B T N H"]:
        """Queries or keys [B, T, N, H], rotated; H must be even."""
        turned = angles(positions, heads.shape[-1])[:, None]
        cos, sin = jnp.cos(turned).astype(heads.dtype), jnp.sin(turned).astype(heads.dtype)
        even, odd = heads[..., ::2], heads[..., 1::2]
        both = jnp.stack([even * cos - odd * sin, even * sin + odd * cos], axis=-1)
        return both.reshape(heads.shape)


POSITIONS: dict[str, type[Sinusoidal | Rotary]] = {"sinusoidal": Sinusoidal, "rotary": Rotary}
