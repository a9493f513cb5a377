"""Word vectors of source and target and the output layer, which can share tables.

The tables belong to one module so that a shared one is held, trained and stored only once. They are
indexed here, since a call of `nnx.Embed` would return the dtype that it was constructed with.
"""

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from attn_jax.config import Model
from attn_jax.errors import InputError, choose
from attn_jax.kernels.forms import FAST


class Separate(nnx.Module):
    """A table of source words, one of target words, and an output layer.

    Args:
      config: its sizes.
      source_size: words in the source vocabulary.
      target_size: V, words in the target vocabulary.
      features: F, what the output layer reads; 0: there is none.
      rngs: for the initial parameters.
    """

    forms = FAST
    output: Any  # a linear layer, or its bias alone where a table is its matrix

    def __init__(
        self, config: Model, source_size: int, target_size: int, features: int, *, rngs: nnx.Rngs
    ):
        self.source_size, self.target_size = source_size, target_size
        size = config.embedding_size
        self.source_words = nnx.Embed(source_size, size, rngs=rngs)
        self.target_words = nnx.Embed(target_size, size, rngs=rngs)
        if features:
            self.output = nnx.Linear(features, target_size, rngs=rngs)

    def source_vectors(self, words: Int[Array, "B S"]) -> Float[Array, "B S E"]:
        """The vectors of source words."""
        return self.source_words.embedding[...][words]

    def target_vectors(self, words: Int[Array, "*any"]) -> Float[Array, "*any E"]:
        """The vectors of target words."""
        return self.target_words.embedding[...][words]

    def output_layer(self) -> tuple[Float[Array, "F V"], Float[Array, " V"]]:
        """The matrix and the bias of the output layer."""
        return self.output.kernel[...], self.output.bias[...]

    def logits(self, features: Float[Array, "*any F"]) -> Float[Array, "*any V"]:
        """The outputs of the output layer, in float32 whatever the precision of products."""
        return self.forms.logits(features, *self.output_layer())

    def log_probabilities(self, features: Float[Array, "*any F"]) -> Float[Array, "*any V"]:
        """The log-probabilities of all words, in nats."""
        return jax.nn.log_softmax(self.logits(features))

    def loss(
        self,
        features: Float[Array, "*any F"],
        targets: Int[Array, "*any"],
        counted: Bool[Array, "*any"],
        label_smoothing: float,
    ) -> Float[Array, ""]:
        """The sum of the cross-entropies of the counted targets, in nats."""
        rows = features.reshape(-1, features.shape[-1]), targets.ravel(), counted.ravel()
        return self.forms.output_loss(*self.output_layer(), *rows, label_smoothing)


class Shared(Separate):
    """One table for source and target words, which have a joint vocabulary.

    Raises:
      InputError: the vocabularies differ in size.
    """

    def __init__(
        self, config: Model, source_size: int, target_size: int, features: int, *, rngs: nnx.Rngs
    ):
        if source_size != target_size:
            raise InputError(
                f"model.embeddings={config.embeddings} needs one vocabulary for both sides, got "
                f"{source_size} source and {target_size} target words"
            )
        super().__init__(config, source_size, target_size, features, rngs=rngs)
        del self.source_words

    def source_vectors(self, words: Int[Array, "B S"]) -> Float[Array, "B S E"]:
        """The vectors of source words, from the table of target words."""
        return self.target_vectors(words)


class Tied(Separate):
    """One table for target words and the output layer, which adds a bias. Press and Wolf 2017.

    Raises:
      InputError: the readout and the word vectors differ in size.
    """

    def __init__(
        self, config: Model, source_size: int, target_size: int, features: int, *, rngs: nnx.Rngs
    ):
        if features != config.embedding_size:
            raise InputError(
                f"model.embeddings={config.embeddings} needs a readout of "
                f"model.embedding_size={config.embedding_size} features, got {features}: make "
                "that model.readout_size, or model.hidden_size where the readout is linear"
            )
        super().__init__(config, source_size, target_size, features, rngs=rngs)
        self.output = nnx.Param(jnp.zeros(target_size, jnp.float32))

    def output_layer(self) -> tuple[Float[Array, "F V"], Float[Array, " V"]]:
        """The matrix of the output layer, from the table of target words, and its bias."""
        return self.target_words.embedding[...].T, self.output[...]


class ThreeWay(Shared, Tied):
    """One table for all three. Press and Wolf 2017; Vaswani et al. 2017, section 3.4."""


EMBEDDINGS: dict[str, type[Separate]] = {
    "separate": Separate,
    "shared": Shared,
    "tied": Tied,
    "three_way": ThreeWay,
}


def make_embeddings(
    config: Model, source_size: int, target_size: int, features: int, *, rngs: nnx.Rngs
) -> Separate:
    """The tables selected by the options."""
    kind = choose(EMBEDDINGS, config.embeddings, "kind of embeddings")
    return kind(config, source_size, target_size, features, rngs=rngs)
