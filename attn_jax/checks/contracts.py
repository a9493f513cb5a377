"""Checks that the user's own cells, encoders and decoders return what `models.protocols` says."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from attn_jax.config import Model
from attn_jax.errors import InputError
from attn_jax.models.choices import find_encoder
from attn_jax.models.decoders import Inputs, Recurrent
from attn_jax.models.protocols import Summary
from attn_jax.models.seq2seq import Seq2Seq, initialize
from attn_jax.models.stacks import make_stack
from attn_jax.settings.grammar import own_names
from attn_jax.tokens import SPECIALS, Copyable

B, S, T = 2, 3, 4  # sentences, source and target words
SMALLEST = len(SPECIALS) + 1  # words in a vocabulary


def check_returns(config: Model) -> None:
    """Raises InputError if a cell, encoder or decoder of the user's own returns something else."""
    for part, check in (
        ("cell", _check_cell),
        ("encoder", _check_encoder),
        ("decoder", _check_decoder),
    ):
        if own_names(getattr(config, part)):
            jax.eval_shape(functools.partial(check, config), jax.random.key(0))


def _check_cell(config: Model, rng: jax.Array) -> None:
    """Raises InputError if the next state of a cell is not like the first one."""
    sizes = config.embedding_size, config.hidden_size, 1
    (cell,) = make_stack(config, *sizes, rngs=nnx.Rngs(rng)).cells
    hidden = jnp.zeros((B, config.hidden_size))
    state, projected = cell.begin(hidden), cell.input(jnp.zeros((B, config.embedding_size)))
    _compare(f"model.cell={config.cell}", "a state", cell(state, projected, hidden), state)


def _check_encoder(config: Model, rng: jax.Array) -> None:
    """Raises InputError if an encoder does not return annotations and a summary of their sizes."""
    encoder = find_encoder(config)(config, rngs=nnx.Rngs(rng))
    returned = encoder(jnp.zeros((B, S, config.embedding_size)), jnp.ones((B, S), bool), None)
    which = f"model.encoder={config.encoder}"
    if not (
        isinstance(returned, tuple) and len(returned) == 2 and isinstance(returned[1], Summary)
    ):
        raise InputError(
            f"{which} must return annotations [B, S, D] and a Summary, got {_shapes(returned)}"
        )
    annotations, summary = returned
    wanted = jnp.zeros((B, S, config.annotation_size)), jnp.zeros((B, encoder.summary_size))
    _compare(which, "annotations and a vector", (annotations, summary.vector), wanted)


def untrained(config: Model, rng: jax.Array) -> Seq2Seq:
    """A model of the smallest vocabularies."""
    return initialize(config, (SMALLEST,) * config.sources.count, SMALLEST, rng)


def _check_decoder(config: Model, rng: jax.Array) -> None:
    """Raises InputError if a step, or all steps, of a decoder do not return what they should."""
    which = f"model.decoder={config.decoder}"
    model = untrained(config, rng)
    decoder = model.decoder
    words = jnp.ones((B, S), jnp.int32)
    source = model.encode(Copyable(words, words) if model.copies else words)
    state = decoder.start(source, T)
    word, words = jnp.zeros((B, config.embedding_size)), jnp.zeros((B, T, config.embedding_size))
    if isinstance(decoder, Recurrent):
        returned = decoder.advance(source, state, Inputs(decoder.inputs(word)))
        if not (_is_pair(returned) and _is_pair(returned[1])):
            raise InputError(
                f"{which}: `advance` must return state, (what the readout reads, weights), got "
                f"{_shapes(returned)}"
            )
        following, (_, weights) = returned
        _compare(f"{which}: `advance`", "a state", following, state)
        _check_weights(f"{which}: the last output of `advance`", weights, "B N S")
    features = decoder.readout.size
    returned = decoder.step(state, word, source)
    if not (isinstance(returned, tuple) and len(returned) == 3):
        raise InputError(
            f"{which}: `step` must return state, features and weights, got {_shapes(returned)}"
        )
    *others, weights = returned
    if model.copies:  # such a readout takes vectors of any size
        features = jnp.shape(others[1])[-1]
    _compare(f"{which}: `step`", "state, features", (*others,), (state, jnp.zeros((B, features))))
    _check_weights(f"{which}: the last output of `step`", weights, "B L N S")
    every = jnp.zeros((B, T, features)), jnp.zeros((*weights.shape[:3], T, S))
    _compare(f"{which}: all steps", "features, weights", decoder(words, source), every)


def _is_pair(returned: Any) -> bool:
    return isinstance(returned, tuple) and len(returned) == 2


def _check_weights(which: str, weights: Any, axes: str) -> None:
    shape = jnp.shape(weights) if hasattr(weights, "shape") else ()
    if len(shape) != len(axes.split()) or (*shape[:1], *shape[-1:]) != (B, S):
        raise InputError(
            f"{which} must be weights [{axes.replace(' ', ', ')}] with B={B} and S={S}, got "
            f"{_shapes(weights)}"
        )


def _compare(which: str, what: str, returned: Any, wanted: Any) -> None:
    if _shapes(returned) != _shapes(wanted):
        raise InputError(f"{which} must return {what} {_shapes(wanted)}, got {_shapes(returned)}")


def _shapes(returned: Any) -> str:
    """A pytree, with the shape of each array in its place."""

    def shape(leaf: Any) -> Any:
        return list(leaf.shape) if hasattr(leaf, "shape") else type(leaf).__name__

    return str(jax.tree.map(shape, returned))
