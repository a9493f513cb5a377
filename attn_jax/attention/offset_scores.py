"""Scores that depend on where a target step i and a source position j stand.

Steps and positions count from 0 in arrays and in formulas.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Num

from attn_jax.attention.normalizers import Exponential
from attn_jax.attention.past import Past
from attn_jax.attention.protocol import Score, widen
from attn_jax.attention.scores import Dot, ScaledDot, products
from attn_jax.attention.windows import length
from attn_jax.errors import InputError
from attn_jax.settings.value import setting


class Relative(ScaledDot):
    """s_i · h_j / √Q + b at offset j - i.

    b is a learned scalar for each offset, as in Raffel et al. 2020, but without their buckets:
    offsets are clipped at ± `distance`, as in Shaw, Uszkoreit and Vaswani 2018, section 3.2.

    Paper: Raffel et al. 2020, section 2.1.
    Cost: time T S Q, memory T S.
    """

    distance: int = setting(16, low=1)
    positional = True
    reads = ("step",)

    def init(self, rng: Array, Q: int, D: int) -> dict[str, Array]:
        return super().init(rng, Q, D) | {"b": jnp.zeros(2 * self.distance + 1)}

    def score(
        self, p: Any, query: Float[Array, " Q"], keys: Float[Array, "S Q"], past: Past
    ) -> Float[Array, " S"]:
        clipped = jnp.clip(offsets(keys, past), -self.distance, self.distance)
        return super().score(p, query, keys, past) + p["b"][clipped + self.distance]


class Buckets(ScaledDot):
    """s_i · h_j / √Q + b at the bucket of offset j - i.

    Of the `buckets`, half are for each direction. Of these, half are for one offset each, and the
    others for ranges that grow by a constant factor, up to `distance`. T5 has these biases in
    self-attention, and no 1/√Q, for which its first parameters make up.

    Paper: Raffel et al. 2020, section 2.1; the function of buckets is that of their program.
    Cost: time T S Q, memory T S.

    Raises:
      InputError: the distance is less than there are buckets for one offset each.
    """

    buckets: int = setting(32, low=4)
    distance: int = setting(128, low=2)
    positional = True
    reads = ("step",)

    def __post_init__(self) -> None:
        super().__post_init__()
        sides(self)

    def init(self, rng: Array, Q: int, D: int) -> dict[str, Array]:
        return super().init(rng, Q, D) | {"b": jnp.zeros(self.buckets)}

    def score(
        self, p: Any, query: Float[Array, " Q"], keys: Float[Array, "S Q"], past: Past
    ) -> Float[Array, " S"]:
        clipped = jnp.clip(offsets(keys, past), -self.distance, self.distance)
        bucket = jnp.asarray(self.table())[clipped + self.distance]
        return super().score(p, query, keys, past) + p["b"][bucket]

    def table(self) -> Num[np.ndarray, " offsets"]:
        """The bucket of each offset from -`distance` to `distance`."""
        half, exact = sides(self)
        steps = np.arange(self.distance + 1)
        grown = np.log(np.maximum(steps, 1) / exact) / math.log(self.distance / exact)
        # A whole number of buckets may come out as slightly less.
        ranges = np.minimum(exact + (grown * (half - exact) + 1e-9).astype(int), half - 1)
        one_way = np.where(steps < exact, steps, ranges)
        return np.concatenate([one_way[:0:-1], [0], half + one_way[1:]])


class Alibi(ScaledDot):
    """s_i · h_j / √Q - m |j - i|, m = 2^{-8(n+1)/N} for head n of N.

    If N is no power of 2, the first heads have the slopes of the next lower power, and the others
    every second one of the next higher power, as in the authors' program. The paper has decoders
    alone, in which j ≤ i.

    Paper: Press, Smith and Lewis 2022, section 3.
    Cost: time T S Q, memory T S.
    """

    positional = True
    reads = ("step", "head", "heads")

    def score(
        self, p: Any, query: Float[Array, " Q"], keys: Float[Array, "S Q"], past: Past
    ) -> Float[Array, " S"]:
        distances = jnp.abs(offsets(keys, past))
        return super().score(p, query, keys, past) - slope(past.head, past.heads) * distances


class Rotary(Dot):
    """R_i s_i · R_j h_j / √Q: pairs of features are rotated by angles i θ_m and j θ_m.

    θ_m = `base`^{-2m/Q} for the pair of features 2m and 2m+1. The score depends on positions
    through j - i alone. The paper has self-attention.

    Paper: Su et al. 2021, section 3.2.2, equations 14 to 16.
    Cost: time T S Q, memory T S + S Q.

    Raises:
      InputError: the number of features is odd.
    """

    base: float = setting(10_000.0, above=1)
    positional = True
    reads = ("step",)

    def init(self, rng: Array, Q: int, D: int) -> dict[str, Array]:
        if Q % 2:
            raise InputError(f"{self.word} rotates pairs of features, got {Q}, an odd number")
        return super().init(rng, Q, D)

    def keys(self, p: Any, annotations: Float[Array, "S Q"]) -> Float[Array, "S Q"]:
        return rotated(annotations, jnp.arange(len(annotations)), self.base)

    def score(
        self, p: Any, query: Float[Array, " Q"], keys: Float[Array, "S Q"], past: Past
    ) -> Float[Array, " S"]:
        return products(rotated(query, past.step, self.base), keys) / math.sqrt(query.size)


class LengthAwareRotary(Rotary):
    """R_{γi/T} s_i · R_{γj/S} h_j / √Q: as `rotary`, with positions as shares of the lengths.

    γ is `scale`. In the paper, the length T of the target, which is speech, is known beforehand.
    Here it is not: T is `ratio` times the length S of the source.

    Paper: Kim, Lee, Yang and Morton 2025, section 2.
    Cost: time T S Q, memory T S + S Q.

    Raises:
      InputError: the number of features is odd.
    """

    scale: float = setting(10.0, above=0)
    ratio: float = setting(1.0, above=0)

    def keys(self, p: Any, annotations: Float[Array, "S Q"]) -> Float[Array, "S Q"]:
        return annotations

    def score(
        self, p: Any, query: Float[Array, " Q"], keys: Float[Array, "S Q"], past: Past
    ) -> Float[Array, " S"]:
        share = self.scale / jnp.maximum(length(past.mask), 1)
        asked = rotated(query, past.step * share / self.ratio, self.base)
        places = jnp.arange(len(keys)) * share
        return products(asked, rotated(keys, places, self.base)) / math.sqrt(query.size)


class HardCoded(Score):
    """log N(j; r i + o, σ²): bells at fixed places, for each head beside another.

    r is the `ratio` of source to target words, and o one of the `offsets`, the first for the first
    head and so on. With `exponential`, weights are values of the density, as in the paper.

    Paper: You, Sun and Iyyer 2020, section 3.1, and for cross-attention section 4.
    Cost: time T S, memory T S.
    """

    offsets: tuple[int, ...] = (0, -1, 1)
    ratio: float = setting(1.0, above=0)
    sigma: float = setting(1.0, above=0)
    positional = True
    gives_logarithms = True
    default_normalizer = Exponential
    reads = ("step", "head")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.offsets:
            raise InputError(f"{self.word} needs at least one of the offsets")

    def score(
        self, p: Any, query: Array, keys: Float[Array, "S D"], past: Past
    ) -> Float[Array, " S"]:
        offset = jnp.asarray(self.offsets)[past.head % len(self.offsets)]
        distances = jnp.arange(len(keys)) - (self.ratio * past.step + offset)
        return -((distances / self.sigma) ** 2) / 2 - math.log(self.sigma * math.sqrt(2 * math.pi))


class RandomSynthesizer(Score):
    """R_ij, a learned number for each target step and source position.

    Words beyond `positions` cannot be attended to, and later steps are taken for the last one.

    Paper: Tay et al. 2021, section 3.1.2; it has self-attention alone.
    Cost: time T S, memory T S.
    """

    positions: int = setting(100, low=1)
    positional = True
    reads = ("step",)

    def init(self, rng: Array, Q: int, D: int) -> dict[str, Array]:
        return {"R": jax.random.normal(rng, (self.positions, self.positions))}

    def score(
        self, p: Any, query: Array, keys: Float[Array, "S D"], past: Past
    ) -> Float[Array, " S"]:
        row = self.row(p, jnp.minimum(past.step, self.positions - 1))[: len(keys)]
        return jnp.pad(row, (0, len(keys) - row.size), constant_values=-jnp.inf)

    def row(self, p: Any, step: Array) -> Float[Array, " L"]:
        """The scores of all positions at a step."""
        return p["R"][step]


class FactorizedSynthesizer(RandomSynthesizer):
    """(A Bᵀ)_ij, A and B [positions, rank]: as `random_synthesizer`, with fewer parameters.

    Paper: Tay et al. 2021, section 3.1.4; it has self-attention alone.
    Cost: time T S R, memory T S, R = `rank`.
    """

    rank: int = setting(8, low=1)

    def init(self, rng: Array, Q: int, D: int) -> dict[str, Array]:
        rng_A, rng_B = jax.random.split(rng)
        # Scores are at first of variance 1.
        scale, shape = self.rank**-0.25, (self.positions, self.rank)
        return {
            "A": scale * jax.random.normal(rng_A, shape),
            "B": scale * jax.random.normal(rng_B, shape),
        }

    def row(self, p: Any, step: Array) -> Float[Array, " L"]:
        return p["B"] @ p["A"][step]


def sides(part: Any) -> tuple[int, int]:
    """Of `buckets` of offsets up to `distance`: how many in a direction, and for one offset each.

    Raises:
      InputError: these reach the distance already.
    """
    half = part.buckets // 2
    exact = half // 2
    if part.distance <= exact:
        raise InputError(
            f"{part.name}: of {part.buckets} buckets, {exact} are for one offset each: distance "
            f"must be above, got {part.distance}"
        )
    return half, exact


def offsets(keys: Float[Array, "S Q"], past: Past) -> Int[Array, " S"]:
    """j - i."""
    return jnp.arange(len(keys)) - past.step


def slope(head: Array, heads: Array) -> Float[Array, ""]:
    """The slope of a head of `alibi`."""
    # The largest power of 2 that is not above; a logarithm may come out as slightly less.
    power = 2.0 ** jnp.floor(jnp.log2(heads) + 1e-4)
    usual = 8 * (head + 1) / power
    beyond = 4 * (2 * (head - power) + 1) / power
    return 2.0 ** -jnp.where(head < power, usual, beyond)


def rotated(
    vectors: Float[Array, "*S Q"], positions: Num[Array, "*S"], base: float
) -> Float[Array, "*S Q"]:
    """Pairs of features, the first two and so on, rotated by angles that grow with the position."""
    size = vectors.shape[-1]
    angles = positions[..., None] * jnp.asarray(base ** (-np.arange(0, size, 2) / size))
    cos, sin = jnp.cos(angles), jnp.sin(angles)
    even, odd = widen(vectors[..., ::2]), widen(vectors[..., 1::2])
    both = jnp.stack([even * cos - odd * sin, even * sin + odd * cos], axis=-1)
    return both.reshape(vectors.shape)
