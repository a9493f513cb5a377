"""Each kernel against its plain form: values and gradients, at odd sizes."""

import ast
import contextlib
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import attn_jax.kernels
from attn_jax.kernels import deferral, lstm, products
from attn_jax.kernels.simplex import plain_projection, projection
from experiments.benchmarks.kernels import PAIRS, ROUNDING, Sizes, derivative, sparse
from tests.test_layers import BY_HAND

ODD = Sizes(B=3, S=5, T=7, H=11, V=13)
FOLDER = Path(attn_jax.kernels.__file__).parent
NO_KERNELS = {"__init__", "forms", "held"}
MODULES = {file.stem: file for file in FOLDER.glob("*.py") if file.stem not in NO_KERNELS}
FLOAT32, BFLOAT16 = 1e-5, 2**-6  # of the largest number; bfloat16 has 8 bits


def outcome(form, inputs, precision):
    with precision():
        return jax.jit(derivative(form))(*inputs)


def check(pair, generator, precision=contextlib.nullcontext, tolerance=FLOAT32):
    """Compares the forms of a pair, relative to the largest number of each array."""

    def drawn(*shape):
        return jnp.asarray(generator.normal(size=shape), jnp.float32)

    inputs = pair.inputs(ODD, drawn)
    fast, plain = (outcome(form, inputs, precision) for form in pair[:2])
    assert jax.tree.structure(fast) == jax.tree.structure(plain)
    for one, other in zip(jax.tree.leaves(fast), jax.tree.leaves(plain), strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        assert np.any(other)
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance * np.abs(other).max())


@pytest.mark.parametrize("name", PAIRS)
def test_a_kernel_is_its_plain_form(name, generator):
    check(PAIRS[name], generator)


@pytest.mark.parametrize("name", [name for name, pair in PAIRS.items() if pair.rounds])
def test_a_kernel_is_its_plain_form_but_for_rounding(name, generator):
    """The plain form rounds the gradients of factors once more."""
    check(PAIRS[name], generator, ROUNDING, BFLOAT16)


@pytest.mark.parametrize("alpha", [1.2, 2.0, 2.7])
def test_all_thresholds(alpha, generator):
    fast, plain = (partial(sparse, form, alpha) for form in (projection, plain_projection))
    pair = PAIRS["simplex.projection"]._replace(fast=fast, plain=plain)
    check(pair, generator, tolerance=1e-4)


@pytest.mark.parametrize(
    ("name", "module", "function"),
    [
        ("deferral.scan", deferral, "_short"),
        ("lstm.layer", lstm, "of_inputs"),
        ("products.product", products, "of_matrix"),
    ],
)
def test_an_error_in_a_kernel_is_seen(name, module, function, generator, monkeypatch):
    """As a gradient that is 1 % too large, or its copy for the gradient of the inputs."""
    check(PAIRS[name], generator)
    true = getattr(module, function)
    monkeypatch.setattr(module, function, lambda *of: 1.01 * true(*of))
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        check(PAIRS[name], generator)


def functions(module):
    return {
        node.name
        for node in ast.parse(MODULES[module].read_text()).body
        if isinstance(node, ast.FunctionDef)
    }


def test_every_kernel_has_a_plain_form_and_a_pair():
    plain = {
        f"{module}.{name.removeprefix('plain_')}": module
        for module in MODULES
        for name in functions(module)
        if name.startswith("plain_")
    }
    assert plain.keys() == PAIRS.keys()
    assert set(plain.values()) == set(MODULES)


@pytest.mark.parametrize("module", MODULES)
def test_a_plain_form_has_nothing_by_hand(module):
    for node in ast.parse(MODULES[module].read_text()).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("plain_"):
            used = {ast.unparse(inner) for inner in ast.walk(node)}
            assert not {f"jax.{name}" for name in BY_HAND} & used
            assert not node.decorator_list
