"""Readouts: from the vectors of a decoder step to the features that the output layer reads."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from attn_jax.config import Model
from attn_jax.models.copying import (
    Copying,
    OneSoftmax,
    Pointer,
    PointerGenerator,
    of_first,
    refuse_mixed_sources,
)
from attn_jax.models.edits import Edits, EditsOracle
from attn_jax.models.embeddings import Separate
from attn_jax.models.linear import Linear
from attn_jax.models.marginal import Marginal
from attn_jax.models.posterior import Posterior, PosteriorMonotonic, PosteriorProximity
from attn_jax.models.protocols import Source
from attn_jax.models.transitions import (
    FirstOrder,
    MonotonicFirstOrder,
    MonotonicHMM,
    MonotonicMarginal,
    SegmentToSegment,
)
from attn_jax.models.variational import Reinforce, Variational, VariationalSampled
from attn_jax.settings.grammar import choose_or_import
from attn_jax.tokens import PAD


class FromFeatures(nnx.Module):
    """What readouts have in common whose result is all that the output layer reads.

    See `protocols.Readout`. The weights of attention stay as they are, and nothing is carried from
    step to step.
    """

    reads_weights = True
    copies = False
    positional = False

    def start(self, source: Source) -> tuple[()]:
        """Nothing is carried."""
        return ()

    def step(
        self,
        words: Separate,
        carried: tuple[()],
        word: Int[Array, " B"],
        source: Source,
        steps: Float[Array, "B F"],
        weights: Float[Array, "B L N S"],
    ) -> tuple[tuple[()], Float[Array, "B V"], Float[Array, "B L N S"]]:
        """The log-probabilities of the next word."""
        steps, weights = self.read(words, word, source, steps, weights)
        return carried, self.log_probabilities(words, source, steps), weights

    def read(
        self,
        words: Separate,
        target: Int[Array, " B *T"],
        source: Source,
        steps: Float[Array, "B *T F"],
        weights: Float[Array, "B L N *T S"],
    ) -> tuple[Float[Array, "B *T F"], Float[Array, "B L N *T S"]]:
        """The features and the weights."""
        return steps, weights

    def log_probabilities(
        self, words: Separate, source: Source, steps: Float[Array, "B *T F"]
    ) -> Float[Array, "B *T V"]:
        """The log-probabilities of all words, in nats."""
        return words.log_probabilities(steps)

    def loss(
        self,
        words: Separate,
        target: Int[Array, "B T"],
        source: Source,
        steps: Float[Array, "B T F"],
        label_smoothing: float,
    ) -> Float[Array, ""]:
        """The sum of the cross-entropies of the target tokens, in nats."""
        return words.loss(steps, target, target != PAD, label_smoothing)


class Maxout(FromFeatures):
    """Deep output: the elementwise maximum of two linear maps.

    Bahdanau, Cho and Bengio 2014, appendix A.2.2; Goodfellow et al. 2013.
    """

    options = frozenset({"readout_size"})

    def __init__(self, config: Model, inputs: int, *, rngs: nnx.Rngs):
        self.size = config.readout_size
        self.linear = Linear(inputs, 2 * self.size, rngs=rngs)

    def __call__(self, *inputs: Float[Array, "..."]) -> Float[Array, "... F"]:
        """The features, from the concatenated inputs."""
        return jnp.maximum(*jnp.split(self.linear(jnp.concatenate(inputs, axis=-1)), 2, axis=-1))


class Concatenated(FromFeatures):
    """The concatenated inputs, so that the readout is linear: the output layer alone."""

    options: frozenset[str] = frozenset()

    def __init__(self, config: Model, inputs: int, *, rngs: nnx.Rngs):
        self.size = inputs

    def __call__(self, *inputs: Float[Array, "..."]) -> Float[Array, "... F"]:
        """The features: the concatenated inputs."""
        return jnp.concatenate(inputs, axis=-1)


class Lexical(Concatenated):
    """W^o h̃ + b^o + W^ℓ h^ℓ + b^ℓ, with h^ℓ a translation of the words that are attended to.

    f^ℓ = tanh(Σ_j α_j f_j) and h^ℓ = tanh(W f^ℓ) + f^ℓ, with the vector f_j of word j. Here h̃ are
    the inputs of the readout.

    Paper: Nguyen and Chiang 2018, section 4.
    Cost: time T (S E + E² + E V).
    """

    def __init__(self, config: Model, inputs: int, *, rngs: nnx.Rngs):
        refuse_mixed_sources(config)
        self.size = inputs + config.embedding_size
        self.words = Linear(config.embedding_size, config.embedding_size, use_bias=False, rngs=rngs)

    def read(
        self,
        words: Separate,
        target: Int[Array, " B *T"],
        source: Source,
        steps: Float[Array, "B *T I"],
        weights: Float[Array, "B L N *T S"],
    ) -> tuple[Float[Array, "B *T F"], Float[Array, "B L N *T S"]]:
        vectors, *_ = jax.tree.leaves(source.vectors)
        attended = jnp.einsum("b...s,bse->b...e", of_first(weights, source), vectors)
        lexical = jnp.tanh(attended)
        lexical = jnp.tanh(self.words(lexical)) + lexical
        return jnp.concatenate([steps, lexical], axis=-1), weights


Readout = Maxout | Concatenated | Copying | Marginal

# Those that read the words of the source, besides annotations.
OVER_WORDS: dict[str, type[Lexical] | type[Copying] | type[Edits]] = {
    "lexical": Lexical,
    "pointer": Pointer,
    "pointer_generator": PointerGenerator,
    "copynet": OneSoftmax,
    "edits": Edits,
    "edits_oracle": EditsOracle,
}
# Those that sum over the positions that a step may attend to.
OVER_POSITIONS: dict[str, type[Marginal]] = {
    "marginal": Marginal,
    "monotonic_marginal": MonotonicMarginal,
    "first_order": FirstOrder,
    "monotonic_first_order": MonotonicFirstOrder,
    "monotonic_hmm": MonotonicHMM,
    "ssnt": SegmentToSegment,
    "reinforce": Reinforce,
    "variational": Variational,
    "variational_sampled": VariationalSampled,
    "posterior": Posterior,
    "posterior_proximity": PosteriorProximity,
    "posterior_monotonic": PosteriorMonotonic,
}
READOUTS: dict[str, type[Readout]] = {
    "maxout": Maxout,
    "linear": Concatenated,
    **OVER_WORDS,
    **OVER_POSITIONS,
}


def find_readout(config: Model, usual: str) -> type[Readout]:
    """The class of the readout selected by the options; `usual` is what `auto` stands for."""
    name = usual if config.readout == "auto" else config.readout
    return choose_or_import(READOUTS, name, "readout")


def make_readout(config: Model, inputs: int, usual: str, *, rngs: nnx.Rngs) -> Any:
    """The readout selected by the options; `usual` is what `auto` stands for."""
    return find_readout(config, usual)(config, inputs, rngs=rngs)
