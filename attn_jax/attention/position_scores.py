"""Scores that depend on the source position or on previous attention.

They are called like those of `scores`. Arrays count source positions from 0, formulas from 1.
"""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from attn_jax.attention.parts import Memory, Shapes, Sizes, part
from attn_jax.attention.scores import (
    additive_keys,
    additive_shapes,
    products,
    same_size,
    weighted,
)
from attn_jax.attention.widening import widen
from attn_jax.errors import InputError


def _location_shapes(sizes: Sizes, *, positions: int = 100) -> Shapes:
    if positions < 1:
        raise InputError(f"location: positions must be at least 1, got {positions}")
    return {"W": (sizes.Q, positions)}


@part(shapes=_location_shapes)
def location(
    query: Float[Array, " Q"], keys: Float[Array, "S A"], *, W: Float[Array, "Q L"]
) -> Float[Array, " S"]:
    """W s at position j.

    W has a column for each of `positions` source positions. As in the paper, a shorter sentence
    uses only the first columns, and words beyond the last column cannot be attended to.

    Paper: Luong, Pham and Manning 2015, section 3.1, equation 8.
    Cost: time T S Q, memory T S.
    """
    source_length = keys.shape[0]
    beyond = max(source_length - W.shape[1], 0)
    return jnp.pad(query @ W[:, :source_length], (0, beyond), constant_values=-jnp.inf)


def _relative_shapes(sizes: Sizes, *, distance: int = 16) -> Shapes:
    if distance < 1:
        raise InputError(f"relative: distance must be at least 1, got {distance}")
    return same_size(sizes) | {"b": (2 * distance + 1,)}


@part(shapes=_relative_shapes, initial={"b": 0.0})
def relative(
    query: Float[Array, " A"],
    keys: Float[Array, "S A"],
    *,
    step: Int[Array, ""],
    b: Float[Array, " K"],
) -> Float[Array, " S"]:
    """s_i · h_j / √Q + b at offset j - i.

    b is a learned scalar for each offset, as in Raffel et al. 2020, but without their buckets:
    offsets are clipped at ± `distance`, as in Shaw, Uszkoreit and Vaswani 2018, section 3.2.

    Paper: Raffel et al. 2020, section 2.1.
    Cost: time T S Q, memory T S.
    """
    distance = b.size // 2
    offsets = jnp.clip(jnp.arange(keys.shape[0]) - step, -distance, distance)
    return products(query, keys) / math.sqrt(query.size) + jnp.asarray(b)[offsets + distance]


@jax.checkpoint
def _energies_with_features(
    query: Float[Array, " A"],
    keys: Float[Array, "S A"],
    features: Float[Array, "S K"],
    V: Float[Array, "K A"],
    v: Float[Array, " A"],
) -> Float[Array, " S"]:
    # Recomputed for the derivative, as those of `additive` are.
    return weighted(jnp.tanh(query + keys + features @ V), v)


def _location_aware_shapes(sizes: Sizes, *, filters: int = 10, width: int = 11) -> Shapes:
    if filters < 1 or width < 1:
        raise InputError("location_aware: filters and width must be at least 1")
    return additive_shapes(sizes) | {
        "F": (width, filters),
        "V": (filters, sizes.A),
        "b": (sizes.A,),
    }


