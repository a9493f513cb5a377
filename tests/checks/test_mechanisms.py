"""Each check finds the fault it is made for, and none in the parts of this package."""

import re

import jax
import numpy as np
import pytest

import attn_jax
from attn_jax import NORMALIZERS, SCORES, WINDOWS, InputError, Mechanism, Normalizer
from attn_jax.checks import mechanisms
from attn_jax.checks.mechanisms import CHECKS, problem_at_start, subject_of
from tests.checks import faulty

SIZES = {"query_size": 5, "annotation_size": 6}
BY_NAME = {check.find.__name__: check for check in CHECKS}


def made(part, *names):
    """The statuses and the texts of some checks, or of all, by their names."""
    subject = subject_of(part, *SIZES.values())
    checks = [BY_NAME[name] for name in names or BY_NAME]
    results = {}
    for name, check in zip(names or BY_NAME, checks, strict=True):
        if not (found := [*mechanisms._made(subject, [check])]):
            continue  # it is not for such parts
        results[name] = found[0]
        if len(found) > 1:
            break
    return results


# A part, the check that is made for its fault, what this says, and other checks that fail.
FAULTS = [
    (faulty.Listed(), "value", "cannot be hashed", ()),
    (faulty.Worded(), "value", "could not record it as .*two words", ()),
    (faulty.Counts(), "first_parameters", "int32 for score.places: parameters are floating", ()),
    (
        faulty.DrawsByItself(),
        "first_parameters",
        "two results for one key: draw from its `rng`",
        (),
    ),
    (faulty.Column(), "returned", r"gives shape \[24, 1\]", ()),
    (faulty.ReadsInSecret(), "returned", r'reads past.weights: .* reads = \("weights",\)', ()),
    (faulty.Branches(), "returned", r"TracerBoolConversionError.* \(faulty.py, line \d+\)", ()),
    (faulty.Undefined(), "returned", "not finite in use and in training", ()),
    (faulty.Forgets(), "masked", "get a weight of 0.", ("padded", "fully_masked", "excluded")),
    (faulty.StandardizesAll(), "masked", "changes weights or contexts by", ("padded", "gradients")),
    (faulty.FromTheEnd(), "padded", "when it is padded from 24 to 32 positions", ()),
    (
        faulty.DividesByNothing(),
        "fully_masked",
        "not all 0 where the mask is F",
        ("excluded", "extreme"),
    ),
    (faulty.KnowsNoWindow(), "excluded", "weights although their scores are -∞", ()),
    (faulty.Overflows(), "extreme", "scores of about ±1e30 give weights that are not", ()),
    (
        faulty.Standardizes(),
        "extreme",
        "gradients at equal scores are not finite",
        ("gradients",),
    ),
    (faulty.OfLengthOne(), "gradients", "not finite for a query of 0", ()),
    (faulty.HalvesTheGradient(), "differences", "differ from finite .* at 5 of 5", ()),
    (faulty.OverflowsInFloat16(), "short", "not finite in float16", ()),
    (faulty.FavoursTheEnd(), "long", "of 2,000 positions are not finite", ()),
    (
        faulty.CountsItsCalls(),
        "decoding",
        "differs from teacher forcing by .* at step 1 .*: a part keeps something",
        ("padded", "short", "heads", "compiled"),
    ),
    (faulty.KnowsNoHeads(), "heads", "differs from teacher forcing by .* in a model with", ()),
    (faulty.KnowsItsTracers(), "compiled", "compiled by `jax.jit`, weights .* differ by", ()),
]
named = pytest.mark.parametrize(
    ("part", "check", "told", "others"), FAULTS, ids=[fault[0].word[20:] for fault in FAULTS]
)


@named
def test_a_check_finds_the_fault_that_it_is_made_for(part, check, told, others):
    found = made(part, check)[check]
    assert found.status == "FAILS"
    assert re.search(told, str(found)), found


@pytest.mark.slow
@named
def test_the_other_checks_do_not_fail_for_it(part, check, told, others):
    failing = {name: str(one) for name, one in made(part).items() if one.status == "FAILS"}
    assert {*failing} == {check, *others}, failing
