"""Checks of what a part is and what its methods return."""

import re
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from attn_jax import config
from attn_jax.checks.findings import Advice
from attn_jax.checks.subject import Subject, all_finite, difference
from attn_jax.config.reading import PARTS, read
from attn_jax.errors import InputError
from attn_jax.recipe.loss import Loss
from attn_jax.records.own_code import check_source
from attn_jax.settings.value import Value


def value(subject: Any) -> str | None:
    """A part is static in `jax.jit`, and runs record it as text."""
    for part in subject.own:
        copy = type(part)(**part.settings())
        if copy != part:
            return f"{part} differs from a copy of itself: leave == to the base class"
        try:
            if hash(copy) != hash(part):
                return f"{part} has another hash than its copy: leave it to the base class"
        except TypeError as error:
            return f"it cannot be hashed ({error}): settings are numbers, text or parts"
    return next(filter(None, map(_text, subject.own)), None)


def _text(part: Value) -> str | None:
    """What keeps a run from recording a part."""
    for module, name in re.findall(r"([\w.]+):([\w.<>]+)", str(part)):
        if not hasattr(sys.modules.get(module), name):
            return Advice(f"to train with {name}, put it at the top of a module (a file)")
        try:
            check_source({module: [name]})
        except InputError as error:
            return Advice(f"to train with {name}: {error}")
    kind = next(kind for kind in (*PARTS, Loss) if isinstance(part, kind))
    try:
        again = read(kind, str(part), config.TABLES)
    except InputError as error:
        return f"a run could not record it as {part}: {error}"
    if again == part:
        return None
    if type(again) is not type(part) and str(again) == str(part):
        return f"the module of {part} has been reloaded since it was made: make it anew"
    return f"a run would record it as {part}, which means {again}"


def first_parameters(subject: Subject) -> str | None:
    """`init` is called once for each head, and abstractly."""
    first, other, again = subject.made
    for path, leaf in jax.tree.leaves_with_path(first):
        name = _name(path)
        if not jnp.issubdtype(jnp.result_type(leaf), jnp.floating):
            return (
                f"`init` gives {jnp.result_type(leaf)} for {name}: parameters are floating-point, "
                "other numbers are settings"
            )
    shapes, others = (str(jax.tree.map(jnp.shape, tree)) for tree in (first, other))
    if shapes != others:
        return f"`init` gives {shapes} for one key and {others} for another"
    if difference(first, again):
        return "`init` gives two results for one key: draw from its `rng` alone"
    return None if all_finite(first) else "`init` gives parameters that are not finite"


def returned(subject: Subject) -> str | None:
    """The machinery refuses other shapes and dtypes, and what is read but not declared."""
    mask = np.ones(subject.length, bool)
    for mode, rng in subject.modes.items():
        for way in (subject.at_once, subject.one_by_one):
            contexts, weights = way(subject.p, subject.inputs(), mask, rng)
            if not all_finite((contexts, weights)):
                return f"weights of random queries and annotations are not finite {mode}"
            if subject.mechanism.normalizer.non_negative and np.any(weights < 0):
                return f"weights may be negative {mode}: give its class non_negative = False"
    return None


def influence(subject: Subject) -> str | None:
    """A parameter without a gradient is never trained."""
    *_, rng = subject.modes.values()  # in training, if that differs
    mask = np.ones(subject.length, bool)
    gradients = [subject.gradient(subject.p, subject.inputs(n), mask, rng)[1][0] for n in range(3)]
    leaves = jax.tree.leaves_with_path(jax.tree.map(lambda *of: np.max(np.abs(of)), *gradients))
    largest = max((leaf for _, leaf in leaves), default=0)
    without = [_name(path) for path, leaf in leaves if not leaf > 1e-6 * largest]
    if not without:
        return None
    return Advice(f"nothing that is seen depends on {' and '.join(without)}: the gradient is 0")


def _name(path: tuple) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".")
