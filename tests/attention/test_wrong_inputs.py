"""What `attend` and the other functions say of arrays, parameters and parts that do not fit."""

import inspect

import jax
import jax.numpy as jnp
import pytest

from attn_jax import InputError, Mechanism, Score, attend, attend_all, attend_step, begin
from attn_jax.attention.compositions import Projected
from attn_jax.attention.scores import Concat, Dot, General, Last, ScaledDot


def unchecked(function):
    """A function as users call it, without the checks of shapes that tests add."""
    return inspect.unwrap(function)


@pytest.mark.parametrize(
    ("score", "sizes", "message"),
    [
        (
            Dot(),
            (4, 6),
            "dot compares queries and annotations of one size, got 4 and 6: `General` compares "
            "different sizes, and heads make them equal",
        ),
        (ScaledDot(), (4, 6), "scaled_dot compares queries and annotations of one size, got 4 and"),
        (
            General(),
            (4, 3),
            "for queries of 4 and annotations of 3 features, general needs parameters of the "
            r"shapes \{'W': \[4, 3\]\}, got \{'W': \[2, 3\]\}",
        ),
        (General(), (2, 6), "the parameters of general do not fit annotations of 6 features"),
        (
            Concat(units=2),
            (2, 2),
            r"concat needs parameters .*'W': \[4, 2\].*, got .*'W': \[5, 2\]",
        ),
        (Projected(Dot()), (3, 3), r"projected needs parameters .* \[3, 128\].* got .* \[2, 128\]"),
    ],
)
def test_refuses_wrong_widths_in_one_sentence(score, sizes, message):
    """The parameters are those for queries of 2 and annotations of 3 features."""
    p = {} if isinstance(score, Dot) else score.init(jax.random.key(0), 2, 3)
    query, annotations = jnp.ones(sizes[0]), jnp.ones((5, sizes[1]))
    for read, asked in ((attend, query), (attend_all, query[None])):
        with pytest.raises(InputError, match=message):
            unchecked(read)(score, p, asked, annotations)


def test_refuses_parameters_of_something_else():
    p = Mechanism(General()).init(jax.random.key(0), 2, 3)
    arrays = jnp.ones(2), jnp.ones((5, 3))
    with pytest.raises(InputError, match=r"parameters of general do not fit .*: KeyError: 'W'"):
        attend(General(), {}, *arrays)
    with pytest.raises(InputError, match=r"parameters of dot do not fit .*: KeyError"):
        attend(Mechanism(Dot()), {"score": {}}, jnp.ones(2), jnp.ones((5, 2)))
    with pytest.raises(InputError, match=r"parameters of general do not fit .*: KeyError: 'score'"):
        attend(Mechanism(General()), p["score"], *arrays)
    with pytest.raises(InputError, match=r"last needs parameters of the shapes \{\}, got \{'W': "):
        attend(Last(), p["score"], *arrays)
    with pytest.raises(InputError, match=r"last needs .* 'normalizer': \{\}, 'score': \{\}, "):
        attend(Mechanism(Last()), p, *arrays)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"mask": jnp.ones(2, bool)}, r"the mask must be bool \[3\], .*, got bool \[2\]"),
        ({"mask": jnp.ones(3)}, r"the mask must be bool \[3\], .*, got float32 \[3\]"),
        ({"mask": jnp.ones((3, 3), bool)}, r"the mask must be bool \[3\], .*, got bool \[3, 3\]"),
        ({"values": jnp.ones((4, 2))}, r"the values must be of \[3\] positions, .* got \[4, 2\]"),
        ({"values": jnp.ones((3, 2), int)}, "the values must be floating-point numbers, got int"),
    ],
)
def test_masks_and_values_must_fit_the_annotations(given, message):
    with pytest.raises(InputError, match=message):
        unchecked(begin)(Dot(), {}, jnp.ones((3, 2)), **given)


@pytest.mark.parametrize("shape", [(3,), (0, 2)])
def test_a_sentence_has_positions(shape):
    with pytest.raises(InputError, match=r"must be \[..., S, D\] with at least one position, got"):
        unchecked(begin)(Dot(), {}, jnp.ones(shape))


def test_annotations_and_queries_are_floating_point_numbers():
    with pytest.raises(InputError, match="the annotations must be floating-point numbers, got int"):
        unchecked(begin)(Dot(), {}, jnp.ones((3, 2), int))
    with pytest.raises(InputError, match="the queries must be floating-point numbers, got int"):
        unchecked(attend_step)(Dot(), {}, *begin(Dot(), {}, jnp.ones((3, 2))), jnp.ones(2, int))


def test_a_step_takes_one_query():
    with pytest.raises(InputError, match=r"query must be \[Q\], .* \(attend_all takes several"):
        unchecked(attend_step)(Dot(), {}, *begin(Dot(), {}, jnp.ones((3, 2))), jnp.ones((3, 2)))


def test_errors_name_a_score_that_is_an_object():
    class Own:
        def __call__(self, query, keys):
            return keys

    with pytest.raises(InputError, match=r"the score tests\..*:Own gives shape \[3, 1\]"):
        attend(Own(), {}, jnp.ones(1), jnp.ones((3, 1)))


class Wide(Score):
    hidden = True

    def score(self, p, query, keys, past):
        return keys


def test_refuses_scores_of_another_shape():
    arrays = jnp.ones(2), jnp.ones((3, 2))
    with pytest.raises(InputError, match=r"gives shape \[3, 2\], but .* softmax takes \[3\]"):
        attend(lambda query, keys: keys, {}, *arrays)
    with pytest.raises(InputError, match=r"Wide gives shape \[3, 2\], but .* softmax takes \[3\]"):
        attend_all(Wide(), {}, jnp.ones((4, 2)), arrays[1])
    with pytest.raises(InputError, match=r"gives None \(without a return\), but .* takes \[3\]"):
        attend(lambda query, keys: None, {}, *arrays)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"window": lambda query, mask: 1.0}, r"the window .* gives shape \[\] for the bias of 3"),
        ({"window": lambda query, mask: mask}, "gives bias of bool, not floating-point numbers"),
        (
            {"window": lambda query, mask: jnp.ones((mask.size, 1))},
            r"gives shape \[3, 1\] for the bias of 3 positions",
        ),
        (
            {"normalizer": lambda scores, mask: scores.sum()},
            r"the normalizer .* gives shape \[\] for the weights of 3 positions",
        ),
        ({"normalizer": lambda scores, mask: mask}, "gives weights of bool, not floating-point"),
    ],
)
def test_parts_return_a_number_for_each_position(parts, message):
    mechanism = Mechanism(Dot(), **parts)
    p = mechanism.init(jax.random.key(0), 2, 2)
    with pytest.raises(InputError, match=message):
        unchecked(attend)(mechanism, p, jnp.ones(2), jnp.ones((3, 2)))
