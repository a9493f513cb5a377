"""Each kernel and its plain form: the inputs on which they are compared, and their times."""

import functools
import importlib
import operator
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from attn_jax.kernels import activations, deferral, factors, hidden_sum, memory, products
from attn_jax.recipe.precision import multiplies_bfloat16

ROUNDING = partial(jax.default_matmul_precision, factors.BFLOAT16)


class Sizes(NamedTuple):
    """Of a batch and of the layers of a model."""

    B: int = 64  # sentences
    S: int = 25  # source words
    T: int = 25  # target words
    H: int = 256  # features of all layers
    V: int = 8000  # words of the vocabulary


class Pair(NamedTuple):
    """A kernel and its plain form, each in a small function in which they differ in cost."""

    fast: Callable[..., PyTree[Array]]
    plain: Callable[..., PyTree[Array]]
    inputs: Callable[[Sizes, Callable[..., Array]], tuple]  # given a function that draws numbers
    rounds: bool = False  # whether its factors may be rounded to bfloat16


def gru(keeping: Callable, inputs: Array, hidden: Array) -> Array:
    """The gates of a GRU in a scan, without its products."""

    @keeping
    def gated(state: Array, inputs: Array) -> Array:
        r, z, n = jnp.split(inputs, 3, axis=-1)
        reset, update = activations.sigmoid(r + state), activations.sigmoid(z - state)
        return (1 - update) * activations.tanh(n + reset * state) + update * state

    return jax.lax.scan(lambda state, now: (gated(state, now),) * 2, hidden, inputs)[1]


def factored(factor: Callable, inputs: Array, table: Array) -> Array:
    """A product with a transposed table, as of tied embeddings."""
    return jnp.matmul(factor(inputs), factor(table.T), preferred_element_type=jnp.float32)


def recurrent(scan: Callable, matrix: Array, inputs: Array, hidden: Array) -> Array:
    """A simple recurrent layer."""

    def step(matrix: Array, state: Array, inputs: Array) -> tuple[Array, Array]:
        state = jnp.tanh(inputs + products.product(state, matrix))
        return state, state

    return scan(step, (matrix,), hidden, inputs)[1]


def mixed(summed: Callable, values: Array, scores: Array) -> Array:
    """The contexts of queries one after another."""

    def step(values: Array, state: tuple, scores: Array) -> tuple[tuple, Array]:
        return state, summed(jax.nn.softmax(scores), values)

    return deferral.scan(step, (values,), (), scores)[1]


def gates(gated: Callable, inputs: Array, memory: Array) -> Array:
    """The gates of an LSTM in a scan, without its products."""

    def step(memory: Array, inputs: Array) -> tuple[Array, Array]:
        hidden, memory = gated(memory, inputs)
        return memory, hidden

    return jax.lax.scan(step, memory, inputs)[1]


def layer(run: Callable, matrix: Array, inputs: Array, hidden: Array, memory: Array) -> PyTree:
    """An LSTM over sentences of different lengths."""
    steps, rows, _ = inputs.shape
    mask = jnp.arange(steps)[:, None] < steps - jnp.arange(rows) % steps
    return run(matrix, inputs, mask, (hidden, memory), False)


def additive(kept: Callable, summed: Callable, queries: Array, keys: Array, v: Array) -> Array:
    """The additive scores of queries one after another."""

    @kept
    def score(query: Array, keys: Array, v: Array) -> Array:
        return jax.vmap(summed, (0, None))(jnp.tanh(query[:, None] + keys), v)

    return jax.lax.map(lambda query: score(query, keys, v), queries)


def of_additive(n: Sizes, drawn: Callable[..., Array]) -> tuple:
    """The inputs of additive scores."""
    return drawn(n.T, n.B, n.H), drawn(n.B, n.S, n.H), small(drawn, n.H)


def searched(outputs: Callable, features: Array, matrix: Array, bias: Array) -> Array:
    """The log-probabilities of a step of a search."""
    return jax.nn.log_softmax(outputs(features, matrix, bias))


def lost(loss: Callable, matrix: Array, bias: Array, features: Array) -> Array:
    """The loss of a batch with padding and label smoothing."""
    rows, places = len(features), jnp.arange(len(features))
    return loss(matrix, bias, features, places % bias.size, places % 5 < 4, 0.1) / rows


def sparse(projection: Callable, alpha: float, scores: Array) -> Array:
    """Sparse weights."""
    shifted = (alpha - 1) * (scores - scores.max(axis=-1, keepdims=True))
    return jnp.vectorize(partial(projection, alpha=alpha), signature="(S)->(S)")(shifted)


def drawing() -> Callable[..., Array]:
    """A function that draws normal numbers of a shape."""
    generator = np.random.default_rng(0)
    return lambda *shape: jnp.asarray(generator.normal(size=shape), jnp.float32)


def small(drawn: Callable[..., Array], *shape: int) -> Array:
    """A matrix whose products with numbers of variance 1 have a variance of 1."""
    return drawn(*shape) / shape[0] ** 0.5


def called(form: Callable, *inputs: Array) -> PyTree:
    """What a form computes by itself."""
    return form(*inputs)


