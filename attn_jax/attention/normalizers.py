"""Normalizers: from scores [S] and a mask [S] to weights [S], exactly 0 where the mask is False.

If the mask is False everywhere, all weights and gradients are 0.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attn_jax.attention.past import Past
from attn_jax.attention.protocol import Normalizer
from attn_jax.settings.value import setting

NOTHING = -1e30  # the logarithm of 0, with a derivative


class Softmax(Normalizer):
    """exp(e_j) / Σ_k exp(e_k).

    Paper: Bahdanau, Cho and Bengio 2014, section 3.1, equation 6.
    Cost: time T S, memory T S.
    Sum: 1.
    """

    sums_to_one = True

    def weights(
        self, p: Any, scores: Float[Array, " S"], mask: Bool[Array, " S"], past: Past
    ) -> Float[Array, " S"]:
        return jax.nn.softmax(scores, where=mask)


class Temperature(Normalizer):
    """exp(e_j / τ) / Σ_k exp(e_k / τ).

    Sharper than softmax for `tau` below 1, flatter for `tau` above 1.

    Paper: Hinton, Vinyals and Dean 2015, section 2, equation 1.
    Cost: time T S, memory T S.
    Sum: 1.
    """

    sums_to_one = True

    tau: float = setting(0.5, above=0)

    def weights(
        self, p: Any, scores: Float[Array, " S"], mask: Bool[Array, " S"], past: Past
    ) -> Float[Array, " S"]:
        return tempered(scores, mask, self.tau)


class Null(Normalizer):
    """exp(e_j) / (exp(n) + Σ_k exp(e_k)).

    A softmax over the sentence and one additional position, which has a learned score n and an
    annotation of zeros. The weight of that position is not returned, so that the others sum to at
    most 1. It corresponds to the NULL word of alignment models (Brown et al. 1993, section 4.1).

    Paper: Xiao et al. 2024, section 3.3.
    Cost: time T S, memory T S.
    Sum: at most 1.
    """

    def init(self, rng: Array, Q: int, D: int) -> dict[str, Array]:
        return {"n": jnp.zeros(())}

    def weights(
        self, p: Any, scores: Float[Array, " S"], mask: Bool[Array, " S"], past: Past
    ) -> Float[Array, " S"]:
        with_null = jnp.concatenate([p["n"].astype(scores.dtype)[None], scores])
        somewhere = jnp.concatenate([mask.any()[None], mask])
        return jax.nn.softmax(with_null, where=somewhere)[1:]


class Sigmoid(Normalizer):
    """σ(e_j - log n), n positions in the window.

    Positions do not compete. The bias -log n makes the weights sum to about 1 for scores near 0.

    Paper: Ramapuram et al. 2025, section 2.
    Cost: time T S, memory T S.
    Sum: any.
    """

    def weights(
        self, p: Any, scores: Float[Array, " S"], mask: Bool[Array, " S"], past: Past
    ) -> Float[Array, " S"]:
        count = jnp.maximum(mask.sum(), 1).astype(scores.dtype)
        return jnp.where(mask, jax.nn.sigmoid(scores - jnp.log(count)), 0)


class Exponential(Normalizer):
    """exp(e_j), not normalised, for scores that are logarithms of weights.

    Paper: Graves 2013, section 5.1, equation 46.
    Cost: time T S, memory T S.
    Sum: any.
    """

    needs_logarithms = True

    def weights(
        self, p: Any, scores: Float[Array, " S"], mask: Bool[Array, " S"], past: Past
    ) -> Float[Array, " S"]:
        # Larger weights would overflow, if not here, then as they are summed.
        bounded = jnp.minimum(scores, 80)
        return jnp.exp(jnp.where(mask, bounded, -jnp.inf))


class OffByOne(Normalizer):
    """exp(e_j) / (1 + Σ_k exp(e_k)): `null` whose additional position has a score of 0.

    Paper: Miller 2023, "Attention is off by one".
    Cost: time T S, memory T S.
    Sum: at most 1.
    """

    def weights(
        self, p: Any, scores: Float[Array, " S"], mask: Bool[Array, " S"], past: Past
    ) -> Float[Array, " S"]:
        return Null().weights({"n": jnp.zeros(())}, scores, mask, past)


class Relu(Normalizer):
    """max(e_j, 0): positions do not compete, and many weights are exactly 0.

    The paper normalises the context instead of the weights: take the gate `rms_norm` with it.

    Paper: Zhang, Titov and Sennrich 2021, section 3, equation 4 (ReLA).
    Cost: time T S, memory T S.
    Sum: any.
    """

    def weights(
        self, p: Any, scores: Float[Array, " S"], mask: Bool[Array, " S"], past: Past
    ) -> Float[Array, " S"]:
        return jnp.where(mask, jax.nn.relu(scores), 0)


class Smoothing(Normalizer):
    """σ(e_j) / Σ_k σ(e_k): flatter than softmax, so that several positions are read at once.

    Paper: Chorowski et al. 2015, section 2.3, equation 12 (smoothing).
    Cost: time T S, memory T S.
    Sum: 1.
    """

    sums_to_one = True

    def weights(
        self, p: Any, scores: Float[Array, " S"], mask: Bool[Array, " S"], past: Past
    ) -> Float[Array, " S"]:
        return jax.nn.softmax(jax.nn.log_sigmoid(scores), where=mask)


class Annealed(Normalizer):
    """exp(e_j / τ) / Σ_k exp(e_k / τ), τ from `first` to `last` over `steps` training steps.

    τ moves in equal factors, and then stays. In use it is that of the checkpoint.

    Paper: none introduces it; Jang, Gu and Poole 2017, section 2.2, anneal τ in this way.
    Cost: time T S, memory T S.
    Sum: 1.
    """

    sums_to_one = True

    first: float = setting(2.0, above=0)
    last: float = setting(0.5, above=0)
    steps: int = setting(10_000, low=1)
    reads = ("train_step",)

    def weights(
        self, p: Any, scores: Float[Array, " S"], mask: Bool[Array, " S"], past: Past
    ) -> Float[Array, " S"]:
        done = jnp.minimum(past.train_step / self.steps, 1)
        tau = self.first * (self.last / self.first) ** done
        return tempered(scores, mask, tau)


class ScalableSoftmax(Normalizer):
    """softmax of s log(n) e_j, n the number of positions: sharper in longer sentences.

    With softmax, the largest weight falls as a sentence grows. s is learned, at first `scale`.

    Paper: Nakanishi 2025, section 2, equation 3 (SSMax).
    Cost: time T S, memory T S.
    Sum: 1.
    """

    sums_to_one = True

    scale: float = setting(0.43, above=0)

    def init(self, rng: Array, Q: int, D: int) -> dict[str, Array]:
        return {"s": jnp.full((), self.scale)}

    def weights(
        self, p: Any, scores: Float[Array, " S"], mask: Bool[Array, " S"], past: Past
    ) -> Float[Array, " S"]:
        count = jnp.maximum(mask.sum(), 1).astype(scores.dtype)
        above = scores - highest(scores, mask)
        return jax.nn.softmax(p["s"] * jnp.log(count) * above, where=mask)


class IntraTemporal(Normalizer):
    """e'_ij / Σ_k e'_ik, e'_ij = exp(e_ij) / Σ_{l<i} exp(e_lj); at the first step, exp(e_1j).

    What had high scores in earlier steps gets less weight. Its state is the logarithm of the sum
    over earlier steps.

    Paper: Paulus, Xiong and Socher 2018, section 2.1, equations 3 and 4; Sankaran et al. 2016.
    Cost: time T S, memory T S.
    Sum: 1.
    """

    sums_to_one = True

    def start(self, p: Any, mask: Bool[Array, " S"]) -> tuple[Array, Array]:
        nothing = jnp.full(mask.shape, NOTHING)
        return nothing, nothing

    def advance(
        self, p: Any, scores: Float[Array, " S"], mask: Bool[Array, " S"], past: Past
    ) -> tuple[Array, Array]:
        _, total = past.own  # of the steps before this one, and of those with it
        with_this = jnp.logaddexp(total, scores.astype(total.dtype))
        return total, jnp.where(mask, with_this, total)

    def weights(
        self, p: Any, scores: Float[Array, " S"], mask: Bool[Array, " S"], past: Past
    ) -> Float[Array, " S"]:
        before, _ = past.own
        less = jnp.where(before > NOTHING, before, 0).astype(scores.dtype)
        return jax.nn.softmax(scores - less, where=mask)


class Selective(Normalizer):
    """softmax(e_ij - Σ_{k<i} max(e_kj, 0)): what was asked for is asked for less.

    In the paper, self-attention, the scores of one head are what all heads are masked by, and a
    word masks others but itself. Here it is each head's own, and source words are masked.

    Paper: Leviathan, Kalman and Matias 2025, section 3, equations 4 and 5.
    Cost: time T S, memory T S.
    Sum: 1.
    """

    sums_to_one = True

    def start(self, p: Any, mask: Bool[Array, " S"]) -> tuple[Array, Array]:
        return jnp.zeros(mask.shape), jnp.zeros(mask.shape)

    def advance(
        self, p: Any, scores: Float[Array, " S"], mask: Bool[Array, " S"], past: Past
    ) -> tuple[Array, Array]:
        _, total = past.own  # of the steps before this one, and of those with it
        return total, total + jnp.where(mask, jax.nn.relu(scores), 0).astype(total.dtype)

    def weights(
        self, p: Any, scores: Float[Array, " S"], mask: Bool[Array, " S"], past: Past
    ) -> Float[Array, " S"]:
        before, _ = past.own
        return jax.nn.softmax(scores - before.astype(scores.dtype), where=mask)


class StickBreaking(Normalizer):
    """β_j Π_{k<j} (1 - β_k), β_j = σ(e_j): each position takes a share of what is left.

    In the paper, self-attention, sticks are broken from the last word back. Here it is from the
    first word on, so that earlier words come first where several match.

    Paper: Tan et al. 2025, section 3, equation 2.
    Cost: time T S, memory T S.
    Sum: at most 1.
    """

    positional = True

    def weights(
        self, p: Any, scores: Float[Array, " S"], mask: Bool[Array, " S"], past: Past
    ) -> Float[Array, " S"]:
        passed = jnp.where(mask, jax.nn.log_sigmoid(-scores), 0)
        before = jnp.pad(jnp.cumsum(passed)[:-1], (1, 0))
        return jnp.where(mask, jnp.exp(jax.nn.log_sigmoid(scores) + before), 0)


class Gumbel(Normalizer):
    """softmax((e_j + g_j) / τ) in training, with Gumbel noise g; in use, softmax(e_j / τ).

    Weights close to those of a position that is drawn by its probability, with a derivative.

    Paper: Jang, Gu and Poole 2017, section 2, equation 2; Maddison, Mnih and Teh 2017.
    Cost: time T S, memory T S.
    Sum: 1.
    """

    sums_to_one = True

    tau: float = setting(1.0, above=0)

    def weights(
        self, p: Any, scores: Float[Array, " S"], mask: Bool[Array, " S"], past: Past
    ) -> Float[Array, " S"]:
        if past.rng is not None:
            scores = scores + jax.random.gumbel(past.rng, scores.shape, scores.dtype)
        return tempered(scores, mask, self.tau)


class StraightThrough(Gumbel):
    """1 at the position with the largest weight of `gumbel`, with the derivative of these weights.

    Paper: Jang, Gu and Poole 2017, section 2.2 (straight-through); for inflection, Girrbach 2023.
    Cost: time T S, memory T S.
    Sum: 1.
    """

    surrogate = True

    def weights(
        self, p: Any, scores: Float[Array, " S"], mask: Bool[Array, " S"], past: Past
    ) -> Float[Array, " S"]:
        soft = super().weights(p, scores, mask, past)
        hard = (jnp.arange(soft.size) == jnp.argmax(soft)) & mask
        return soft + jax.lax.stop_gradient(hard - soft)


class Segments(Normalizer):
    """p(z_j = 1): whether position j is read, in a chain z in which neighbours go together.

    log p(z) ∝ Σ_j e_j z_j + Σ_j t(z_{j-1}, z_j), with the four numbers t learned: a linear-chain
    conditional random field, whose marginals the forward-backward algorithm finds.

    Paper: Kim, Denton, Hoang and Rush 2017, section 3.1 (segmentation attention).
    Cost: time T S, in log S parallel steps; memory T S.
    Sum: any.
    """

    positional = True

    def init(self, rng: Array, Q: int, D: int) -> dict[str, Array]:
        return {"t": jnp.zeros((2, 2))}

    def weights(
        self, p: Any, scores: Float[Array, " S"], mask: Bool[Array, " S"], past: Past
    ) -> Float[Array, " S"]:
        # Numbers beyond these bounds choose for certain, and their sums would overflow.
        bounded = jnp.clip(scores, -1e15, 1e15)
        unary = jnp.stack([jnp.zeros_like(bounded), bounded], axis=1)[:, None]
        first = jnp.cumsum(mask) == 1  # which has no position before it
        moves = jnp.where(first[:, None, None], 0, p["t"].astype(scores.dtype))
        # Padding is passed: its matrix is the identity, in logarithms.
        passed = jnp.where(jnp.eye(2, dtype=bool), 0, NOTHING).astype(scores.dtype)
        matrices = jnp.where(mask[:, None, None], moves + unary, passed)
        forward = jax.lax.associative_scan(log_products, matrices)[:, 0]
        behind = jax.lax.associative_scan(
            lambda later, one: log_products(one, later), matrices, reverse=True
        )
        backward = jnp.pad(jax.nn.logsumexp(behind, axis=2)[1:], ((0, 1), (0, 0)))
        return jnp.where(mask, jax.nn.softmax(forward + backward, axis=1)[:, 1], 0)


def log_products(one: Float[Array, "*S 2 2"], other: Float[Array, "*S 2 2"]) -> Array:
    """Products of matrices in logarithms, but for a factor: the largest number is 1."""
    product = jax.nn.logsumexp(one[..., :, :, None] + other[..., None, :, :], axis=-2)
    return product - jax.lax.stop_gradient(product.max(axis=(-2, -1), keepdims=True))


def tempered(
    scores: Float[Array, " S"], mask: Bool[Array, " S"], tau: Float[Array, ""] | float
) -> Float[Array, " S"]:
    """exp(e_j / τ) / Σ_k exp(e_k / τ)."""
    # The highest score is subtracted first, since scores over a small τ may overflow.
    return jax.nn.softmax((scores - highest(scores, mask)) / tau, where=mask)


def highest(scores: Float[Array, " S"], mask: Bool[Array, " S"]) -> Float[Array, ""]:
    """The largest score where the mask is True, as a constant, by which scores can be shifted."""
    lowest = jnp.finfo(scores.dtype).min
    return jax.lax.stop_gradient(jnp.max(scores, where=mask, initial=lowest))
