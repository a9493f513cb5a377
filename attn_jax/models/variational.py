"""Hard attention that is trained by a lower bound of the likelihood, and used exactly.

    log p(y | x) ≥ Σ_i E_q[log p(y_i | s_i, h_a)] - KL(q(a_i) ‖ p(a_i | y_<i, x))

with equality where q(a_i) is the posterior p(a_i | y_≤i, x). The model is that of `Marginal`, and
so are its validation, its search and its alignments; only what training maximises is another.

B sentences, S positions, T steps, A features of an annotation.
"""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int, Key

from attn_jax.config import Model
from attn_jax.models.embeddings import Separate
from attn_jax.models.encoders import Bidirectional
from attn_jax.models.linear import Linear
from attn_jax.models.marginal import LOW, Marginal, Steps
from attn_jax.models.protocols import Source
from attn_jax.tokens import PAD

# λ_e / λ_r of Xu et al. 2015, as in their program: 0.002 of the entropy, 1/10 of the reward.
ENTROPY = 0.02


class Bounded(Marginal):
    """What the kinds have in common: the bound in training, the exact sum elsewhere."""

    def noise(
        self, rng: Key[Array, " B"] | None, like: Float[Array, "B *T S"]
    ) -> Float[Array, "B *T S"] | None:
        """Gumbel noise in training: the largest of log q + noise is a sample of q."""
        if rng is None:
            return None

        def of_row(row: Key[Array, ""]) -> Float[Array, "*T S"]:
            # The key itself is that of dropout.
            return jax.random.gumbel(jax.random.fold_in(row, 1), like.shape[1:], like.dtype)

        return jax.vmap(of_row)(rng)

    def _maximised(
        self, words: Separate, target: Int[Array, "B T"], source: Source, steps: Steps
    ) -> Float[Array, " B"]:
        """The bound in training, else log p(y | x)."""
        if steps.noise is None:
            return super()._maximised(words, target, source, steps)
        return self.bound(words, target, source, steps).sum(axis=1, where=target != PAD)

    def bound(
        self, words: Separate, target: Int[Array, "B T"], source: Source, steps: Steps
    ) -> Float[Array, "B T"]:
        """The bound of log p(y_i | y_<i, x)."""
        raise NotImplementedError

    def sampled(
        self,
        log_q: Float[Array, "B T S"],
        words: Separate,
        target: Int[Array, "B T"],
        source: Source,
        steps: Steps,
    ) -> Float[Array, "B T"]:
        """log p(y_i | s_i, h_a) of a position a drawn from q, with the derivatives of E_q.

        REINFORCE: ∂ log p(y_i | s_i, h_a) + (log p(y_i | s_i, h_a) - b_i) ∂ log q(a), with the
        baseline b_i.
        """
        assert steps.noise is not None
        fixed = jax.lax.stop_gradient
        places = jnp.argmax(fixed(log_q) + steps.noise, axis=-1)[..., None]
        read = jnp.take_along_axis(source.projected.features, places, axis=1)
        of_sample = self._of_one(words, target, read, steps)
        reward = fixed(of_sample) - self.baseline(*fixed((words, target, source, steps)))
        of_place = jnp.take_along_axis(log_q, places, axis=-1)[..., 0]
        # The second term is 0: it has a derivative alone.
        return of_sample + reward * (of_place - fixed(of_place))

    def baseline(
        self, words: Separate, target: Int[Array, "B T"], source: Source, steps: Steps
    ) -> Float[Array, "B T"]:
        """log p(y_i | s_i, Σ_j α_ij h_j), of soft attention. Deng et al. 2018, section 4."""
        weights, positions = jnp.exp(steps.log_weights), source.projected.features
        mean = jnp.einsum("BTS,BSF->BTF", weights, positions)
        return self._of_one(words, target, mean, steps)


