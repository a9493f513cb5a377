"""Decoding of a padded batch of sentences, as one compiled function."""

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

from attn_jax.decoding.beam import beam, flat, tiled
from attn_jax.decoding.ensemble import Models, stepping
from attn_jax.decoding.options import Search, forbidding
from attn_jax.decoding.search import SearchResult, StepFunction, generate, greedy, sampler
from attn_jax.tokens import PAD, Copyable, ids_of


@functools.partial(jax.jit, static_argnames=("combination", "search", "longest", "expansion"))
def decode(
    models: Models,
    source: Int[Array, "B S"] | Copyable,
    rngs: Array | None = None,
    *,
    combination: str,
    search: Search,
    longest: int,
    expansion: int = 1,
) -> SearchResult:
    """Decodes K hypotheses of each sentence, [B, K], with weights [B, K, L, N, T, S].

    The hypotheses of a row that holds only `PAD`, to fill up a batch, are meaningless.

    Args:
      models: an ensemble.
      source: the padded sentences.
      rngs: a random key for each sentence, needed only for sampling.
      combination: how predictions are combined, a name of `ensemble.COMBINATIONS`.
      search: the options of decoding.
      longest: most words of any translation, `EOS` excluded.
      expansion: target tokens for a source token, of which the default limit is twice as many.
    """
    lengths = (ids_of(source) != PAD).sum(axis=1)
    # Without a limit, a translation has at most 2 `expansion` words for each source token and 20
    # more, but not fewer than it must have. `EOS` is one more.
    asked, least = search.max_length, search.min_length
    usual = jnp.maximum(2 * expansion * lengths + 20, least)
    limits = jnp.where(lengths > 0, jnp.minimum(asked or usual, longest) + 1, 0)
    max_length = min(asked or max(2 * expansion * source.shape[1] + 20, least), longest) + 1
    encoded = tuple(model.encode(source) for model in models)
    state = tuple(
        model.start(of_model, max_length) for model, of_model in zip(models, encoded, strict=True)
    )
    step = stepping(models, combination)
    if search.unknown == "forbid":
        step = forbidding(step)
    if search.beam_size > 1:
        return beam(
            step,
            encoded,
            state,
            models[0].first_source(source) != PAD,
            limits,
            max_length,
            beam_size=search.beam_size,
            n_best=search.n_best,
            length_penalty=search.length_divisor,
            coverage_penalty=search.coverage_penalty,
            min_length=search.min_length,
        )
    return _word_by_word(step, encoded, state, limits, rngs, max_length, search)


def _word_by_word(
    step: StepFunction,
    encoded: PyTree,
    state: PyTree,
    limits: Int[Array, " B"],
    rngs: Array | None,
    max_length: int,
    search: Search,
) -> SearchResult:
    """Samples of each sentence, [B, K]; without a temperature, its most probable words."""
    times, pick = search.n_best, greedy
    if search.temperature:
        if rngs is None:
            raise ValueError("sampling needs a random key for each sentence")
        pick = sampler(search.temperature, search.top_k, search.top_p)
        split = jax.vmap(jax.random.split, in_axes=(0, None))(rngs, times)
        rngs = split.reshape(-1, *rngs.shape[1:])
    encoded, state = flat(tiled((encoded, state), times))
    results = generate(
        step,
        encoded,
        state,
        jnp.repeat(limits, times),
        rngs,
        max_length,
        pick=pick,
        min_length=search.min_length,
    )
    return jax.tree.map(lambda leaf: leaf.reshape(len(limits), -1, *leaf.shape[1:]), results)
