"""Continuous integrate-and-fire: a decoder that reads the source once, from left to right.

B sentences, S positions, T steps, D features of an annotation.
"""

from typing import NamedTuple

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key

from attn_jax.config import Model
from attn_jax.errors import InputError
from attn_jax.models import attention
from attn_jax.models.decoders import AllSteps, Bahdanau
from attn_jax.models.linear import Linear
from attn_jax.models.protocols import Encoded, Source
from attn_jax.models.readouts import FromFeatures, find_readout
from attn_jax.tokens import EOS, PAD

MOST = 2  # words that a position may stand for
FIRES = 0.5  # of a unit of weight, which is all that a vector in the middle of a sentence has


class Integrated(NamedTuple):
    """What is computed from the annotations once per sentence."""

    annotations: Float[Array, "B S D"]  # 0 at padding
    sums: Float[Array, "B S"]  # A_j, of the weights up to position j


class IntegrateAndFire(nnx.Module):
    """c_i = Σ_j α_ij h_j, with α_ij the part of α_j between i-1 and i of the sum of weights.

    See `Cif`. It stands in the place of an `Attention`, but reads no query.
    """

    def __init__(self, config: Model, *, rngs: nnx.Rngs):
        self.size = config.annotation_size
        self.window = Linear(3 * self.size, self.size, rngs=rngs)
        self.weights = Linear(self.size, MOST, rngs=rngs)

    def project(self, encoded: Encoded) -> Integrated:
        """The annotations, and A_j = Σ_{l≤j} α_l."""
        mask: Bool[Array, "B S"] = encoded.mask
        annotations = jnp.where(mask[..., None], encoded.annotations, 0)
        before, after = (
            jnp.pad(annotations, ((0, 0), sides, (0, 0))) for sides in ((1, 0), (0, 1))
        )
        window = self.window(before[:, :-1], annotations, after[:, 1:])
        weights = nnx.sigmoid(self.weights(nnx.relu(window))).sum(axis=-1)
        return Integrated(annotations, jnp.cumsum(jnp.where(mask, weights, 0), axis=1))

    def begin(self, mask: Bool[Array, "B S"]) -> Int[Array, ""]:
        """The number of steps done, i - 1."""
        return jnp.zeros((), jnp.int32)

    def step(
        self,
        done: Int[Array, ""],
        query: Float[Array, "B Q"],
        read: Integrated,
        mask: Bool[Array, "B S"],
        rng: Key[Array, " B"] | None = None,
    ) -> tuple[Int[Array, ""], Float[Array, "B D"], Float[Array, "B 1 S"]]:
        """The number of steps done, c_i and α_ij."""
        weights = fired(read.sums, done)
        context = jnp.einsum("bs,bsd->bd", weights, read.annotations)
        return done + 1, context, weights[:, None]


class Cif(Bahdanau):
    """c_i from the source alone,  s_i = f(s_{i-1}, y_{i-1}, c_i),  p(y_i) = g(s_i, y_{i-1}, c_i).

    Each position has a weight α_j. Reading from left to right, weights are summed, and whenever
    their sum A_j = Σ_{l≤j} α_l passes a whole number i, the vector c_i is complete: the weight that
    passes it is split between c_i and c_{i+1}. In closed form, which also holds for weights over 1,

    c_i = Σ_j α_ij h_j,  α_ij = max(0, min(A_j, i) - max(A_{j-1}, i-1))
    α_j = Σ_k σ(w_k · max(0, V [h_{j-1}; h_j; h_{j+1}] + b) + b_k)

    In training, weights are multiplied with T / A_S, so that the T words of the target, its end
    included, have a vector each, and |A_S - T| is added to the loss, with weight 1. In use, the
    number of vectors is that of the model: what is left after the last whole number is a vector if
    it is 0.5 or more. Steps after the last vector have c_i = 0.

    Dong and Xu 2020, sections 2 and 3, from memory. What is left open there, or is different here:
    - Positions are frames there, many for a word, so that k is 1. Here they may be letters, one of
      which can be two words, as x is, or a word and the end: k is 1 or 2, as if each position
      stood there twice.
    - The map of the window is a convolution of width 3 with D filters and max(0, x), as in FunASR's
      second predictor. MingLunHan/CIF-PyTorch has no max(0, x).
    - The last vector is divided by its weight, as in CIF-PyTorch.
    - Its decoders are blocks of self-attention; here RNNsearch, with c_i as the context. The loss
      of CTC that it adds is left out.

    Cost: time 3 S D² once a sentence, then S D a step, without scores.

    Raises:
      InputError: there are two sources, or a readout copies with the weights.
    """

    options = Bahdanau.options - attention.OPTIONS

    def __init__(self, config: Model, summary_size: int, *, rngs: nnx.Rngs):
        if config.sources.count > 1:
            raise InputError(
                "model.decoder=cif reads one source from left to right: leave out "
                f"model.sources={config.sources.brief()}"
            )
        if not issubclass(find_readout(config, self.usual_readout), FromFeatures):
            raise InputError(
                f"model.readout={config.readout} copies with weights that are probabilities: those "
                "of model.decoder=cif need not sum to 1"
            )
        super().__init__(config, summary_size, rngs=rngs)

    def make_attention(self, config: Model, rngs: nnx.Rngs) -> IntegrateAndFire:
        return IntegrateAndFire(config, rngs=rngs)

    def __call__(
        self, embeddings: Float[Array, "B T E"], source: Source, rng: Key[Array, " B"] | None = None
    ) -> AllSteps:
        """The features for the output layer and the weights at all steps; in training, of T."""
        if rng is not None:
            # The previous words are the beginning and the target without its end.
            words = (source.previous != PAD) & (source.previous != EOS)
            source = source._replace(projected=scaled(source.projected, words.sum(axis=1)))
        return super().__call__(embeddings, source, rng)

    def added_loss(self, source: Source, target: Int[Array, "B T"]) -> Float[Array, ""]:
        """The quantity loss, |A_S - T|."""
        return jnp.abs(source.projected.sums[:, -1] - (target != PAD).sum(axis=1)).sum()


def scaled(read: Integrated, count: Int[Array, " B"]) -> Integrated:
    """With weights whose sum is the number of words."""
    total = read.sums[:, -1]
    factor = count / jnp.where(total > 0, total, 1)  # a row of padding has none
    return read._replace(sums=read.sums * factor[:, None])


def fired(sums: Float[Array, "B S"], done: Int[Array, ""]) -> Float[Array, "B S"]:
    """The weights α_ij of a step from the sums A_j, after i - 1 steps that are done."""
    # How much of the unit between i-1 and i the positions up to j have filled.
    filled = jnp.clip(sums - done, 0, 1)
    total = filled[:, -1:]
    fires = total >= FIRES
    return jnp.where(fires, jnp.diff(filled, axis=1, prepend=0) / jnp.where(fires, total, 1), 0)
