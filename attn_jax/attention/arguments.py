"""What callers of `attend` hand in, checked: mechanisms, parameters, queries and annotations."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from attn_jax.attention.mechanism import Mechanism
from attn_jax.attention.protocol import Score
from attn_jax.errors import InputError


def whole(mechanism: Mechanism | Score | Callable, p: PyTree) -> tuple[Mechanism, PyTree]:
    """The mechanism and its parameters; of a score alone, with its usual normalizer.

    Those of values and gate may be left out where there are none. Mappings become dictionaries.
    """
    p = _in_dictionaries(p)
    if not isinstance(mechanism, Mechanism):
        mechanism, p = Mechanism(mechanism), {"score": p, "window": {}, "normalizer": {}}
    return mechanism, {"values": {}, "gate": {}} | p if isinstance(p, dict) else p


def fitting(
    mechanism: Mechanism | Score | Callable,
    p: PyTree,
    query: Array,
    axes: str,
    sizes: tuple[int, ...],
    mask: Array,
) -> tuple[Mechanism, PyTree, Array]:
    """The mechanism, its parameters and the queries, after checks that they fit a sentence.

    Args:
      mechanism: as in `attend`.
      p: its parameters.
      query: one query, or several.
      axes: of the query after those of the batch, such as "T Q".
      sizes: D, E and C of the sentence.
      mask: of the sentence.

    Raises:
      InputError: they do not fit.
    """
    m, p = whole(mechanism, p)
    query, batch = _floating("queries", query), mask.shape[:-1]
    own = axes.split()
    if query.ndim != len(batch) + len(own) or query.shape[: len(batch)] != batch:
        wanted = ", ".join([*map(str, batch), *own])
        raise InputError(
            f"the query must be [{wanted}], as the annotations are, got {list(query.shape)} "
            "(attend_all takes several for each sentence)"
        )
    made = _made(m, query.shape[-1], *sizes)
    if _structure(p) != _structure(made):
        wanted, got = (jax.tree.map(_shape, tree) for tree in (made, p))
        if m is not mechanism:  # a score alone, with the parameters of a score
            wanted, got = wanted["score"], got["score"]
        raise InputError(
            f"for queries of {query.shape[-1]} and annotations of {sizes[0]} features, "
            f"{m.score.word} needs parameters of the shapes {wanted}, got {got}"
        )
    return m, p, query


@functools.cache
def _made(m: Mechanism, *sizes: int) -> PyTree:
    """The parameters of a mechanism, as shapes and dtypes."""
    made = jax.eval_shape(lambda rng: m.init(rng, *sizes), jax.random.key(0))
    return _in_dictionaries(made)


def _in_dictionaries(p: PyTree) -> PyTree:
    """A tree with a dictionary for each mapping, such as those that Flax freezes."""

    def plain(node: Any) -> Any:
        if not isinstance(node, Mapping):
            return node
        return {name: _in_dictionaries(value) for name, value in node.items()}

    return jax.tree.map(plain, p, is_leaf=lambda node: isinstance(node, Mapping))


def _structure(p: PyTree) -> tuple[Any, list[list[int]]]:
    leaves, structure = jax.tree.flatten(p)
    return structure, list(map(_shape, leaves))


def _shape(leaf: Any) -> list[int]:
    return list(jnp.shape(leaf))


def annotations_and_mask(annotations: Any, mask: Any) -> tuple[Array, Array]:
    """The annotations and their mask as arrays; without one, the mask is True everywhere.

    Raises:
      InputError: a shape or dtype is wrong.
    """
    annotations = _floating("annotations", annotations)
    if annotations.ndim < 2 or not annotations.shape[-2]:
        raise InputError(
            "the annotations must be [..., S, D] with at least one position, got "
            f"{list(annotations.shape)}"
        )
    mask = jnp.ones_like(annotations[..., 0], bool) if mask is None else jnp.asarray(mask)
    if mask.dtype != bool or mask.shape != annotations.shape[:-1]:
        raise InputError(
            f"the mask must be bool {list(annotations.shape[:-1])}, like the annotations, got "
            f"{mask.dtype} {list(mask.shape)}"
        )
    return annotations, mask


def like_annotations(what: str, given: Any, mask: Array) -> Array | None:
    """An argument as an array of vectors for the positions of the annotations, if it is given."""
    if given is None:
        return None
    array = _floating(what, given)
    if array.shape[:-1] != mask.shape:
        raise InputError(
            f"the {what} must be of {list(mask.shape)} positions, like the annotations, got "
            f"{list(array.shape)}"
        )
    return array


def _floating(what: str, given: Any) -> Array:
    """An argument as an array, after a check of its dtype."""
    array = jnp.asarray(given)
    if not jnp.issubdtype(array.dtype, jnp.floating):
        raise InputError(f"the {what} must be floating-point numbers, got {array.dtype}")
    return array
