"""Hard attention whose next state reads the posterior of the position that a word came from.

    p(y_i | y_<i, x) = Σ_j p(a_i = j | y_<i, x) p(y_i | s_i, h_j)
    p(a_i = j | y_≤i, x) ∝ p(a_i = j | y_<i, x) p(y_i | s_i, h_j)
    s_{i+1} = f(s_i, [y_i; c_i]),  c_i = Σ_j p(a_i = j | y_≤i, x) h_j

The decoder is `fed_with_posterior.FedWithPosterior`. The probability of a word is that of
`Marginal`, from the prior and the states that the decoder has computed.

B sentences, S positions, T steps, F features that the output layer reads.
"""

import abc

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from attn_jax.config import Model
from attn_jax.models.embeddings import Separate
from attn_jax.models.hidden_markov import forward
from attn_jax.models.marginal import LOW, Marginal, Over, Steps, total
from attn_jax.models.protocols import Source


class Posterior(Marginal):
    """s_{i+1} = f(s_i, [y_i; c_i]), c_i = Σ_j p(a_i = j | y_≤i, x) h_j: fed with the posterior.

    The paper's Postr-Joint: the prior is α_ij, from the scores of s_i. It leaves open c_0, which is
    0 here, and how a position is read: as in `marginal`. Where it sums over the 6 positions with
    the largest prior, and mixes the posterior with the prior in equal parts since it then is too
    sparse, all positions are summed here, and the posterior is that of Bayes' rule.

    Paper: Shankar and Sarawagi 2019, section 2.2, equations 3, 5 and 11 to 13; read as submitted.
    Cost: S times the output layer, which training computes twice, one step after another.
    """

    asks_before = False  # whether attention compares s_{i-1} in place of s_i

    def of_positions(self, contexts: Float[Array, "B S O"]) -> Float[Array, "B S O"]:
        """h_j, which the next state reads."""
        return contexts

    def posterior(
        self, words: Separate, word: Int[Array, " B"], source: Source, steps: Steps
    ) -> Float[Array, "B S"]:
        """log p(a_i = j | y_≤i, x) of one step, from its word y_i; `LOW` before the first step."""

        @self.forms.recomputed
        def likelihoods(words: Separate, read: Array, steps: Steps, word: Array) -> Array:
            return self._of_known(words, read, steps, word)

        joint = steps.log_prior + likelihoods(words, source.projected.features, steps, word)
        return jnp.where(steps.log_prior > LOW / 2, jax.nn.log_softmax(joint), LOW)

    def prior(
        self, log_posterior: Float[Array, "B S"], log_weights: Float[Array, "B S"]
    ) -> Float[Array, "B S"]:
        """log p(a_i = k | y_<i, x), from the posterior of step i-1: log α_ik."""
        return log_weights

    def normalized(self, words: Separate, source: Source, steps: Steps) -> Steps:
        """One step with the logarithms of the sums over all words, of each position."""

        @self.forms.recomputed
        def normalizers(words: Separate, read: Array, steps: Steps) -> Array:
            # As `log_probabilities` has them, so that a step in use computes them once.
            now = jax.tree.map(lambda leaf: leaf[:, None], steps)
            return jax.nn.logsumexp(self._logits(words, read[:, None], now), axis=-1)[:, 0]

        features = source.projected.features
        return steps._replace(normalizers=normalizers(words, features, steps))

    def _of_known(
        self,
        words: Separate,
        read: Float[Array, "B *_ P F"],
        steps: Steps,
        target: Int[Array, " B *T"],
    ) -> Float[Array, "B *T P"]:
        """log p(y_i | s_i, h_j) of known words, from the normalizers that the decoder has found."""
        assert steps.normalizers is not None
        matrix, bias = words.output_layer()
        features = jnp.tanh(read + steps.of_states[..., None, :]) * steps.kept[..., None, :]
        of_words = jnp.einsum("...PF,...F->...P", features, matrix.T[target])
        return of_words + bias[target][..., None] - steps.normalizers


