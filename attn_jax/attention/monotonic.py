"""Normalizers that move through the source from left to right."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attn_jax.attention.normalizers import softmax
from attn_jax.attention.parts import Memory, Shapes, Sizes, part
from attn_jax.attention.widening import widen
from attn_jax.errors import InputError


def _first(mask: Bool[Array, " S"]) -> Float[Array, " S"]:
    """All weight on the first real position, where reading starts."""
    return jnp.where(mask & (jnp.cumsum(mask) == 1), 1.0, 0.0)


def _before(memory: Memory, mask: Bool[Array, " S"]) -> Float[Array, " S"]:
    return jnp.where(memory.step == 0, _first(mask), widen(memory.weights))


def expected(
    chances: Float[Array, " S"], before: Float[Array, " S"], mask: Bool[Array, " S"]
) -> Float[Array, " S"]:
    """α_j = p_j q_j,  q_j = (1 - p_{j-1}) q_{j-1} + α⁻_j.

    The distribution of the position where reading stops. Reading starts at a position drawn from
    α⁻, moves to the right, and stops at position j with probability p_j. The recurrence is linear
    and computed by a parallel scan; it is numerically stable, unlike the equivalent form with
    cumulative products and quotients. If α⁻ has all weight on one position and each p_j is 0 or 1,
    so does the result, unless it is 0 everywhere.

    Paper: Raffel et al. 2017, section 2.3, equations 9 and 11 to 14.

    Args:
      chances: p, the probability of stopping at each position.
      before: α⁻, the weights of the previous step.
      mask: True at real positions; others are skipped.
    """
    chances = jnp.where(mask, chances, 0)
    onwards = jnp.concatenate([jnp.zeros(1, chances.dtype), 1 - chances[:-1]])

    def then(left, right):
        return left[0] * right[0], right[0] * left[1] + right[1]

    _, arrived = jax.lax.associative_scan(then, (onwards, before.astype(chances.dtype)))
    return chances * arrived


def _offset_shapes(sizes: Sizes) -> Shapes:
    return {"r": ()}


def _noisy(scores: Array, r: Array, noise: float, rng: Array | None) -> Array:
    """Adds r, and noise if there is an `rng`.

    Noise in training makes the network prefer probabilities near 0 and 1. Raffel et al. 2017,
    section 2.5.
    """
    if noise < 0:
        raise InputError(f"noise must be at least 0, got {noise:g}")
    energies = widen(scores) + r
    return energies if rng is None else energies + noise * jax.random.normal(rng, energies.shape)


@part(shapes=_offset_shapes)
def hard_monotonic(
    scores: Float[Array, " S"],
    mask: Bool[Array, " S"],
    *,
    memory: Memory,
    r: Float[Array, ""],
) -> Float[Array, " S"]:
    """The first position from the last one read on with e_j + r > 0; nothing when there is none.

    Paper: Raffel et al. 2017, section 2.2, algorithm 1.
    """
    stops = (widen(scores) + r > 0).astype(jnp.float32)
    return expected(stops, _before(memory, mask), mask).astype(scores.dtype)


@part(shapes=_offset_shapes, initial={"r": -1.0}, decoding=hard_monotonic)
def monotonic(
    scores: Float[Array, " S"],
    mask: Bool[Array, " S"],
    *,
    memory: Memory,
    r: Float[Array, ""],
    noise: float = 1.0,
    rng: Array | None = None,
) -> Float[Array, " S"]:
    """α_j = p_j q_j, q_j = (1 - p_{j-1}) q_{j-1} + α⁻_j, p = σ(e + r + ε).

    In training, the expected alignment, with normal noise ε of standard deviation `noise`. In
    decoding, all weight is on the first position with e_j + r > 0, starting from the previous one;
    if there is none, all weights are 0 at this step and at all later ones. The score replaces the
    paper's scaled energy.

    Paper: Raffel et al. 2017, sections 2.2 to 2.5, equations 9 and 11 to 14.
    Cost: time T S, in log S parallel steps; memory T S.
    Sum: at most 1.
    """
    chances = jax.nn.sigmoid(_noisy(scores, r, noise, rng))
    return expected(chances, _before(memory, mask), mask).astype(scores.dtype)


def _spread(
    weights: Float[Array, " S"], scores: Float[Array, " S"], mask: Bool[Array, " S"], chunk: int
) -> Float[Array, " S"]:
    """Spreads each weight over a chunk: its own position and the `chunk` - 1 positions before it.

    Within a chunk, weight is proportional to the exponentials of the scores.
    """
    if chunk < 1:
        raise InputError(f"mocha: chunk must be at least 1, got {chunk}")
    positions = jnp.arange(mask.size)[:, None] + jnp.arange(chunk)  # into the padded sentence
    padded_scores = jnp.pad(widen(scores), (chunk - 1, 0))
    padded_mask = jnp.pad(mask, (chunk - 1, 0))
    within = jax.nn.softmax(padded_scores[positions], where=padded_mask[positions], axis=1)
    spread = jnp.zeros(mask.size + chunk - 1, within.dtype)
    return spread.at[positions].add(weights[:, None] * within)[chunk - 1 :]


@part(shapes=_offset_shapes, start=_first, score_count=2)
def hard_mocha(
    scores: Float[Array, "2 S"],
    mask: Bool[Array, " S"],
    *,
    carry: Float[Array, " S"],
    r: Float[Array, ""],
    chunk: int = 3,
) -> tuple[Float[Array, " S"], Float[Array, " S"]]:
    """Soft attention over the chunk that ends where hard monotonic attention stops.

    Paper: Chiu and Raffel 2018, section 2.3, algorithm 1.
    """
    stopped = expected((widen(scores[0]) + r > 0).astype(jnp.float32), carry, mask)
    return _spread(stopped, scores[1], mask, chunk).astype(scores.dtype), stopped


@part(shapes=_offset_shapes, initial={"r": -1.0}, start=_first, decoding=hard_mocha, score_count=2)
def mocha(
    scores: Float[Array, "2 S"],
    mask: Bool[Array, " S"],
    *,
    carry: Float[Array, " S"],
    r: Float[Array, ""],
    chunk: int = 3,
    noise: float = 1.0,
    rng: Array | None = None,
) -> tuple[Float[Array, " S"], Float[Array, " S"]]:
    """β_j = Σ_{k=j}^{j+w-1} α_k exp(u_j) / Σ_{l=k-w+1}^{k} exp(u_l), α as in monotonic.

    Soft attention over a chunk of w = `chunk` positions, the last of which is where monotonic
    attention stops. There are two scores with separate parameters: e decides where to stop, and u
    distributes the weight within the chunk. The carry is α.

    Paper: Chiu and Raffel 2018, section 2.3.
    Cost: time T S w, memory T S w.
    Sum: at most 1.
    """
    chances = jax.nn.sigmoid(_noisy(scores[0], r, noise, rng))
    stopped = expected(chances, carry, mask)
    return _spread(stopped, scores[1], mask, chunk).astype(scores.dtype), stopped


def forward(
    scores: Float[Array, " S"], mask: Bool[Array, " S"], *, memory: Memory
) -> Float[Array, " S"]:
    """α_j ∝ (α⁻_j + α⁻_{j-1}) exp(e_j).

    Weight stays at a position or moves on by one. So the positions that can be attended to are
    those before and one more in each step; at first, these are the first two. This is the form
    without a transition agent.

    Paper: Zhang, Ling and Dai 2018, section 3.1, algorithm 1.
    Cost: time T S, memory T S.
    Sum: 1.
    """
    before = _before(memory, mask)
    reached = before + jnp.pad(before[:-1], (1, 0))
    possible = mask & (reached > 0)
    log_reached = jnp.log(jnp.where(possible, reached, 1))
    return softmax(widen(scores) + log_reached, possible).astype(scores.dtype)