def pair(name: str, use: Callable, inputs: Callable, rounds: bool = False) -> tuple[str, Pair]:
    """The kernel of a module, and its plain form, each as the first argument of a function."""
    module, _, kernel = name.partition(".")
    found = importlib.import_module(f"attn_jax.kernels.{module}")
    fast, plain = (partial(use, getattr(found, start + kernel)) for start in ("", "plain_"))
    return name, Pair(fast, plain, inputs, rounds)


PAIRS: dict[str, Pair] = dict(
    [
        pair("activations.sigmoid", called, lambda n, drawn: (drawn(n.T, n.B, n.H),)),
        pair("activations.tanh", called, lambda n, drawn: (drawn(n.T, n.B, n.H),)),
        pair(
            "activations.keeping_values",
            gru,
            lambda n, drawn: (drawn(n.T, n.B, 3 * n.H), drawn(n.B, n.H)),
        ),
        pair(
            "deferral.scan",
            recurrent,
            lambda n, drawn: (small(drawn, n.H, n.H), drawn(n.T, n.B, n.H), drawn(n.B, n.H)),
            True,
        ),
        pair(
            "factors.factor",
            factored,
            lambda n, drawn: (drawn(n.T, n.B, n.H), small(drawn, n.H, n.H)),
            True,
        ),
        pair("hidden_sum.hidden_sum", partial(additive, memory.recomputed), of_additive),
        pair(
            "memory.recomputed",
            lambda kept, *inputs: additive(kept, hidden_sum.hidden_sum, *inputs),
            of_additive,
        ),
        pair(
            "output_loss.logits",
            searched,
            lambda n, drawn: (drawn(n.B, n.H), small(drawn, n.H, n.V), drawn(n.V)),
            True,
        ),
        pair(
            "output_loss.output_loss",
            lost,
            lambda n, drawn: (small(drawn, n.H, n.V), drawn(n.V), drawn(n.B * n.T, n.H)),
            True,
        ),
        pair("lstm.gates", gates, lambda n, drawn: (drawn(n.T, n.B, 4 * n.H), drawn(n.B, n.H))),
        pair(
            "lstm.layer",
            layer,
            lambda n, drawn: (
                small(drawn, n.H, 4 * n.H),
                drawn(n.T, n.B, 4 * n.H),
                drawn(n.B, n.H),
                drawn(n.B, n.H),
            ),
            True,
        ),
        pair(
            "mixture.mixture",
            mixed,
            lambda n, drawn: (drawn(n.B, 1, n.S, n.H), drawn(n.T, n.B, 1, 1, n.S)),
        ),
        pair(
            "products.product",
            called,
            lambda n, drawn: (drawn(n.B, n.T, n.H), small(drawn, n.H, 3 * n.H)),
            True,
        ),
        pair(
            "simplex.projection",
            lambda form, scores: sparse(form, 1.5, scores),
            lambda n, drawn: (drawn(n.B, n.T, n.S),),
        ),
    ]
)


def derivative(function: Callable) -> Callable:
    """The values of a function, and the gradients of a weighted sum of them by all inputs."""

    def total(*inputs: Array) -> tuple[Array, PyTree]:
        values = function(*inputs)
        weighted = jax.tree.map(
            lambda leaf: (leaf * jnp.cos(jnp.arange(leaf.size)).reshape(leaf.shape)).sum(), values
        )
        return functools.reduce(operator.add, jax.tree.leaves(weighted)), values

    def run(*inputs: Array) -> tuple[PyTree, tuple]:
        gradient = jax.grad(total, argnums=tuple(range(len(inputs))), has_aux=True)
        gradients, values = gradient(*inputs)
        return values, gradients

    return run


def kernels(rounds: int) -> Iterator[tuple[str, dict[str, Sequence[float]]]]:
    """The times of each pair, value and derivative, whose forms take turns.

    On the first device, and in bfloat16 too where it multiplies that.
    """
    for name, pair in PAIRS.items():
        precisions: dict[str, Callable[[], AbstractContextManager]] = {"": nullcontext}
        if pair.rounds and multiplies_bfloat16(jax.devices()[0]):
            precisions[", bfloat16"] = ROUNDING
        for precision, context in precisions.items():
            with context():
                fast, plain = zip(*_times(pair, rounds), strict=True)
            ratios = [one / other for one, other in zip(fast, plain, strict=True)]
            yield name + precision, {"kernel ms": fast, "plain ms": plain, "kernel ÷ plain": ratios}


def _times(pair: Pair, rounds: int) -> list[list[float]]:
    """Milliseconds of both forms, in each round."""
    inputs = pair.inputs(Sizes(), drawing())
    runs = [jax.jit(derivative(form)) for form in (pair.fast, pair.plain)]

    def timed(run: Callable, times: int) -> float:
        before = time.perf_counter()
        for _ in range(times):
            jax.block_until_ready(run(*inputs))
        return 1e3 * (time.perf_counter() - before) / times

    for run in runs:
        timed(run, 1)  # compiles
    # Short ones are repeated, to at least a twentieth of a second a round.
    often = max(1, int(100 / sum(timed(run, 2) for run in runs)))
    return [[timed(run, often) for run in runs] for _ in range(rounds)]
