"""What is checked: a part in a mechanism, with parameters, inputs and the ways of computing it."""

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PyTree

from attn_jax.attention.attend import attend_all, attend_step, begin
from attn_jax.attention.mechanism import Mechanism
from attn_jax.attention.plain import PlainNormalizer, PlainScore, PlainWindow
from attn_jax.attention.protocol import Normalizer, Part, Past, Score, Window, scaled_normal
from attn_jax.attention.scores import General
from attn_jax.errors import InputError

TOLERANCE = 1e-5  # between two ways to compute the same in float32


class Bilinear(General):
    """The score with which windows and normalizers are checked."""

    gives_logarithms = True  # as far as a check is concerned


class Given(Score):
    """Scores that are given as the first feature of the annotations."""

    gives_logarithms = True

    def score(
        self, p: Any, query: Float[Array, " Q"], keys: Float[Array, "S D"], past: Past
    ) -> Float[Array, " S"]:
        return keys[:, 0]


class Inputs(NamedTuple):
    """A sentence and queries."""

    queries: Float[Array, "T Q"]
    annotations: Float[Array, "S D"]


def surrounded(given: Any) -> Mechanism:
    """The mechanism in which a part is checked: scores and weights as usual around it.

    Raises:
      InputError: it is no part.
    """
    if isinstance(given, type):
        raise InputError(f"a part is a value, not a class: write {given.__name__}()")
    if isinstance(given, Mechanism):
        return given
    if isinstance(given, Window):
        return Mechanism(Bilinear(), given)
    if isinstance(given, Normalizer):
        return Mechanism(Bilinear(), normalizer=given)
    return Mechanism(given)


class Subject:
    """A mechanism of which some parts are checked, at the sizes of a head.

    Args:
      mechanism: with the part in it.
      own: the parts that are checked.
      Q: features of a query.
      D: features of an annotation.
      length: positions of a sentence.
    """

    queries = 4  # of a sentence

    def __init__(self, mechanism: Mechanism, own: tuple[Part, ...], Q: int, D: int, length: int):
        self.mechanism, self.own, self.Q, self.D, self.length = mechanism, own, Q, D, length
        self.at_once = jax.jit(functools.partial(at_once, mechanism))
        self.one_by_one = jax.jit(functools.partial(one_by_one, mechanism))
        self.gradient = jax.jit(jax.value_and_grad(functools.partial(seen, mechanism), (0, 1)))

    @functools.cached_property
    def p(self) -> PyTree:
        """Parameters, none of which hides what it is multiplied with by being 0."""
        rng, rng_of_zeros = jax.random.split(jax.random.key(1))
        leaves, structure = jax.tree.flatten(self.mechanism.init(rng, self.Q, self.D))
        rngs = jax.random.split(rng_of_zeros, max(len(leaves), 1))
        drawn = [
            jnp.asarray(leaf if np.any(leaf) else scaled_normal(rng, jnp.shape(leaf)), jnp.float32)
            for leaf, rng in zip(leaves, rngs, strict=False)
        ]
        return structure.unflatten(drawn)

    @functools.cached_property
    def with_given_scores(self) -> "Subject":
        """The window and the normalizer with scores that are given."""
        mechanism = Mechanism(Given(), self.mechanism.window, self.mechanism.normalizer)
        return Subject(mechanism, self.own, self.Q, self.D, self.length)

    @property
    def modules(self) -> set[str]:
        """The modules of the parts that are checked."""
        parts = [inner for part in self.own for inner in part.parts()]
        plain = PlainScore | PlainWindow | PlainNormalizer
        functions = [part.function for part in parts if isinstance(part, plain)]
        return {type(part).__module__ for part in parts} | {f.__module__ for f in functions}

    def inputs(self, seed: int = 0, *, queries: int = queries, length: int = 0) -> Inputs:
        """Queries and annotations whose products are about 1, whatever their sizes."""
        generator = np.random.default_rng(seed)

        def drawn(*shape: int) -> Array:
            return jnp.asarray(generator.normal(size=shape) * shape[-1] ** -0.25, jnp.float32)

        return Inputs(drawn(queries, self.Q), drawn(length or self.length, self.D))

    def masks(self) -> list[Bool[Array, " S"]]:
        """A sentence that is shorter than its arrays, and one with gaps."""
        places = jnp.arange(self.length)
        return [places < self.length * 3 // 4, (places % 3 != 1) & (places < self.length - 1)]


def modes() -> Iterator[tuple[str, Array | None]]:
    """The two ways to call a part."""
    yield "in use (past.rng is None)", None
    yield "in training", jax.random.key(2)


def at_once(
    m: Mechanism,
    p: PyTree,
    inputs: Inputs,
    mask: Bool[Array, " S"],
    rng: Array | None,
    values: Float[Array, "S C"] | None = None,
) -> tuple[Float[Array, "T C"], Float[Array, "T S"]]:
    """Contexts and weights as in training."""
    return attend_all(m, p, *inputs, mask, values=values, rng=rng)


def one_by_one(
    m: Mechanism, p: PyTree, inputs: Inputs, mask: Bool[Array, " S"], rng: Array | None
) -> tuple[Float[Array, "T C"], Float[Array, "T S"]]:
    """Contexts and weights as in decoding."""
    count = len(inputs.queries)
    rngs = [None] * count if rng is None else jax.random.split(rng, count)
    sentence, memory = begin(m, p, inputs.annotations, mask)
    contexts, weights = [], []
    for query, rng_of_step in zip(inputs.queries, rngs, strict=True):
        memory, *found = attend_step(m, p, sentence, memory, query, rng=rng_of_step)
        contexts.append(found[0])
        weights.append(found[1])
    return jnp.stack(contexts), jnp.stack(weights)


def seen(
    m: Mechanism,
    p: PyTree,
    inputs: Inputs,
    mask: Bool[Array, " S"],
    rng: Array | None,
    values: Float[Array, "S C"] | None = None,
    way: Callable = at_once,
) -> Float[Array, ""]:
    """A number that depends on every context and every weight."""
    found = way(m, p, inputs, mask, rng, *([] if values is None else [values]))
    return sum(
        (array * jnp.sin(1 + jnp.arange(array.size, dtype=array.dtype)).reshape(array.shape)).sum()
        for array in found
    )


def difference(one: PyTree, other: PyTree) -> float:
    """The largest difference between numbers of two trees, relative to those above 1."""
    return max(map(_difference, jax.tree.leaves(one), jax.tree.leaves(other)), default=0.0)


def _difference(one: Any, other: Any) -> float:
    one, other = np.asarray(one, np.float64), np.asarray(other, np.float64)
    if not np.array_equal(np.isfinite(one), np.isfinite(other)):
        return np.inf
    one, other = np.nan_to_num([one, other], posinf=0, neginf=0)
    return float(np.max(np.abs(one - other), initial=0) / np.max(np.abs(one), initial=1))


def all_finite(tree: PyTree) -> bool:
    """Whether all numbers of a tree are finite."""
    return all(np.isfinite(np.asarray(leaf, np.float64)).all() for leaf in jax.tree.leaves(tree))
