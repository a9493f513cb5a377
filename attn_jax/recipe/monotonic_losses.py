"""Losses of reading from left to right: monotonic alignments, and how late words are read."""

from functools import partial

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from attn_jax.attention.windows import beta_binomial
from attn_jax.recipe.loss import Loss, Seen, logarithm, several, shares
from attn_jax.settings.value import setting


class Monotonicity(Loss):
    """Σ_i max(0, m_i - m_{i+1} + δ S/T) / S, m_i = Σ_j j α_ij: attention that moves back.

    Rios, Amrhein, Aepli and Sennrich 2021, with the loss divided by the source length, as there.

    Attributes:
      margin: δ: with 0, standing still costs nothing; with 1, each step has to go on by S/T, as the
        diagonal does.
    """

    margin: float = setting(0.0, low=0)

    def loss(self, seen: Seen) -> Float[Array, ""]:
        S, T = seen.lengths
        positions = seen.weights @ (1.0 + jnp.arange(seen.weights.shape[1]))
        behind = positions[:-1] - positions[1:] + self.margin * S / T
        return jnp.maximum(behind, 0).sum(where=seen.target_mask[1:]) / S


class ForwardSum(Loss):
    """-log Σ_a Π_i p_i(a_i), over all a that visit every source word, from left to right.

    Each target token belongs to one source word, the same as the last token or the next one, or to
    none. p_i(j) ∝ α_ij π_ij, p_i(none) ∝ exp(-1); π is the prior of the window `diagonal_prior`,
    with the lengths of the pair. So it is the loss of CTC for the labels 1 to S. The paper's sum is
    over words alone; `none`, the blank of CTC, and its score of -1 are those of the authors'
    program, whose π has S trials instead of S - 1. If the target is shorter than the source, no
    alignment exists, and the loss is 0, as there.

    Badlani et al. 2021, the forward-sum loss and the static prior; first in Shih et al. 2021. Their
    source is text, and their target speech.

    Attributes:
      sharpness: ω of π: the larger, the closer to the diagonal. None: no prior.
    """

    sharpness: float | None = setting(1.0, above=0)

    def loss(self, seen: Seen) -> Float[Array, ""]:
        S, T = seen.lengths
        scores, size = logarithm(seen.weights), seen.source.size
        if self.sharpness is not None:
            i = jnp.minimum(1 + jnp.arange(len(scores)), T)
            a, b = self.sharpness * i, self.sharpness * (T - i + 1)
            prior = jax.vmap(partial(beta_binomial, size, S - 1))(a, b)
            scores += jnp.log(jnp.maximum(prior, 1e-8))
        scores = jnp.pad(scores, ((0, 0), (1, 0)), constant_values=-1.0)
        of_target, of_source = (~each[None] * 1.0 for each in (seen.target_mask, seen.source_mask))
        labels = 1 + jnp.arange(size)[None]
        with jax.default_matmul_precision("highest"):  # it selects scores by products with 0 and 1
            found = optax.ctc_loss(scores[None], of_target, labels, of_source)
        return jnp.where(T >= S, found[0], 0)


class Latency(Loss):
    """1/T Σ_i (g'_i - (i - 1) S/T), g'_i = max(g_i, g'_{i-1} + S/T), g'_1 = g_1: reading late.

    Differentiable average lagging. g_i is how many words have been read before target token i, as
    expected by α, the probabilities of stopping at each word: Σ_j j α_ij, and S if reading stops
    nowhere. Of several heads, it is Σ_n g_ni softmax_n(g_ni), so that the latest ones count most.
    The mean over tokens is added to a sum, as in the papers. α are the weights of `monotonic`,
    `mma_h`, `stepwise` or `forward`, and what those of `milk` and `mocha` are spread from.

    Arivazhagan et al. 2019, section 3.2. Several heads: Ma, Pino, Cross, Puzon and Gu 2020, the
    weighted average; their first program takes S where reading stops nowhere.
    """

    def over_heads(self, seen: Seen) -> Float[Array, ""]:
        S, T = seen.lengths
        of_heads = _delays(self, seen)
        g = (of_heads * jax.nn.softmax(of_heads, axis=0)).sum(axis=0)
        oracle = jnp.arange(g.size) * S / T
        # By how much g' exceeds (i - 1) S/T is the largest of what g has so far.
        lagging = jax.lax.cummax(g - oracle)
        return lagging.sum(where=seen.target_mask) / T


class DelayVariance(Loss):
    """1/T Σ_i 1/N Σ_n (g_ni - ḡ_i)², with g_ni as in `latency`: heads that read at different times.

    N are all heads of all layers. The authors' program divides by N - 1.

    Ma, Pino, Cross, Puzon and Gu 2020, the variance of delays.
    """

    def over_heads(self, seen: Seen) -> Float[Array, ""]:
        delays = _delays(self, seen)
        several(self, len(delays))
        _, T = seen.lengths
        return delays.var(axis=0).sum(where=seen.target_mask) / T


def _delays(loss: Loss, seen: Seen) -> Float[Array, "H T"]:
    """How many source words each head has read before a token, as expected: S, if it never stops.

    Larger weights would otherwise always lower it, so that they are taken as shares.
    """
    S, _ = seen.lengths
    stops = shares(loss.chosen(seen.stops))
    left = S - (1.0 + jnp.arange(stops.shape[-1]))
    return S - (stops * left).sum(axis=-1)