class Coupled(Posterior):
    """What the kinds have in common whose prior is coupled with the posterior of the last step.

    p(a_i = k | y_<i, x) = Σ_j p(a_{i-1} = j | y_<i, x) softmax_k(e_ik + κ(k - j))

    With e_ik from s_{i-1}, as in the paper's equation 6. It leaves open the first step, where κ is
    0 here. Given the words, positions are a hidden Markov model.
    """

    positional = True
    asks_before = True

    @abc.abstractmethod
    def energies(self, shift: Int[Array, "S S"]) -> Float[Array, "S S"]:
        """κ, of moves by k - j."""

    def transitions(self, log_weights: Float[Array, "B S"]) -> Float[Array, "B S S"]:
        """log p(a_i = k | a_{i-1} = j) of each j over k."""
        places = jnp.arange(log_weights.shape[-1])
        possible = (log_weights > LOW / 2)[:, None]
        scores = log_weights[:, None] + self.energies(places - places[:, None])
        return jnp.where(possible, jax.nn.log_softmax(jnp.where(possible, scores, LOW)), LOW)

    def prior(
        self, log_posterior: Float[Array, "B S"], log_weights: Float[Array, "B S"]
    ) -> Float[Array, "B S"]:
        """log p(a_i = k | y_<i, x), from the posterior of step i-1."""
        is_first = (log_posterior < LOW / 2).all(axis=-1, keepdims=True)
        coupled = total(log_posterior[..., None] + self.transitions(log_weights), 1)
        return jnp.where(is_first, log_weights, coupled)

    def _joint(
        self,
        likelihoods: Float[Array, "B T S"],
        source: Source,
        steps: Steps,
        real: Bool[Array, "B T"],
        over: Over,
    ) -> Float[Array, " B"]:
        def transitions(known: tuple) -> Float[Array, "B S S"]:
            log_weights, is_first = known
            return jnp.where(is_first, log_weights[:, None], self.transitions(log_weights))

        is_first = jnp.broadcast_to(jnp.arange(real.shape[1]) == 0, real.shape)[..., None, None]
        known = steps.log_weights, is_first
        together, _ = forward(likelihoods, known, transitions, real, over, self.forms.recomputed)
        return together


class PosteriorProximity(Coupled):
    """κ(k-j) = 1{|k-j| < 3} δ_{k-j}: fed with the posterior, and coupled with near positions.

    The paper's Prox-Postr-Joint. The δ are 0 at first, which the paper leaves open.

    Paper: Shankar and Sarawagi 2019, section 2.2.1, equation 6.
    Cost: that of `posterior`; T S² for the coupling.
    """

    def __init__(self, config: Model, inputs: int, *, rngs: nnx.Rngs):
        super().__init__(config, inputs, rngs=rngs)
        self.delta = nnx.Param(jnp.zeros(5, jnp.float32))  # of moves by -2 ... 2

    def energies(self, shift: Int[Array, "S S"]) -> Float[Array, "S S"]:
        """δ_{k-j}."""
        return jnp.where(abs(shift) < 3, self.delta[...][jnp.clip(shift + 2, 0, 4)], 0)


class PosteriorMonotonic(Coupled):
    """κ(k-j) = 1{k > j} δ^{k-j-1}: fed with the posterior, and coupled with positions ahead.

    The paper's Mono-Postr-Joint, which may also stay or go back. δ is 0.5 at first, which the paper
    leaves open.

    Paper: Shankar and Sarawagi 2019, section 2.2.1, equation 6.
    Cost: that of `posterior`; T S² for the coupling.
    """

    def __init__(self, config: Model, inputs: int, *, rngs: nnx.Rngs):
        super().__init__(config, inputs, rngs=rngs)
        self.delta = nnx.Param(jnp.full((), 0.5, jnp.float32))

    def energies(self, shift: Int[Array, "S S"]) -> Float[Array, "S S"]:
        """δ^{k-j-1}."""
        return jnp.where(shift > 0, self.delta[...] ** jnp.maximum(shift - 1, 0), 0)
