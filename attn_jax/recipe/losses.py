"""Losses of where attention goes: how often, how far away, how sharply, which heads."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from attn_jax.attention.head_names import All, Heads, MeanHead
from attn_jax.errors import InputError
from attn_jax.recipe.loss import Loss, Seen, logarithm, several, shares
from attn_jax.recipe.monotonic_losses import DelayVariance, ForwardSum, Latency, Monotonicity
from attn_jax.settings.value import setting


class Coverage(Loss):
    """Σ_i Σ_j min(α_ij, Σ_{k<i} α_kj): repeated attention.

    See, Liu and Manning 2017, section 2.3, equations 10 to 12.
    """

    def loss(self, seen: Seen) -> Float[Array, ""]:
        covered = jnp.cumsum(seen.weights, axis=0) - seen.weights
        return jnp.minimum(seen.weights, covered).sum()


class Guided(Loss):
    """-Σ_i Σ_j A_ij log α_ij: the cross-entropy of the weights with known links A.

    Chen, Matusov, Khadivi and Peter 2016, section 3. Weights of a token with a sum of more than 1,
    which some normalizers give, are rescaled to a sum of 1, since otherwise larger weights would
    always lower the loss. Each is then raised to at least 1e-30, since sparse weights may be zero
    where there is a link.
    """

    needs_links = True

    head: Heads = MeanHead()

    def loss(self, seen: Seen) -> Float[Array, ""]:
        return -(seen.links * logarithm(shares(seen.weights))).sum()


class Diagonal(Loss):
    """Σ_i 1/S Σ_j α_ij (1 - exp(-(j/S - i/T)² / 2g²)): attention far from the diagonal.

    Tachibana, Uenoyama and Aihara 2017, section 4.1, where the source is n of N, the target t of T.

    Attributes:
      width: g, how far from the diagonal costs little, as a share of the sentences.
    """

    width: float = setting(0.2, above=0)

    def loss(self, seen: Seen) -> Float[Array, ""]:
        S, T = seen.lengths
        i, j = (1 + jnp.arange(size) for size in seen.weights.shape)
        distance = j / S - i[:, None] / T
        away = 1 - jnp.exp(-jnp.square(distance) / (2 * self.width**2))
        return (seen.weights * away).sum() / S


class Entropy(Loss):
    """-Σ_i Σ_j α_ij log α_ij, in nats: attention to many positions at once."""

    def loss(self, seen: Seen) -> Float[Array, ""]:
        # The derivative of α log α is infinite at 0, where a position has been excluded.
        logarithms = jnp.log(jnp.where(seen.weights > 0, seen.weights, 1))
        return -(seen.weights * logarithms).sum()


class DoublyStochastic(Loss):
    """Σ_j (1 - Σ_i α_ij)²: each source position should get a weight of 1 over all steps.

    Xu et al. 2015, section 4.2.1, equation 14.
    """

    def loss(self, seen: Seen) -> Float[Array, ""]:
        received = seen.weights.sum(axis=0)
        return jnp.square(1 - received).sum(where=seen.source_mask)


class Disagreement(Loss):
    """1/N² Σ_n Σ_m Σ_i Σ_j α_nij α_mij: heads that attend to the same positions.

    For each layer of N heads, of which the mean is taken. It is minus the paper's disagreement on
    attended positions, |Aⁿ ∘ Aᵐ|, with the sum of the elements for |·|, which it leaves open. As
    there, n = m is included, so that a sharp head costs too. Its disagreements on subspaces and on
    outputs are of values and contexts, which a loss does not see.

    Li, Tu, Yang, Lyu and Zhang 2018, the disagreement on attended positions.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.head != All():
            raise InputError(f"{self.name} compares the heads of each layer: leave out head")

    def over_heads(self, seen: Seen) -> Float[Array, ""]:
        several(self, seen.weights.shape[1])
        # Σ_n Σ_m α_n α_m is the square of Σ_n α_n.
        overlaps = jnp.square(seen.weights.mean(axis=1)).sum(axis=(1, 2))
        return overlaps.mean()


LOSSES: dict[str, type[Loss]] = {
    one.name: one
    for one in (
        *(Coverage, Guided, Diagonal, Entropy, DoublyStochastic, Disagreement),
        *(Monotonicity, ForwardSum, Latency, DelayVariance),
    )
}