class Reinforce(Bounded):
    """Σ_i log p(y_i | s_i, h_a) + λ_e H(α_i), a ~ α_i: one sample, trained by REINFORCE.

    The bound whose q is the prior α itself. In the paper's decoder, the states depend on earlier
    positions, and so the reward of a position is the log-probability of the whole sentence; here
    it is that of the word alone, which the others do not change in the mean. The paper leaves
    λ_r and λ_e to cross-validation: here λ_r = 1, so that the derivatives are those of the bound,
    and λ_e = 0.02. Its baseline is a moving average; here it is soft attention's likelihood, of
    Deng et al. 2018, section 4. It reads Σ_j α_ij h_j for half of the sentences, which is left out.

    Paper: Xu et al. 2015, section 4.1, and its program, arctic-captions; Deng et al. 2018.
    Cost: in training twice the output layer, of which one without a derivative; in use S times.
    """

    def bound(
        self, words: Separate, target: Int[Array, "B T"], source: Source, steps: Steps
    ) -> Float[Array, "B T"]:
        """The sampled log-likelihood, and the entropy of the prior."""
        of_words = self.sampled(steps.log_weights, words, target, source, steps)
        return of_words + ENTROPY * entropy(steps.log_weights)


class Variational(Bounded):
    """E_q[log p(y_i | s_i, h_a)] - KL(q(a_i | x, y) ‖ α_i): variational attention, enumerated.

    q(a_i = j | x, y) ∝ exp(t_i · W h_j), where t_1 … t_T are a bidirectional recurrent network of
    its own over the vectors of all target words. The paper's program has another such network over
    the source: here q reads h_j, the decoder's. q is 0 where α is 0, and has no dropout. The states
    are not fed with Σ_j α_ij h_j, as in the paper: see `over_positions`.

    Paper: Deng et al. 2018, section 4, and its program, var-attn.
    Cost: S times the output layer, which training computes twice; the network only in training.
    """

    options = frozenset({"cell", "annotation_size", "embedding_size"})

    def __init__(self, config: Model, inputs: int, *, rngs: nnx.Rngs):
        super().__init__(config, inputs, rngs=rngs)
        size = config.annotation_size
        _, read = config.values.sizes(size, config.embedding_size)
        self.network = Bidirectional(config, config.embedding_size, rngs=rngs)
        self.compared = Linear(read, size, use_bias=False, rngs=rngs)

    def of_positions(self, contexts: Float[Array, "B S O"]) -> Float[Array, "B S A"]:
        """W h_j."""
        return self.compared(contexts)

    def log_q(
        self, words: Separate, target: Int[Array, "B T"], source: Source, steps: Steps
    ) -> Float[Array, "B T S"]:
        """log q(a_i = j | x, y), `LOW` where it is 0."""
        seen, _ = self.network(words.target_vectors(target), target != PAD, None)
        scores = jnp.einsum("BTA,BSA->BTS", seen, source.projected.own)
        possible = steps.log_weights > LOW / 2
        scores = jnp.where(possible, scores, LOW)
        return jnp.where(possible, jax.nn.log_softmax(scores), LOW)

    def bound(
        self, words: Separate, target: Int[Array, "B T"], source: Source, steps: Steps
    ) -> Float[Array, "B T"]:
        """The evidence lower bound."""
        log_q = self.log_q(words, target, source, steps)
        of_words = self.expected(log_q, words, target, source, steps)
        return of_words - divergence(log_q, steps.log_weights)

    def expected(
        self,
        log_q: Float[Array, "B T S"],
        words: Separate,
        target: Int[Array, "B T"],
        source: Source,
        steps: Steps,
    ) -> Float[Array, "B T"]:
        """E_q[log p(y_i | s_i, h_a)], over all positions."""
        return (jnp.exp(log_q) * self._likelihoods(words, target, source, steps)).sum(axis=-1)


class VariationalSampled(Variational):
    """log p(y_i | s_i, h_a) - KL(q(a_i | x, y) ‖ α_i), a ~ q: variational attention, one sample.

    q is that of `variational`, and trained by REINFORCE with soft attention as the baseline. The
    divergence is computed over all positions, as in the paper's program.

    Paper: Deng et al. 2018, section 4, and its program, var-attn.
    Cost: in training twice the output layer, of which one without a derivative; in use S times.
    """

    expected = Bounded.sampled


def entropy(log_p: Float[Array, "*any S"]) -> Float[Array, "*any"]:
    """-Σ_j p_j log p_j."""
    return -(jnp.exp(log_p) * log_p).sum(axis=-1)


def divergence(
    log_q: Float[Array, "*any S"], log_p: Float[Array, "*any S"]
) -> Float[Array, "*any"]:
    """KL(q ‖ p) = Σ_j q_j (log q_j - log p_j)."""
    return (jnp.exp(log_q) * (log_q - log_p)).sum(axis=-1)
