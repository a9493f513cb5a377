"""What training minimises: the losses of the tokens of a batch."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from attn_jax.config import Train
from attn_jax.models.randomness import split
from attn_jax.models.seq2seq import Seq2Seq
from attn_jax.tokens import BOS, EOS, PAD
from attn_jax.training.losses import coverage_loss, guided_loss, guided_weights


def loss_fn(
    config: Train,
    model: Seq2Seq,
    source: Int[Array, "B S"],
    target: Int[Array, "B T"],
    links: Float[Array, "B T S"] | None,
    step: Int[Array, ""],
    rng: Key[Array, " B"],
) -> Float[Array, ""]:
    """The sum of the losses of the target tokens.

    Args:
      config: the options of the losses and of scheduled sampling.
      model: parameters in float32.
      source: source sentences.
      target: target sentences, each ended by `EOS`.
      links: the links for the guided loss, as `guided_loss` takes them.
      step: steps done.
      rng: a random key for each sentence.
    """
    rng_words, rng_model = split(rng, 2)
    inputs = target
    if config.scheduled_sampling:
        share = config.scheduled_sampling * jnp.minimum(step / config.sampling_steps, 1)
        inputs = sampled(model, source, target, share, rng_words)
    reading = model.read(source, inputs, rng_model)
    real, alignment = target != PAD, reading.weights
    total = model.loss(reading, target, config.label_smoothing)
    if config.coverage_loss:
        total += config.coverage_loss * coverage_loss(alignment).sum(where=real)
    if config.guided_alignment:
        guided = guided_weights(alignment, config.guided_head)
        total += config.guided_alignment * guided_loss(guided, links).sum(where=real)
    return total


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
