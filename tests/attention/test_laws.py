"""The laws that `attn_jax.checks` states of any mechanism hold for those of the tests."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import attn_jax
from attn_jax import Mechanism
from attn_jax.attention import Dot, Dropped, General, Monotonic, Projected, Softmax
from attn_jax.checks import findings, numbers
from attn_jax.checks.mechanisms import CHECKS, subject_of
from attn_jax.checks.subject import all_finite
from tests.attention.cases import CASES, made
from tests.attention.test_past import OWN
from tests.attention.test_values import MECHANISMS
from tests.stages import full, slow

# Masks, padding, nothing but padding, steps one by one, gradients of zeros: by the same programs.
LAWS = [check for check in CHECKS if check.at_start or check.find is numbers.gradients]
OTHERS = [
    *OWN,
    *MECHANISMS,
    Mechanism(Projected(Dot())),
    *(Mechanism(General(), normalizer=Dropped(one)) for one in (Softmax(), Monotonic())),
]


def cases():
    """The first stage has a mechanism with each kind of part, and the second all others."""
    seen = set()
    for one in [*(made(*one.values) for one in CASES), *OTHERS]:
        kinds = {type(part) for part in one.parts}
        name = "-".join(part.word for part in one.parts)
        yield pytest.param(one, id=name, marks=[] if kinds - seen else full)
        seen |= kinds


every = pytest.mark.parametrize("mechanism", [*cases()])


def check_nothing_but_padding(subject, dtype):
    """Gradients in half precision, which rounds more to zero."""
    short = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), (subject.p, subject.inputs()))
    for rng in subject.modes.values():
        assert all_finite(subject.gradient(*short, np.zeros(subject.length, bool), rng))


@every
def test_the_laws_hold(mechanism):
    subject = subject_of(mechanism, None, None)
    found = [*findings.made(subject, LAWS)]
    assert {one.status for one in found} == {"ok"}, found
    check_nothing_but_padding(subject, jnp.float16)


@slow
@every
def test_all_laws_hold(mechanism):
    found = attn_jax.check(mechanism)
    assert not found.failed, found
    check_nothing_but_padding(subject_of(mechanism, None, None), jnp.bfloat16)
