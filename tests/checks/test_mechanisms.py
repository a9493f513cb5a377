"""Each check finds the fault it is made for, and none in the parts of this package."""

import re

import pytest

import attn_jax
from attn_jax import (
    GATES,
    MIXING,
    NORMALIZERS,
    SCORES,
    VALUES,
    WINDOWS,
    InputError,
    Mechanism,
    Score,
)
from attn_jax.attention.compositions import Dropped, Pair, Projected
from attn_jax.attention.normalizers import Softmax
from attn_jax.attention.scores import Dot
from attn_jax.checks import mechanisms
from attn_jax.checks.mechanisms import CHECKS, problem_at_start, subject_of
from tests.checks import faulty

SIZES = {"query_size": 5, "annotation_size": 6}
BY_NAME = {check.find.__name__: check for check in CHECKS}


KINDS = SCORES, WINDOWS, NORMALIZERS, VALUES, GATES, MIXING
PARTS = {f"{n}-{one.__mro__[1].__name__}": one() for table in KINDS for n, one in table.items()}
PARTS |= {f"dropped-{one.name}": Dropped(one) for one in (Softmax(), NORMALIZERS["mocha"]())}
# With a memory, a gain, a random key, word vectors, and several heads.
OFTEN = {"location_aware-Score", "local_p-Window", "monotonic-Moving", "sum-Values"}
OFTEN |= {"talking_heads-Mixing"}


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
    (faulty.OfSet(), "value", "could not record it as .*frozenset", ()),
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
    (faulty.Smears(), "masked", "changes weights or contexts by", ("padded",)),
    (faulty.Cuts(), "returned", r"Cuts gives shape \[5\] for a context of 6 features", ()),
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
        ("padded", "short", "heads"),
    ),
    (
        faulty.CountsItsCalls(),
        "heads",
        "differs from teacher forcing by .* in a model with several heads",
        ("padded", "short", "decoding"),
    ),
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


def test_every_check_has_a_fault_or_a_note():
    assert {fault[1] for fault in FAULTS} | {"influence", "memory"} == {*BY_NAME}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in OFTEN else pytest.mark.slow) for n in PARTS]
)
def test_the_parts_of_this_package_pass(name):
    findings = attn_jax.check(PARTS[name])
    assert {one.status for one in findings} == {"ok"}, findings


@pytest.mark.slow
@pytest.mark.parametrize("score", [Projected(Dot()), Pair(Dot(), SCORES["additive"]())])
def test_compositions_pass(score):
    normalizer = NORMALIZERS["mocha"]() if isinstance(score, Pair) else None
    findings = attn_jax.check(Mechanism(score, normalizer=normalizer))
    assert {one.status for one in findings} == {"ok"}, findings


@pytest.mark.parametrize(
    ("part", "check", "told"),
    [
        (faulty.Idle(), "influence", "depends on score.unused: the gradient is 0"),
        (faulty.Perceptron(), "memory", r"MiB with `hidden = True` in the class of the score"),
    ],
)
def test_advice_is_no_failure(part, check, told):
    found = made(part, check)[check]
    assert found.status == "note"
    assert re.search(told, str(found)), found


def test_a_part_that_is_not_at_the_top_of_a_module_is_told_where_to_be():
    class Local(faulty.Products):
        pass

    found = made(Local(), "value")["value"]
    assert str(found) == "note   to train with Local, put it at the top of a module (a file)"


def test_a_part_made_before_its_module_was_reloaded_is_told_so(monkeypatch):
    before = faulty.Products()
    monkeypatch.setattr(faulty, "Products", type("Products", (faulty.Products,), {}))
    monkeypatch.setattr(faulty.Products, "__module__", faulty.__name__)
    found = made(before, "value")["value"]
    assert re.search("faulty:Products has been reloaded since it was made", str(found)), found


