"""What is checked: a part in a mechanism, with parameters, inputs and the ways of computing it."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PyTree

from attn_jax.attention.attend import attend_all, attend_step, begin
from attn_jax.attention.gates import Ungated
from attn_jax.attention.mechanism import Mechanism
from attn_jax.attention.past import Past
from attn_jax.attention.plain import PlainNormalizer, PlainScore, PlainWindow
from attn_jax.attention.protocol import Gate, Normalizer, Part, Score, Values, Window
from attn_jax.attention.scores import General
from attn_jax.attention.values import Annotations
from attn_jax.errors import InputError

E = 16  # features of a word vector
LENGTH = 24  # positions of a sentence, more than usual windows are wide
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


Numbers = Array | np.ndarray


class Inputs(NamedTuple):
    """A sentence and queries."""

    queries: Float[Numbers, "T Q"]
    annotations: Float[Numbers, "S D"]
    embeddings: Float[Numbers, "S E"]

    def words(self, m: Mechanism) -> Array | None:
        """The word vectors, if a mechanism reads them."""
        return jnp.asarray(self.embeddings) if m.values.reads_embeddings else None


def surrounded(given: Any) -> tuple[Mechanism, tuple[Part, ...]]:
    """The mechanism in which a part is checked, with usual other parts, and the part in it.

    Raises:
      InputError: it is no part.
    """
    if isinstance(given, type):
        raise InputError(f"a part is a value, not a class: write {given.__name__}()")
    if isinstance(given, Mechanism):
        usual = Annotations(), Ungated()
        return given, tuple(part for part in given.parts if part not in usual)
    if isinstance(given, Window):
        return Mechanism(Bilinear(), given), (given,)
    if isinstance(given, Normalizer):
        return Mechanism(Bilinear(), normalizer=given), (given,)
    if isinstance(given, Values):
        return Mechanism(Bilinear(), values=given), (given,)
    if isinstance(given, Gate):
        return Mechanism(Bilinear(), gate=given), (given,)
    if not callable(given) and not isinstance(given, Score):
        raise InputError(f"{given!r} is no score, window, normalizer, values, gate or mixing")
    mechanism = Mechanism(given)
    return mechanism, (mechanism.score,)


class Subject:
    """A mechanism of which some parts are checked, at the sizes of a head.

    Args:
      mechanism: with the part in it.
      own: the parts that are checked.
      Q: features of a query.
      D: features of an annotation.
      length: positions of a sentence.
      options: of the compiler.
      E: features of a word vector.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        own: tuple[Part, ...],
        Q: int,
        D: int,
        length: int = LENGTH,
        options: dict[str, Any] | None = None,
        E: int = E,
    ):
        self.mechanism, self.own, self.length = mechanism, own, length
        self.Q, self.D, self.E = Q, D, E
        ways = functools.partial(at_once, mechanism), functools.partial(one_by_one, mechanism)
        self.at_once, self.one_by_one = (jax.jit(way, compiler_options=options) for way in ways)
        derived = jax.value_and_grad(functools.partial(seen, mechanism), (0, 1))
        self.gradient = jax.jit(derived, compiler_options=options)

    @functools.cached_property
    def made(self) -> tuple[PyTree, PyTree, PyTree]:
        """The first parameters of two keys, and once more of the first one."""

        @jax.jit
        def parameters(*rngs: Array) -> tuple:
            return tuple(self.mechanism.init(rng, self.Q, self.D, self.E) for rng in rngs)

        one, other = jax.random.key(0), jax.random.key(1)
        return parameters(one, other, one)

    @functools.cached_property
    def p(self) -> PyTree:
        """Parameters, none of which hides what it is multiplied with by being 0."""
        generator = np.random.default_rng(0)

        def drawn(leaf: Array) -> Array:
            size = leaf.shape[0] if leaf.ndim else 1
            random = generator.normal(size=leaf.shape) * size**-0.5
            return jnp.asarray(leaf if np.any(leaf) else random, jnp.float32)

        return jax.tree.map(drawn, self.made[0])

    @functools.cached_property
    def modes(self) -> dict[str, Array | None]:
        """The two ways to call a part; one, if it does the same in both."""
        both = {"in use (past.rng is None)": None, "in training": jax.random.key(2)}
        inputs, mask = self.inputs(), self.masks()[0]
        programs = {
            self.at_once.lower(self.p, inputs, mask, rng).as_text() for rng in both.values()
        }
        return both if len(programs) > 1 else {"in use and in training": None}

    @functools.cached_property
    def with_given_scores(self) -> "Subject":
        """The window and the normalizer with scores that are given."""
        mechanism = Mechanism(Given(), self.mechanism.window, self.mechanism.normalizer)
        return Subject(mechanism, self.own, self.Q, self.D, self.length)

    @property
    def modules(self) -> set[str]:
        """The modules of the parts that are checked."""
        parts = [inner for part in self.own for inner in part.parts()]
        plain = (PlainScore, PlainWindow, PlainNormalizer)
        named = [*map(type, parts), *(part.function for part in parts if isinstance(part, plain))]
        return {getattr(one, "__module__", "") for one in named}

    def inputs(self, seed: int = 0, *, queries: int = 4, length: int = 0) -> Inputs:
        """Queries and annotations whose products are about 1, whatever their sizes."""
        generator = np.random.default_rng(seed)

        def drawn(*shape: int) -> np.ndarray:
            return (generator.normal(size=shape) * shape[-1] ** -0.25).astype(np.float32)

        length = length or self.length
        return Inputs(drawn(queries, self.Q), drawn(length, self.D), drawn(length, self.E))

    def masks(self) -> list[Bool[np.ndarray, " S"]]:
        """Of sentences that are shorter than their arrays: one of two words, and one with gaps."""
        places = np.arange(self.length)
        gaps = (places % 3 != 1) & (places < self.length - 1)
        return [places < self.length * 3 // 4, places < 2, gaps]


def at_once(
    m: Mechanism,
    p: PyTree,
    inputs: Inputs,
    mask: Bool[Array, " S"],
    rng: Array | None,
    values: Float[Array, "S C"] | None = None,
) -> tuple[Float[Array, "T C"], Float[Array, "T S"]]:
    """Contexts and weights as in training."""
    queries, annotations, _ = map(jnp.asarray, inputs)
    words = inputs.words(m)
    return attend_all(m, p, queries, annotations, mask, values=values, embeddings=words, rng=rng)


def one_by_one(
    m: Mechanism, p: PyTree, inputs: Inputs, mask: Bool[Array, " S"], rng: Array | None
) -> tuple[Float[Array, "T C"], Float[Array, "T S"]]:
    """Contexts and weights as in decoding."""
    count = len(inputs.queries)
    rngs = [None] * count if rng is None else jax.random.split(rng, count)
    annotations = jnp.asarray(inputs.annotations)
    sentence, memory = begin(m, p, annotations, mask, embeddings=inputs.words(m))
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
    contexts, weights = way(m, p, inputs, mask, rng, *([] if values is None else [values]))
    return _weighed(contexts) + _weighed(weights)


def _weighed(array: Float[Array, "..."]) -> Float[Array, ""]:
    factors = jnp.sin(1 + jnp.arange(array.size, dtype=array.dtype))
    return (array * factors.reshape(array.shape)).sum()


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
