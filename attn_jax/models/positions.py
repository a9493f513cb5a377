"""Positions of words in a Transformer: added to the word vectors, or turning queries and keys."""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int


def angles(positions: Int[Array, " T"], features: int) -> Float[Array, "T F"]:
    """Positions at wavelengths from 2π to 10000 · 2π, one for each two features."""
    rates = 10000.0 ** (-jnp.arange(0, features, 2) / features)
    return positions[:, None] * rates


class Sinusoidal:
    """sin and cos of the positions, added to word vectors. Vaswani et al. 2017, section 3.5."""

    @staticmethod
    def add(vectors: Float[Array, "B T Q"], positions: Int[Array, " T"]) -> Float[Array, "B T Q"]:
        """Word vectors with their positions."""
        features = vectors.shape[-1]
        turned = angles(positions, features)
        waves = jnp.stack([jnp.sin(turned), jnp.cos(turned)], axis=-1)
        waves = waves.reshape(positions.size, -1)[:, :features]
        return vectors + waves.astype(vectors.dtype)

    @staticmethod
    def turn(
        heads: Float[Array, "B T N H"], positions: Int[Array, " T"]
    ) -> Float[Array, "B T N H"]:
        """Queries or keys as they are."""
        return heads


class Rotary:
    """Each two features of queries and keys turned by an angle that grows with the position.

    So a score depends on the distance alone. Su et al. 2021, section 3.2.2; computed as in 3.4.2.
    """

    @staticmethod
    def add(vectors: Float[Array, "B T Q"], positions: Int[Array, " T"]) -> Float[Array, "B T Q"]:
        """Word vectors as they are."""
        return vectors

    @staticmethod
    def turn(
        heads: Float[Array, "B T N H"], positions: Int[Array, " T"]
    ) -> Float[Array, "B T N H"]:
        """Queries or keys [B, T, N, H] of an even H, turned."""
        turned = angles(positions, heads.shape[-1])[:, None]
        cos, sin = jnp.cos(turned).astype(heads.dtype), jnp.sin(turned).astype(heads.dtype)
        even, odd = heads[..., ::2], heads[..., 1::2]
        both = jnp.stack([even * cos - odd * sin, even * sin + odd * cos], axis=-1)
        return both.reshape(heads.shape)


POSITIONS: dict[str, type[Sinusoidal | Rotary]] = {"sinusoidal": Sinusoidal, "rotary": Rotary}