def test_findings_are_lines_to_read_and_sentences_to_raise():
    findings = attn_jax.check(faulty.ReadsInSecret(), **SIZES)
    sentence = (
        'tests.checks.faulty:ReadsInSecret reads past.weights: give its class reads = ("weights",)'
    )
    assert repr(findings).splitlines() == [
        "tests.checks.faulty:ReadsInSecret, with queries of 5 and annotations of 6 features",
        "ok     is a value, equal to its copy and its text",
        "ok     `init` gives floating-point parameters, the same for the same key",
        f"FAILS  {sentence}",
        "note   the other checks could not be made",
    ]
    assert findings.failed == [sentence]
    with pytest.raises(InputError, match=r"reads past\.weights"):
        findings.raise_if_failed()


def products(query, keys):
    return keys @ query


def test_sizes_are_those_that_a_part_takes():
    subject = subject_of(faulty.Products(), None, None)
    assert (subject.Q, subject.D) == (24, 32)
    for part in (products, Dot()):
        subject = subject_of(part, None, None)
        assert (subject.Q, subject.D) == (32, 32)
    assert (subject_of(Dot(), 7, 9).Q, subject_of(Dot(), 7, 9).D) == (7, 9)  # and fails
    assert "compares different sizes" in made(Dot(), "first_parameters")["first_parameters"].problem


class Repelled(Score):
    """A score of vectors of one size that does not say what it reads."""

    def score(self, p, query, keys, past):
        return keys @ query - past.total


def test_what_is_read_and_not_declared_is_told_whatever_the_sizes():
    subject = subject_of(Repelled(), None, None)
    assert (subject.Q, subject.D) == (32, 32)
    problems = [one.problem for one in mechanisms.findings(subject) if one.status == "FAILS"]
    assert "reads past.total" in problems[0]


def test_what_is_no_part_is_refused():
    with pytest.raises(InputError, match=r"a value, not a class: write Products\(\)"):
        attn_jax.check(faulty.Products)
    with pytest.raises(InputError, match=r"3 is no score, .*, values, gate or mixing"):
        attn_jax.check(3)


def test_a_mechanism_is_checked_as_a_whole():
    whole = Mechanism(faulty.Products(), normalizer=faulty.Overflows())
    found = made(whole, "extreme")["extreme"]
    assert found.status == "FAILS"
    assert not made(faulty.Products(), "extreme")  # a score is not asked about scores


def test_what_holds_at_the_start_of_a_run():
    assert problem_at_start(faulty.Products(), 5, 6, 8) is None
    for part, told in (
        (faulty.FromTheEnd(), "when it is padded from 8 to 10 positions"),
        (faulty.Branches(), r"with random queries and annotations, with TracerBool"),
        (faulty.KnowsNoWindow(), None),
    ):
        first, second = (problem_at_start(part, 5, 6, 8) for _ in range(2))
        assert first == second
        assert re.search(told, first) if told else first is None


def test_an_array_that_is_kept_between_calls_is_told():
    problem = problem_at_start(faulty.KeepsAnArray(), 5, 6, 8)
    assert (
        "it keeps an array from one call to another, which `start` and `advance` are for" in problem
    )


@pytest.mark.parametrize(
    ("part", "told"),
    [
        (faulty.Differs(), "may be negative: give its class non_negative = False"),
        (faulty.Averages(), "padding changes what is mixed by"),
        (faulty.Swallows(), r"Swallows gives shape \[3, 24\] for scores of shape \[4, 24\]"),
        (faulty.Square(), "gradients are not finite"),
    ],
)
def test_what_is_wrong_with_mixing_is_told(part, told):
    found = attn_jax.check(part)
    failing = [str(one) for one in found if one.status == "FAILS"]
    assert len(failing) == 1
    assert re.search(told, failing[0])
    at_start = problem_at_start(part, 5, 6, 8)
    assert at_start is None if "gradients" in told else re.search(told, at_start)


def test_mixing_that_leaves_a_parameter_alone_is_told():
    notes = [str(one) for one in attn_jax.check(faulty.Differs()) if one.status == "note"]
    assert "depends on unused: the gradient is 0" in notes[0]