@part(shapes=_location_aware_shapes, keys=additive_keys, initial={"b": 0.0})
def location_aware(
    query: Float[Array, " Q"],
    keys: Float[Array, "S A"],
    *,
    memory: Memory,
    W: Float[Array, "Q A"],
    F: Float[Array, "R K"],
    V: Float[Array, "K A"],
    b: Float[Array, " A"],
    v: Float[Array, " A"],
) -> Float[Array, " S"]:
    """v · tanh(W s + U h_j + V f_j + b), f = F * α_{i-1}.

    f_j is the output of `filters` convolution filters of `width` positions, centred on j, over the
    weights of the previous step. At the first step, these weights are 0 (the paper does not specify
    them).

    Paper: Chorowski et al. 2015, section 2.2, equations 8 and 9.
    Cost: time T S K (A + R) for K filters of width R, memory T S (K + R) + S A.
    """
    width = F.shape[0]
    before = memory.weights.astype(keys.dtype)
    padded = jnp.pad(before, (width // 2, (width - 1) // 2))
    around = padded[jnp.arange(keys.shape[0])[:, None] + jnp.arange(width)]
    return _energies_with_features(query @ W + b, keys, around @ F, V, v)


def _coverage_shapes(sizes: Sizes) -> Shapes:
    return additive_shapes(sizes) | {"V": (sizes.A,), "f": (sizes.D,)}


def _coverage_keys(
    annotations: Float[Array, "S D"],
    *,
    U: Float[Array, "D A"],
    f: Float[Array, " D"],
    fertility: float = 2.0,
) -> Float[Array, "S A1"]:
    if fertility <= 0:
        raise InputError(f"coverage: fertility must be more than 0, got {fertility:g}")
    fertilities = jnp.maximum(fertility * jax.nn.sigmoid(annotations @ f), 1e-6)  # a divisor
    return jnp.concatenate([additive_keys(annotations, U=U), fertilities[:, None]], axis=1)


@part(shapes=_coverage_shapes, keys=_coverage_keys)
def coverage(
    query: Float[Array, " Q"],
    keys: Float[Array, "S A1"],
    *,
    memory: Memory,
    W: Float[Array, "Q A"],
    V: Float[Array, " A"],
    v: Float[Array, " A"],
) -> Float[Array, " S"]:
    """v · tanh(W s + U h_j + V C_j), C_j = Σ_{k<i} α_kj / Φ_j.

    Φ_j = N σ(f · h_j), the fertility, is the number of target words expected from position j, at
    most N = `fertility`. Of the paper's two kinds of coverage, this is the linguistic one. `keys`
    holds U h_j and, in the last column, Φ_j.

    Paper: Tu et al. 2016, sections 3.1.1 (linguistic coverage) and 3.2.
    Cost: time T S A (tanh), memory T S + S A.
    """
    covered = (memory.total / widen(keys[:, -1])).astype(keys.dtype)
    return _energies_with_features(query @ W, keys[:, :-1], covered[:, None], V[None], v)


def _gmm_shapes(sizes: Sizes, *, components: int = 3) -> Shapes:
    if components < 1:
        raise InputError(f"gmm: components must be at least 1, got {components}")
    return {"W": (sizes.Q, 3 * components), "b": (3 * components,)}


def _gmm_start(mask: Bool[Array, " S"], *, b: Float[Array, " K3"]) -> Float[Array, " K"]:
    return jnp.zeros(b.size // 3, widen(b).dtype)


@part(shapes=_gmm_shapes, start=_gmm_start, initial={"b": 0.0}, normalizer="exponential")
def gmm(
    query: Float[Array, " Q"],
    keys: Float[Array, "S A"],
    *,
    carry: Float[Array, " K"],
    W: Float[Array, "Q K3"],
    b: Float[Array, " K3"],
) -> tuple[Float[Array, " S"], Float[Array, " K"]]:
    """log Σ_k a_k exp(-β_k (κ_k - j)²).

    A mixture of `components` bells: a, β and the increments of κ are exp(W s + b), and κ, the
    carry, starts at 0 and only grows. With the normalizer `exponential`, the weights are those of
    the paper, which need not sum to 1; with `softmax`, they sum to 1.

    Paper: Graves 2013, section 5.1, equations 46 to 51.
    Cost: time T S K for K bells, memory T S K.
    """
    # In float32 at least: a small step would not move a large position in bfloat16.
    log_heights, log_sharpness, log_steps = jnp.split(widen(query @ W + b), 3)
    # These bounds keep overflow in float32 out of the derivative. They do no harm: no sentence has
    # e^20 positions, a bell of sharpness e^40 is 0 except at its centre, and a context e^40 times
    # as large as the annotations is useless.
    steps = jnp.exp(jnp.minimum(log_steps, 20)).astype(carry.dtype)
    centres = jnp.minimum(carry + steps, math.exp(20))
    positions = jnp.arange(1, keys.shape[0] + 1)[:, None]
    sharpness = jnp.exp(jnp.minimum(log_sharpness, 40))
    bells = jnp.minimum(log_heights, 40) - sharpness * (centres - positions) ** 2
    return _log_sum(bells), centres


def _log_sum(exponents: Float[Array, "S K"]) -> Float[Array, " S"]:
    """log Σ_k exp(e_k), finite also where the maximum and the exponents are rounded differently.

    XLA may compute the exponents twice, once with fused multiplications for the maximum. At -1e9,
    the two differ by tens: then `logsumexp` is the logarithm of 0 or of infinity.
    """
    largest = jax.lax.stop_gradient(exponents.max(axis=-1, keepdims=True))
    below = exponents - largest
    below = jnp.where(below > 0, 0, below)  # unlike `minimum`, with the whole derivative at 0
    total = jnp.maximum(jnp.exp(below).sum(axis=-1), 0.5)  # the largest alone adds 1
    return largest[:, 0] + jnp.log(total)
