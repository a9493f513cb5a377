"""Several models that decode a sentence together; a single model is an ensemble of one.

Sutskever, Vinyals and Le 2014, section 3.6; Luong, Pham and Manning 2015, section 4.
"""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from attn_jax.decoding.search import StepFunction
from attn_jax.errors import choose
from attn_jax.models.seq2seq import Seq2Seq

Models = tuple[Seq2Seq, ...]


def of_log_probabilities(log_probabilities: Float[Array, "M *B V"]) -> Float[Array, "*B V"]:
    """The log of the normalised geometric mean of the probabilities."""
    return jax.nn.log_softmax(log_probabilities.mean(axis=0))


def of_probabilities(log_probabilities: Float[Array, "M *B V"]) -> Float[Array, "*B V"]:
    """The log of the mean of the probabilities."""
    return jax.nn.logsumexp(log_probabilities, axis=0) - jnp.log(len(log_probabilities))


COMBINATIONS: dict[str, Callable[[Array], Array]] = {
    "log_probabilities": of_log_probabilities,
    "probabilities": of_probabilities,
}


def combined(
    combination: str, log_probabilities: Sequence[Float[Array, "*B V"]]
) -> Float[Array, "*B V"]:
    """Combines the log-probabilities of models, by a name of `COMBINATIONS`."""
    if len(log_probabilities) == 1:
        return log_probabilities[0]
    combine = choose(COMBINATIONS, combination, "combination of models")
    return combine(jnp.stack(log_probabilities))


def all_layers(weights: Sequence[Array]) -> Float[Array, "B L N ..."]:
    """Concatenates the weights [B, L, N, ...] of models along the layers.

    If models have different numbers of heads, each takes the mean over its heads.
    """
    if len({of_model.shape[2] for of_model in weights}) > 1:
        weights = [of_model.mean(axis=2, keepdims=True) for of_model in weights]
    return jnp.concatenate(weights, axis=1)


def stepping(models: Models, combination: str) -> StepFunction:
    """The step of an ensemble; its sources and states are tuples with one for each model.

    Args:
      models: objects with a `step` method.
      combination: a name of `COMBINATIONS`.
    """

    def step(sources: tuple, states: tuple, words: Int[Array, " R"]) -> tuple:
        each = [
            model.step(state, words, source)
            for model, state, source in zip(models, states, sources, strict=True)
        ]
        states, log_probabilities, weights = zip(*each, strict=True)
        return states, combined(combination, log_probabilities), all_layers(weights)

    return step
