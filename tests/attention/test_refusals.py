"""How parts fit together in a mechanism, and what is refused, by the facts of their classes."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attn_jax import InputError, Mechanism, Score, Window
from attn_jax.attention.compositions import Dropped, Leaky, Pair, Projected
from attn_jax.attention.content_scores import FineGrained
from attn_jax.attention.gates import Leak
from attn_jax.attention.monotonic import Forward, Mocha, Monotonic
from attn_jax.attention.moving_scores import Gmm
from attn_jax.attention.normalizers import Exponential, Selective, Sigmoid, Softmax
from attn_jax.attention.position_scores import Location
from attn_jax.attention.scores import Additive, Dot, General, Last, Mean
from attn_jax.attention.sparse_normalizers import Entmax, Sparsemax
from attn_jax.attention.windows import Full, LocalM, LocalP


@pytest.mark.parametrize(
    ("normalizer", "expected"), [(None, Softmax()), (Softmax(), Softmax())], ids=str
)
def test_the_normalizer_is_the_score_s_own_unless_it_is_given(normalizer, expected):
    assert Mechanism(Additive(), Full(), normalizer).normalizer == expected
    belongs = Exponential() if normalizer is None else expected
    assert Mechanism(Gmm(), normalizer=normalizer).normalizer == belongs


def test_a_normalizer_of_two_scores_gets_a_pair():
    assert Mechanism(General(), normalizer=Mocha()).score == Pair(General(), General())
    given = Pair(General(), Additive())
    assert Mechanism(given, normalizer=Mocha()).score == given
    with pytest.raises(InputError, match="pair takes no part with a state of its own, got gmm"):
        Mechanism(Gmm(), normalizer=Mocha())


class Unlike(Score):
    def score(self, p, query, keys, past):
        return keys @ query


class Logarithms(Score):
    gives_logarithms = True

    def score(self, p, query, keys, past):
        return keys @ query


class Walking(Logarithms):
    moves = True


class Halving(Score):
    default_normalizer = Sparsemax

    def score(self, p, query, keys, past):
        return keys @ query / 2


class Narrow(Window):
    pass


FIXED = "a score with fixed weights takes no window or other normalizer: got "
NO_LOGARITHMS = "the normalizer exponential needs logarithms of weights, which this score does not"


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        *((lambda one=one: Mechanism(one, LocalM()), FIXED) for one in (Mean(), Last())),
        *((lambda one=one: Mechanism(one, Narrow()), FIXED) for one in (Mean(), Last())),
        *((lambda one=one: Mechanism(one, Full(), Sparsemax()), FIXED) for one in (Mean(), Last())),
        (lambda: Mechanism(Projected(Mean()), LocalM()), FIXED),
        (lambda: Mechanism(Projected(Last()), Full(), Sparsemax()), FIXED),
        (lambda: Pair(Mean(), Dot()), "a pair takes no score with fixed weights, got mean"),
        (lambda: Dropped(Dropped(Softmax())), "weights are dropped once: give one rate"),
        (lambda: Mechanism(Additive(), Full(), Exponential()), NO_LOGARITHMS),
        (lambda: Mechanism(Unlike(), Full(), Exponential()), NO_LOGARITHMS),
        (lambda: Mechanism(Gmm(), Full(), Monotonic()), "takes no monotonic normalizer: got gmm, "),
        (lambda: Mechanism(Gmm(), Full(), Forward()), "this score already moves monotonically"),
        (lambda: Mechanism(Walking(), Full(), Forward()), "this score already moves monotonically"),
        (
            lambda: Mechanism(Additive(), LocalP(), Mocha()),
            "takes no window: got pair, local_p",
        ),
        (
            lambda: Mechanism(Dot(), Narrow(), Forward()),
            "moves through the source itself",
        ),
        (lambda: Mechanism(Gmm(), LocalM()), "this score already acts as a window, and takes no"),
        (lambda: Mechanism(Walking(), Narrow()), "this score already acts as a window"),
        (
            lambda: Mechanism(Pair(Dot(), General())),
            "a pair of scores needs a normalizer that takes two, such as mocha: got pair, full",
        ),
        (lambda: Mechanism(Pair(Dot(), General()), Full(), Sigmoid()), "needs a normalizer that"),
        (lambda: Mechanism(FineGrained(), Full(), Mocha()), "a normalizer of one score, without"),
        (lambda: Mechanism(FineGrained(), Full(), Selective()), "of one score, without a state"),
        (lambda: Mechanism(FineGrained(), gate=Leak()), "the gate leak makes the context of one"),
        (lambda: Leaky(Location()), "takes a score of contents alone, not location"),
    ],
)
def test_refuses_what_makes_no_sense_together(parts, message):
    with pytest.raises(InputError, match=message):
        parts()


def unchecked(*parts):
    """`Mechanism` as users call it, without the checks of types that tests add."""
    inspect.unwrap(Mechanism.__init__)(object.__new__(Mechanism), *parts)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ((Additive,), r"score must be a Score .*Additive'>: write Additive\(\)"),
        ((LocalM(),), "the score must be a Score or a function, got LocalM"),
        ((Dot(), Softmax()), "the window must be a Window or a function, got Softmax"),
        ((Dot(), Full(), "softmax"), "the normalizer must be .* or a function, got 'softmax'"),
        (("dot",), "the score must be a Score or a function, got 'dot'"),
    ],
)
def test_refuses_parts_of_another_kind(parts, message):
    with pytest.raises(InputError, match=message):
        unchecked(*parts)


def test_the_facts_of_ones_own_parts_decide():
    assert Mechanism(Logarithms(), LocalM(), Exponential()).normalizer == Exponential()
    assert Mechanism(Walking(), Full(), Exponential()).normalizer == Exponential()
    assert Mechanism(Projected(Logarithms()), LocalM(), Exponential())
    assert Mechanism(Projected(Halving())).normalizer == Sparsemax()
    assert (
        Mechanism(lambda query, keys: keys @ query, Full(), Exponential()).normalizer
        == Exponential()
    )
    assert Mechanism(Mean(), Full(), Softmax()).normalizer == Softmax()
    assert Mechanism(Location(), LocalP(), Entmax()).window == LocalP()


def test_parameters_of_a_mechanism_are_those_of_its_parts():
    mechanism = Mechanism(General(), normalizer=Mocha())
    p = mechanism.init(jax.random.key(0), 2, 3)
    shapes = jax.tree.map(jnp.shape, p)
    assert shapes == {
        "score": {"first": {"W": (2, 3)}, "second": {"W": (2, 3)}},
        "window": {},
        "normalizer": {"r": ()},
        "values": {},
        "gate": {},
    }
    assert np.any(p["score"]["first"]["W"] != p["score"]["second"]["W"])
    nested = Projected(Additive(units=2), units=5).init(jax.random.key(0), 2, 3)
    assert jax.tree.map(jnp.shape, nested) == {
        "W": (2, 5),
        "U": (3, 5),
        "compared": {"W": (5, 2), "U": (5, 2), "v": (2,)},
    }
