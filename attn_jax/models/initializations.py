"""Initial parameters as in the papers; `standard` keeps those that the layers draw themselves.

With `standard`, matrices preserve the variance of their inputs (LeCun et al. 1998), recurrent
matrices are orthogonal, and biases are zero unless a cell or a mechanism gives another value.
"""

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array

from attn_jax.config import Model
from attn_jax.errors import choose

Module = TypeVar("Module", bound=nnx.Module)
# In the paths of parameters of mechanisms: of each head, and of all together.
MECHANISM = (".parameters.value.", ".shared.value.")


def rnnsearch(path: str, drawn: Array, rng: Array) -> Array:
    """Bahdanau, Cho and Bengio 2014, appendix B.1.

    Recurrent matrices are orthogonal; W_a and U_a of the alignment model are drawn from
    N(0, 0.001²), its v_a and all biases are zero; other matrices are drawn from N(0, 0.01²).
    """
    *_, layer, name = path.split(".")
    if layer in ("recurrent", "candidate") and name == "kernel":
        return drawn
    if drawn.ndim == 1 or name == "v":
        return jnp.zeros_like(drawn)
    deviation = 0.001 if f"{MECHANISM[0]}score." in path else 0.01
    return deviation * jax.random.normal(rng, drawn.shape, drawn.dtype)


def luong(path: str, drawn: Array, rng: Array) -> Array:
    """All parameters from U(-0.1, 0.1). Luong, Pham and Manning 2015, section 4.1."""
    return jax.random.uniform(rng, drawn.shape, drawn.dtype, -0.1, 0.1)


INITIALIZATIONS: dict[str, Callable[[str, Array, Array], Array] | None] = {
    "standard": None,
    "rnnsearch": rnnsearch,
    "luong": luong,
}


def stays(path: str) -> bool:
    """Whether a parameter keeps its own initial value, since the papers do not have it.

    This holds for layer normalisation, for the number of training steps, and for parameters of
    mechanisms other than W, U and v.
    """
    name = path.rpartition(".")[2]
    return (
        name == "train_step"
        or ".norm." in f".{path}"
        or (any(place in path for place in MECHANISM) and name not in ("W", "U", "v"))
    )


def initialized(config: Model, model: Module, rng: Array) -> Module:
    """The model with the initial parameters selected by the options."""
    rule = choose(INITIALIZATIONS, config.initialization, "initialization")
    if rule is None:
        return model
    leaves, structure = jax.tree_util.tree_flatten_with_path(model)
    redrawn = []
    for (keys, leaf), rng_leaf in zip(leaves, jax.random.split(rng, len(leaves)), strict=True):
        path = jax.tree_util.keystr(keys, simple=True, separator=".").removesuffix(".value")
        redrawn.append(leaf if stays(path) else rule(path, leaf, rng_leaf))
    return jax.tree.unflatten(structure, redrawn)
