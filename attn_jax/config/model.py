"""The options of a model."""

from dataclasses import dataclass

from attn_jax.attention.catalogue import (
    GATES,
    MIXING,
    NORMALIZERS,
    SCORES,
    SOURCES,
    VALUES,
    WINDOWS,
)
from attn_jax.attention.gates import Ungated
from attn_jax.attention.mechanism import Mechanism
from attn_jax.attention.mixing import Apart
from attn_jax.attention.protocol import Gate, Mixing, Normalizer, Score, Values, Window
from attn_jax.attention.scores import Additive
from attn_jax.attention.sources import One, Sources
from attn_jax.attention.values import Annotations
from attn_jax.attention.windows import Full
from attn_jax.settings.fields import option


@dataclass(frozen=True)
class Model:
    """The encoder-decoder. Capital letters stand for the sizes in type annotations."""

    encoder: str = option(
        "bidirectional",
        "bidirectional, unidirectional, backward (right to left), transformer, or your own",
    )
    cell: str = option(
        "gru",
        "recurrent cell: gru, gru_reset_first (the papers'), lstm, tanh, or your own module:class",
    )
    decoder: str = option(
        "bahdanau",
        "bahdanau: attends from s_{i-1}; luong: from the new state; luong_input_feeding: the same, "
        "and h̃ is fed into the next state; syntactic: the state reads annotations, and words come "
        "from word vectors alone; cif: integrates the source from left to right, without scores; "
        "transformer: in each block; or your own",
    )
    first_state: str = option(
        "bridge",
        "first state of a recurrent decoder: bridge (tanh of a linear map of the encoder's "
        "summary), last (the encoder's own last states) or zero",
    )
    readout: str = option(
        "auto",
        "maxout (deep output), linear (straight to the vocabulary), or auto: the paper's; lexical "
        "(with a translation of the attended words); pointer (all words are copied from the "
        "source), pointer_generator, copynet (some are); edits (copies, deletes, inserts and "
        "replaces), edits_oracle (trained on shortest edits); for hard "
        "attention: marginal (the exact sum over positions), monotonic_marginal (which "
        "never goes back), first_order (moves from the last position), monotonic_first_order, "
        "monotonic_hmm (moves and weights), ssnt (emits a word or reads on); trained by a bound: "
        "reinforce, variational, variational_sampled; whose next state reads the posterior: "
        "posterior, posterior_proximity, posterior_monotonic; or your own module:Class",
    )
    score: Score = option(
        Additive(),
        f"{', '.join(SCORES)}, or your own module:Class; without attention: "
        f"{', '.join(name for name, score in SCORES.items() if score.is_control)}. Settings in "
        "brackets, as in location_aware(width=5)",
    )
    window: Window = option(Full(), f"{', '.join(WINDOWS)}, or your own; local_m(half_width=3)")
    normalizer: Normalizer | None = option(
        None,
        f"{', '.join(NORMALIZERS)}, or your own; entmax(alpha=1.25). dropped(softmax,rate=0.1): "
        "with dropout of weights in training. auto: that of the score, usually softmax",
    )
    values: Values = option(
        Annotations(),
        f"what is summed: {', '.join(VALUES)}, or your own. embeddings: the source word vectors, "
        "sum: annotations and word vectors, key_value: half of an annotation, whose other half is "
        "compared",
    )
    gate: Gate = option(
        Ungated(),
        f"gate on the context of each head: {', '.join(GATES)}, or your own. elementwise: a factor "
        "for each feature, computed from the decoder state; headwise: one factor for the head",
    )
    mixing: Mixing = option(
        Apart(),
        f"mixing of heads: {', '.join(MIXING)}, or your own. talking_heads: linear maps of scores "
        "and of weights across heads",
    )
    sources: Sources = option(
        One(),
        f"how the decoder attends to sources: {', '.join(SOURCES)}, or your own. All but one need "
        "data with a second source; settings give that source a mechanism of its own, as in "
        "hierarchical(score=dot,normalizer=sparsemax) or concatenated(score=dot)",
    )
    heads: int = option(1, "N, heads of queries", low=1)
    self_heads: int = option(0, "transformer: heads of self-attention; 0: N", low=0)
    key_value_heads: int = option(
        0, "cross-attention: heads of keys and values, shared by queries; 0: N", low=0
    )
    head_size: int = option(
        0, "H, cross-attention: features of a head; 0: those of the context over N", low=0
    )
    latent_size: int = option(
        0,
        "cross-attention: features of a vector from which the keys and values of all heads are "
        "made; 0: from the annotation itself",
        low=0,
    )
    projection: str = option(
        "auto",
        "projection of queries and annotations for each head: linear, affine (with biases), none, "
        "or auto: none for one head of a recurrent decoder, else linear",
    )
    encoder_layers: int = option(1, "layers of a recurrent encoder, blocks of a transformer", low=1)
    decoder_layers: int = option(1, "layers of a recurrent decoder, blocks of a transformer", low=1)
    stack: str = option("plain", "recurrent layers above the first: plain, or residual (adding)")
    norm: str = option("post", "transformer: layer normalisation post or pre each part")
    positions: str = option("sinusoidal", "transformer: sinusoidal or rotary")
    embeddings: str = option(
        "separate",
        "separate, shared (source and target words), tied (target words and output layer) or "
        "three_way (all)",
    )
    embedding_size: int = option(128, "E, size of the word vectors", low=1)
    annotation_size: int = option(256, "D, size of an annotation, both directions together", low=2)
    hidden_size: int = option(256, "Q, units of the decoder state", low=1)
    readout_size: int = option(128, "maxout units before the output layer", low=1)
    longest_move: int = option(5, "positions by which hard attention of order 1 may move", low=1)
    feedforward_size: int = option(512, "transformer: hidden units of the feed-forward maps", low=1)
    initialization: str = option(
        "standard",
        "initial parameters: standard, rnnsearch or luong (as in their papers)",
    )
    dropout: float = option(0.0, "share of features dropped in training", low=0, high=0.95)
    dropout_kind: str = option(
        "ordinary", "ordinary (anew at each step) or variational (the same at all steps)"
    )

    @property
    def mechanism(self) -> Mechanism:
        """How each head of the decoder attends.

        Raises:
          InputError: score, window and normalizer do not fit together.
        """
        return Mechanism(
            self.score, self.window, self.normalizer, values=self.values, gate=self.gate
        )
