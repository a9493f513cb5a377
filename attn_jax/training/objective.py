"""What training minimises: the losses of the tokens of a batch."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from attn_jax.kernels.memory import by_parts
from attn_jax.kernels.output_loss import LOGITS
from attn_jax.models.protocols import AddsLoss
from attn_jax.models.randomness import split
from attn_jax.models.seq2seq import Seq2Seq
from attn_jax.recipe.loss import Loss, total
from attn_jax.tokens import BOS, EOS, PAD, Batch


@dataclass(frozen=True)
class Objective:
    """The sum of the losses of the target tokens of a batch: cross-entropy, and of the weights.

    Objectives of equal fields are equal, so that a training step is compiled once for them.
    """

    label_smoothing: float = 0.0  # the probability spread over the vocabulary
    losses: tuple[Loss, ...] = ()  # of the weights of attention
    sampling: float = 0.0  # the final share of previous words that are the model's own
    sampling_steps: int = 10000  # over which that share rises from zero

    def __call__(
        self, model: Seq2Seq, batch: Batch, step: Int[Array, ""], rng: Key[Array, " B"]
    ) -> Float[Array, ""]:
        """The sum.

        Args:
          model: parameters in float32.
          batch: sentence pairs.
          step: steps done.
          rng: a random key for each sentence.

        Raises:
          InputError: a loss cannot be computed: see `loss.total`.
        """
        source, target = batch.source, batch.target
        rng_words, rng_model, rng_losses = split(rng, 3)
        inputs = target
        if self.sampling:
            share = self.sampling * jnp.minimum(step / self.sampling_steps, 1)
            inputs = sampled(model, source, target, share, rng_words)
        reading = model.read(source, inputs, rng_model)
        found = model.loss(reading, target, self.label_smoothing)
        if isinstance(model.decoder, AddsLoss):
            found += model.decoder.added_loss(reading.source, target)
        seen = batch._replace(source=model.first_source(source))
        for number, loss in enumerate(self.losses, start=1):
            rngs = jax.vmap(jax.random.fold_in, (0, None))(rng_losses, number)
            found += total(loss, reading.weights, seen, step, rngs)
        return found


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
    rows, length = target.shape

    def drawn(part: tuple) -> Int[Array, "B P"]:
        """The first word at which the sum of the probabilities is above a uniform number."""
        steps, uniform = part
        probabilities = jnp.exp(fixed.log_probabilities(steps, encoded))
        # A search never extends a prefix that ends in one of these.
        allowed = probabilities.at[..., jnp.array([PAD, BOS, EOS])].set(0)
        sums = allowed.cumsum(axis=-1)
        below = (sums <= uniform[..., None] * sums[..., -1:]).sum(axis=-1)
        return jnp.minimum(below, sums.shape[-1] - 1).astype(target.dtype)

    uniform, places = (
        jax.vmap(lambda row: jax.random.uniform(row, (length,)))(rng)
        for rng in (rng_words, rng_places)
    )
    at_once = LOGITS.here() // (rows * model.target_size)
    words = by_parts(drawn, (steps, uniform), at_once)
    replaced = (places < share) & (target != PAD) & (target != EOS)
    return jnp.where(replaced, words, target)
