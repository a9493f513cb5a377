"""What training minimises: the losses of the tokens of a batch."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from attn_jax.errors import InputError
from attn_jax.head_names import Head, Mean
from attn_jax.models.randomness import split
from attn_jax.models.seq2seq import Seq2Seq
from attn_jax.tokens import BOS, EOS, PAD
from attn_jax.training.losses import coverage_loss, guided_loss

# Source and target sentences, and where all pairs have some, links.
Batch = tuple[Int[Array, "B S"], Int[Array, "B T"], Float[Array, "B T S"] | None]


@dataclass(frozen=True)
class Objective:
    """The sum of the losses of the target tokens of a batch: cross-entropy, and of the weights.

    Objectives of equal fields are equal, so that a training step is compiled once for them.
    """

    label_smoothing: float = 0.0  # the probability spread over the vocabulary
    coverage: float = 0.0  # the weight of `coverage_loss`
    guided: float = 0.0  # the weight of `guided_loss`
    guided_head: Head = field(default=Mean())  # whose weights are guided
    sampling: float = 0.0  # the final share of previous words that are the model's own
    sampling_steps: int = 10000  # over which that share rises from zero

    def __call__(
        self, model: Seq2Seq, batch: Batch, step: Int[Array, ""], rng: Key[Array, " B"]
    ) -> Float[Array, ""]:
        """The sum.

        Args:
          model: parameters in float32.
          batch: source sentences, target sentences, each ended by `EOS`, and the links, as
            `guided_loss` takes them.
          step: steps done.
          rng: a random key for each sentence.
        """
        source, target, links = batch
        rng_words, rng_model = split(rng, 2)
        inputs = target
        if self.sampling:
            share = self.sampling * jnp.minimum(step / self.sampling_steps, 1)
            inputs = sampled(model, source, target, share, rng_words)
        reading, real = model.read(source, inputs, rng_model), target != PAD
        total = model.loss(reading, target, self.label_smoothing)
        for weight, losses in self.of_weights(reading.weights, links):
            total += weight * losses.sum(where=real)
        return total

    def of_weights(
        self, alignment: Float[Array, "B L N T S"], links: Float[Array, "B T S"] | None
    ) -> Iterator[tuple[float, Float[Array, "B T"]]]:
        """The losses of the weights of attention, each with its factor."""
        if self.coverage:
            yield self.coverage, coverage_loss(alignment)
        if self.guided:
            if links is None:
                raise InputError("guided attention needs the links of the pairs")
            weights = self.guided_head.weights(alignment, "train.guided_head")
            yield self.guided, guided_loss(weights, links)


def sampled(
    model: Seq2Seq,
    source: Int[Array, "B S"],
    target: Int[Array, "B T"],
    share: Float[Array, ""],
    rng: Key[Array, " B"],
) -> Int[Array, "B T"]:
    """Target sentences in which a share of the words is replaced by the model's own samples.

    Scheduled sampling (Bengio et al. 2015) in one pass over all words, which works with any
    decoder: each word is sampled given the true previous words. Mihaylova and Martins 2019,
    section 3; Duckworth et al. 2019.
    """
    rng_model, rng_words, rng_places = split(rng, 3)
    fixed = jax.lax.stop_gradient(model)
    steps, encoded, _ = fixed.read(source, target, rng_model)
    log_probabilities = fixed.log_probabilities(steps, encoded)
    # A search never extends a prefix that ends in one of these.
    allowed = log_probabilities.at[..., jnp.array([PAD, BOS, EOS])].set(-jnp.inf)
    words = jax.vmap(jax.random.categorical)(rng_words, allowed).astype(target.dtype)
    places = target.shape[1:]
    replaced = jax.vmap(lambda row: jax.random.bernoulli(row, share, places))(rng_places)
    return jnp.where(replaced & (target != PAD) & (target != EOS), words, target)
