"""Normalizers that move through the source from left to right.

Their state is where they have come to: `advance` moves on, and `weights` shows it.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from attn_jax.attention.past import Past
from attn_jax.attention.protocol import Normalizer
from attn_jax.attention.scores import is_first, is_last
from attn_jax.settings.value import setting


class Moving(Normalizer):
    """What they have in common: reading starts at the first real position."""

    moves = True
    positional = True

    def start(self, p: Any, mask: Bool[Array, " S"]) -> PyTree:
        return jnp.where(is_first(mask), 1.0, 0.0)

    def advance(
        self, p: Any, scores: Float[Array, "*C S"], mask: Bool[Array, " S"], past: Past
    ) -> PyTree:
        raise NotImplementedError

    def weights(
        self, p: Any, scores: Float[Array, "*C S"], mask: Bool[Array, " S"], past: Past
    ) -> Float[Array, " S"]:
        return past.own


class Monotonic(Moving):
    """α_j = p_j q_j, q_j = (1 - p_{j-1}) q_{j-1} + α⁻_j, p = σ(e + r + ε).

    p_j is the probability of stopping at position j once it is reached, q_j the probability of
    reaching it, and α⁻ the weights of the previous step.

    In training, the expected alignment, with normal noise ε of standard deviation `noise`. In
    use, all weight is on the first position with e_j + r > 0, starting from the previous one; if
    there is none, all weights are 0 at this step and at all later ones. The score replaces the
    paper's scaled energy. r is learned, at first the setting `r`. The authors' program names -4,
    with which attention is at first spread over the source.

    Paper: Raffel et al. 2017, sections 2.2 (algorithm 1) to 2.5, equations 9 and 11 to 14.
    Cost: time T S, in log S parallel steps; memory T S.
    Sum: at most 1.
    """

    noise: float = setting(1.0, low=0)
    r: float = -1.0

    def init(self, rng: Array, Q: int, D: int) -> dict[str, Array]:
        return {"r": jnp.full((), self.r)}

    def advance(
        self, p: Any, scores: Float[Array, "*C S"], mask: Bool[Array, " S"], past: Past
    ) -> PyTree:
        return expected(self.chances(p, scores, mask, past), past.own, mask)

    def chances(
        self, p: Any, scores: Float[Array, "*C S"], mask: Bool[Array, " S"], past: Past
    ) -> Float[Array, " S"]:
        """p, the probability of stopping at each position once it is reached."""
        # Of two scores, the first decides where to stop.
        energies = (scores if self.scores == 1 else scores[0]) + p["r"]
        if past.rng is None:
            return (energies > 0).astype(energies.dtype)
        # Noise makes the network prefer chances near 0 and 1: section 2.5.
        noise = jax.random.normal(past.rng, energies.shape, energies.dtype)
        return jax.nn.sigmoid(energies + self.noise * noise)


class MmaH(Monotonic):
    """`monotonic` that always stops, at the latest at the last position, where p = 1.

    So no weight is lost: mass preservation. The paper has several such heads in each layer, which
    stop at different places: give `model.heads`.

    Paper: Ma, Pino, Cross, Puzon and Gu 2020, section 2.2 (MMA-H). p = 1 is the default of the
    authors' program, which has r, at first -2, only with `--energy-bias`.
    Cost: time T S, in log S parallel steps; memory T S.
    Sum: 1, if no score excludes a position.
    """

    r: float = -2.0

    def chances(
        self, p: Any, scores: Float[Array, "*C S"], mask: Bool[Array, " S"], past: Past
    ) -> Float[Array, " S"]:
        return jnp.where(is_last(mask), 1, super().chances(p, scores, mask, past))


class Milk(MmaH):
    """β_j = Σ_{k≥j} α_k exp(u_j) / Σ_{l≤k} exp(u_l), α as in mma_h: soft over all words read.

    Soft attention from the first word to where monotonic attention stops, at the latest at the last
    word. There are two scores with separate parameters: e decides where to stop, and u distributes
    the weight. With several heads it is MMA-IL.

    Paper: Arivazhagan et al. 2019, section 3.1, equations 9 and 10 (infinite lookback); Ma, Pino,
    Cross, Puzon and Gu 2020, section 2.2 (MMA-IL).
    Cost: time T S, memory T S.
    Sum: 1, if no score excludes a position.
    """

    scores = 2

    def stops(self, own: Float[Array, " S"]) -> Float[Array, " S"]:
        return own

    def weights(
        self, p: Any, scores: Float[Array, "2 S"], mask: Bool[Array, " S"], past: Past
    ) -> Float[Array, " S"]:
        u, stops = scores[1], past.own
        # exp(u_j) as shares of the largest of exp(u_l), l ≤ j, and by what this grows from l to j.
        lowest = jnp.finfo(u.dtype).min
        top = jax.lax.stop_gradient(jax.lax.cummax(jnp.where(mask, u, lowest)))
        powers = jnp.where(mask, jnp.exp(jnp.where(mask, u - top, 0)), 0)
        growth = jnp.exp(top[:-1] - top[1:])
        # Σ_{l≤k} exp(u_l), and Σ_{k≥j} α_k / Σ_{l≤k} exp(u_l), as such shares.
        totals = recurrence(jnp.pad(growth, (1, 0)), powers)
        parts = jnp.where(totals > 0, stops / jnp.where(totals > 0, totals, 1), 0)
        return powers * recurrence(jnp.pad(growth, (0, 1)), parts, reverse=True)


class Mocha(Monotonic):
    """β_j = Σ_{k=j}^{j+w-1} α_k exp(u_j) / Σ_{l=k-w+1}^{k} exp(u_l), α as in monotonic.

    Soft attention over a chunk of w = `chunk` positions, the last of which is where monotonic
    attention stops. There are two scores with separate parameters: e decides where to stop, and u
    distributes the weight within the chunk.

    Paper: Chiu and Raffel 2018, section 2.3, and algorithm 1.
    Cost: time T S w, memory T S w.
    Sum: at most 1.
    """

    scores = 2

    chunk: int = setting(3, low=1)

    def stops(self, own: Float[Array, " S"]) -> Float[Array, " S"]:
        return own

    def weights(
        self, p: Any, scores: Float[Array, "2 S"], mask: Bool[Array, " S"], past: Past
    ) -> Float[Array, " S"]:
        return spread(past.own, scores[1], mask, self.chunk)


class Restarting(Monotonic):
    """α_j = p_j Π_{k<j} (1 - p_k) in training, whatever the previous step read.

    Weights do not vanish over the steps, since each starts anew from the first position. The state
    is where the last step that stopped has stopped, and where this one does.
    """

    r: float = -4.0

    def start(self, p: Any, mask: Bool[Array, " S"]) -> tuple[Array, Array]:
        return super().start(p, mask), jnp.zeros(mask.shape)

    def advance(
        self, p: Any, scores: Float[Array, "*C S"], mask: Bool[Array, " S"], past: Past
    ) -> tuple[Array, Array]:
        end, _ = past.own
        chances = self.chances(p, scores, mask, past).astype(end.dtype)
        if past.rng is not None:
            return end, expected(chances, super().start(p, past.mask), mask)
        stops = expected(chances, end, mask)
        return jnp.where(stops.any(), stops, end), stops


class StableMocha(Restarting):
    """`mocha` with α_j = p_j Π_{k<j} (1 - p_k) in training, whatever the previous step read.

    In use it is `mocha`, but where a step finds no position, and so gives no weights, the next one
    searches from the same place, as in the authors' program. This is the paper's order n = 1; with
    higher orders, chunks before the last one are read too.

    Paper: Miao et al. 2019; Miao et al. 2020, "Online hybrid CTC/attention end-to-end automatic
    speech recognition architecture", section III.A, equations 23 to 27 (sMoChA).
    Cost: time T S w, memory T S w.
    Sum: at most 1.
    """

    scores = 2

    chunk: int = setting(3, low=1)

    def stops(self, own: tuple[Array, Array]) -> Float[Array, " S"]:
        return own[1]

    def weights(
        self, p: Any, scores: Float[Array, "2 S"], mask: Bool[Array, " S"], past: Past
    ) -> Float[Array, " S"]:
        return spread(past.own[1], scores[1], mask, self.chunk)


class Truncated(Restarting):
    """α_j = p_j Π_{k<j} (1 - p_k) up to position t_i, p = σ(e + r + ε): soft, and never beyond t_i.

    In training, t_i is the end of the source. In use, it is the first position from t_{i-1} on
    with e + r > 0; if there is none, all weights are 0 at this step, and t_i is t_{i-1}, as in the
    authors' program.

    Paper: Miao et al. 2020, "Online hybrid CTC/attention end-to-end automatic speech recognition
    architecture", section III.B, equations 28 to 33 (MTA).
    Cost: time T S, in log S parallel steps; memory T S.
    Sum: at most 1.
    """

    def weights(
        self, p: Any, scores: Float[Array, " S"], mask: Bool[Array, " S"], past: Past
    ) -> Float[Array, " S"]:
        _, stops = past.own
        if past.rng is not None:
            return stops
        up_to = jnp.cumsum(stops[::-1])[::-1] > 0
        first = Moving.start(self, p, past.mask)
        soft = expected(jax.nn.sigmoid(scores + p["r"]), first, mask)
        return jnp.where(up_to, soft, 0)


class Stepwise(Moving):
    """α_j = α⁻_j p_j + α⁻_{j-1} (1 - p_{j-1}), p = σ(e + r + ε): stay, or move on by one.

    α⁻ are the weights of the previous step. Unlike in `monotonic`, nothing is skipped. In training,
    the noise ε is normal, of standard deviation `noise`; in use, p is 1 where e + r is above 0,
    else 0. r is learned, at first the setting `r`. The authors' program has 3.5, for frames of
    speech, and `noise` 2, and is sensitive to r; where most steps move on, r is negative. At the
    last position, all weight stays; in that program, what moves on from there is lost. Weight on a
    position that is excluded is not shown.

    Paper: He, Deng and He 2019, section 3.1, equation 8, and section 3.2 for use.
    Cost: time T S, memory T S.
    Sum: 1, if no score excludes a position.
    """

    noise: float = setting(1.0, low=0)
    r: float = 0.0

    def init(self, rng: Array, Q: int, D: int) -> dict[str, Array]:
        return {"r": jnp.full((), self.r)}

    def advance(
        self, p: Any, scores: Float[Array, " S"], mask: Bool[Array, " S"], past: Past
    ) -> Float[Array, " S"]:
        scores = scores + p["r"]
        if past.rng is None:
            stays = (scores > 0).astype(scores.dtype)
        else:
            noise = jax.random.normal(past.rng, scores.shape, scores.dtype)
            stays = jax.nn.sigmoid(scores + self.noise * noise)
        stays = jnp.where(jnp.append(mask[1:], False), stays, 1)  # where no word follows
        leaving = past.own * (1 - stays)
        return past.own * stays + jnp.pad(leaving[:-1], (1, 0))

    def weights(
        self, p: Any, scores: Float[Array, " S"], mask: Bool[Array, " S"], past: Past
    ) -> Float[Array, " S"]:
        return jnp.where(mask, past.own, 0)


class Forward(Moving):
    """α_j ∝ (α⁻_j + α⁻_{j-1}) exp(e_j), α⁻ the weights of the previous step.

    Weight stays at a position or moves on by one. So the positions that can be attended to are
    those before and one more in each step; at first, these are the first two. This is the form
    without a transition agent.

    Paper: Zhang, Ling and Dai 2018, section 3.1, algorithm 1.
    Cost: time T S, memory T S.
    Sum: 1.
    """

    sums_to_one = True

    def advance(
        self, p: Any, scores: Float[Array, " S"], mask: Bool[Array, " S"], past: Past
    ) -> Float[Array, " S"]:
        reached = past.own + jnp.pad(past.own[:-1], (1, 0))  # by staying, or from the left
        possible = mask & (reached > 0)
        log_reached = jnp.log(jnp.where(possible, reached, 1))
        return jax.nn.softmax(scores + log_reached, where=possible)


def expected(
    chances: Float[Array, " S"], before: Float[Array, " S"], mask: Bool[Array, " S"]
) -> Float[Array, " S"]:
    """α_j = p_j q_j,  q_j = (1 - p_{j-1}) q_{j-1} + α⁻_j.

    The distribution of the position where reading stops. Reading starts at a position drawn from
    α⁻, moves to the right, reaches position j with probability q_j, and then stops there with
    probability p_j. The recurrence is linear and computed by a parallel scan; it is numerically
    stable, unlike the equivalent form with cumulative products and quotients. If α⁻ has all weight
    on one position and each p_j is 0 or 1, so does the result, unless it is 0 everywhere.

    Paper: Raffel et al. 2017, section 2.3, equations 9 and 11 to 14.

    Args:
      chances: p, the probability of stopping at each position.
      before: α⁻, the weights of the previous step.
      mask: True at real positions; others are skipped.
    """
    chances = jnp.where(mask, chances, 0)
    onwards = jnp.concatenate([jnp.zeros(1, chances.dtype), 1 - chances[:-1]])

    return chances * recurrence(onwards, before.astype(chances.dtype))


def recurrence(
    factors: Float[Array, " S"], terms: Float[Array, " S"], *, reverse: bool = False
) -> Float[Array, " S"]:
    """x_j = f_j x_{j-1} + t_j with x_0 = 0; from the right, x_j = f_j x_{j+1} + t_j.

    Each step is the map x ↦ f x + t. Maps can be composed in any grouping, so that the scan takes
    log S parallel steps.
    """

    def then(one: tuple, other: tuple) -> tuple:
        return one[0] * other[0], other[0] * one[1] + other[1]

    return jax.lax.associative_scan(then, (factors, terms), reverse=reverse)[1]


def spread(
    weights: Float[Array, " S"], scores: Float[Array, " S"], mask: Bool[Array, " S"], chunk: int
) -> Float[Array, " S"]:
    """Spreads each weight over a chunk: its own position and the `chunk` - 1 positions before it.

    Within a chunk, weight is proportional to the exponentials of the scores.
    """
    # Row k: the chunk that ends at position k, as indices into the sentence padded on the left.
    positions = jnp.arange(mask.size)[:, None] + jnp.arange(chunk)
    padded_scores = jnp.pad(scores, (chunk - 1, 0))
    padded_mask = jnp.pad(mask, (chunk - 1, 0))
    within = jax.nn.softmax(padded_scores[positions], where=padded_mask[positions], axis=1)
    # Chunks overlap: a position has the sum of what it gets from the chunks that contain it.
    padded = jnp.zeros(mask.size + chunk - 1, within.dtype)
    return padded.at[positions].add(weights[:, None] * within)[chunk - 1 :]
