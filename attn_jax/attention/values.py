"""Values: what is summed, where that is not the annotations themselves."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from attn_jax.attention.protocol import Values, scaled_normal
from attn_jax.errors import InputError


class Annotations(Values):
    """h_j.

    Paper: Bahdanau, Cho and Bengio 2014, section 3.1, equation 5.
    Cost: none.
    """


class Embeddings(Values):
    """x_j, the word vectors.

    Queries are compared with annotations, which know their neighbours; what is summed knows the
    words alone. These are the syntactic keys and the semantic values of the paper. There, Σ α_j h_j
    drives the decoder, and words are predicted from Σ α_j x_j alone: that is the decoder
    `syntactic`. Here, a decoder uses Σ α_j x_j for both.

    Paper: Russin, Jo, O'Reilly and Bengio 2019, section 3.
    Cost: none.
    """

    reads_embeddings = True

    def values(
        self, p: Any, annotations: Float[Array, "S D"], embeddings: Array | None, mask: Array
    ) -> Float[Array, "S E"]:
        return words(self, embeddings)


class Sum(Values):
    """√S (h_j + x_j), S the length of the sentence; where their sizes differ, √S (W h_j + x_j).

    The scale makes up for the variance that a mean over S positions loses. The paper maps the
    outputs of its encoder to the size of word vectors too, and compares what it has mapped; here
    h_j itself is compared. Its word vectors include positions; here they do not. Its queries add
    the vector of the previous word to a map of the state (equation 1), and are compared by dot
    products in each layer of a convolutional decoder; here, decoder and score are any. There, the
    gradient of the encoder is divided by the number of these layers. Its program also scales
    h_j + x_j by √½, which the paper says of residual sums alone, and its S counts padding.

    Paper: Gehring et al. 2017, section 3.3, equation 2, and section 3.4.
    Cost: time S D E, memory S E.
    """

    reads_embeddings = True

    def init(self, rng: Array, D: int, E: int) -> dict[str, Array]:
        return {} if D == E else {"W": scaled_normal(rng, (D, E))}

    def values(
        self, p: Any, annotations: Float[Array, "S D"], embeddings: Array | None, mask: Array
    ) -> Float[Array, "S E"]:
        scale = jnp.sqrt(mask.sum().astype(annotations.dtype))
        return scale * ((annotations @ p["W"] if p else annotations) + words(self, embeddings))


class KeyValue(Values):
    """v_j where [k_j; v_j] = h_j: half of an annotation is compared, the other half summed.

    Every other feature belongs to the key, so that both directions of a bidirectional encoder have
    a share in keys and in values.

    The paper's language model attends to its own earlier outputs. Of an output, k_t is also the
    query, and v_t, or a third part p_t (key-value-predict), is what the next word is predicted from
    beside the context. The encoder's h_j has no such part, since the decoder predicts: here, its
    whole state is the query, and its whole state is read to predict.

    Paper: Daniluk, Rocktäschel, Welbl and Riedel 2017, section 3.1, equations 5 to 8.
    Cost: none.

    Raises:
      InputError: the number of features of an annotation is odd.
    """

    def init(self, rng: Array, D: int, E: int) -> dict[str, Array]:
        if D % 2:
            raise InputError(
                f"{self.word} makes a key and a value of the halves of an annotation, whose "
                f"features must be even in number, got {D}"
            )
        return {}

    def compared(self, p: Any, annotations: Float[Array, "S D"]) -> Float[Array, "S K"]:
        return annotations[:, ::2]

    def values(
        self, p: Any, annotations: Float[Array, "S D"], embeddings: Array | None, mask: Array
    ) -> Float[Array, "S C"]:
        return annotations[:, 1::2]


def words(values: Values, embeddings: Float[Array, "S E"] | None) -> Float[Array, "S E"]:
    """The word vectors.

    Raises:
      InputError: they were not handed on.
    """
    if embeddings is None:
        raise InputError(f"the values {values.word} are made of word vectors: give `embeddings`")
    return embeddings
