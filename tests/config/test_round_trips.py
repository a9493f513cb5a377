"""What is recorded is what was given: every value of every option is read back from its text."""

import dataclasses
import enum
import functools
import math
import typing
from typing import Literal

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from attn_jax import Score, config, setting
from attn_jax.attention import Dot
from attn_jax.config import HELD, TABLES
from attn_jax.config.reading import brief, held, read, read_option, text_of
from attn_jax.errors import InputError


class Side(enum.Enum):
    LEFT = "to the left"
    RIGHT = "to the right"


class Held(Score):
    """A score with a setting of each type that text can hold."""

    on: bool = False
    words: str = "plain"
    widths: tuple[int, ...] = (1, 2)
    pair: tuple[str, float] = ("a", 0.5)
    tau: float | None = 1.0
    way: Literal["sum", "mean", 3] = "sum"
    side: Side = Side.LEFT
    inner_score: Score = Dot()
    scale: float = setting(1.0, low=0, high=8)

    def score(self, p, query, keys, past):
        return keys @ query


def of_type(kind, entry, tables):
    """Values of a setting, within its bounds."""
    bounds = entry.metadata if entry else {}
    low = bounds.get("at least", bounds.get("low")) or bounds.get("more than") or 0
    high = bounds.get("at most") or bounds.get("less than") or low + 9
    origin, choices = typing.get_origin(kind), typing.get_args(kind)
    if kind is bool:
        return st.booleans()
    if kind is int:
        return st.integers(math.ceil(low), math.floor(high))
    if kind is float:
        return st.floats(low, high)
    if kind is str:
        return st.text()
    if origin is Literal:
        return st.sampled_from(choices)
    if origin is tuple and choices[1:] == (...,):
        return st.lists(of_type(choices[0], None, tables), max_size=3).map(tuple)
    if origin is tuple:
        return st.tuples(*(of_type(one, None, tables) for one in choices))
    if choices:
        return st.one_of(*(of_type(one, None, tables) for one in choices))
    if kind is type(None):
        return st.none()
    if issubclass(kind, enum.Enum):
        return st.sampled_from(kind)
    return values(kind, tables)


def values(kind, tables):
    """Values of a kind, such as scores, with any settings."""
    return st.deferred(lambda: st.sampled_from([*tables[kind].values()]).flatmap(drawn_of(tables)))


def drawn_of(tables):
    def drawn(cls):
        types = typing.get_type_hints(cls)
        entries = dataclasses.fields(cls)
        each = {one.name: of_type(types[one.name], one, tables) for one in entries}

        def made(given):
            try:
                return cls(**given)
            except InputError:  # settings that do not go together
                assume(False)

        return st.fixed_dictionaries(each).map(made)

    return drawn


@pytest.mark.parametrize("name", HELD)
def test_a_value_of_an_option_is_read_back(name):
    one = values(held(HELD[name]), TABLES)
    several = typing.get_origin(HELD[name]) is tuple

    @settings(max_examples=80)
    @given(st.lists(one, max_size=3).map(tuple) if several else one)
    def holds(value):
        assert config.given({name: value}) == {name: value}
        for text in (text_of(value), brief(value)):
            again = read_option(HELD[name], text, TABLES)
            assert again == value
            assert type(again) is type(value)

    holds()


@settings(max_examples=300)
@given(drawn_of(TABLES)(Held))
def test_a_value_of_ones_own_is_read_back(value):
    assert config.given({"model.score": value}) == {"model.score": value}
    for text in (str(value), value.brief()):
        assert read(Score, text) == value
    assert config.parse([f"--model.score={value}"]).model.score == value


def test_how_settings_are_written():
    value = Held(on=True, words="two words", widths=(3,), tau=None, way=3, side=Side.RIGHT)
    assert value.brief() == (
        f"{__name__}:Held(on=True,words='two words',widths=(3,),tau=None,way=3,side=RIGHT)"
    )
    assert str(Held(words="if")).startswith(f"{__name__}:Held(on=False,words='if',widths=(1,2)")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("on=yes", "on must be a bool, got 'yes'"),
        ("way=typo", "way must be one of 'sum', 'mean', 3, got 'typo'"),
        ("side=up", "side must be one of LEFT, RIGHT, got 'up'"),
        ("widths=(1,x)", r"widths must be a tuple\[int, \.\.\.\], got \(1, 'x'\)"),
        ("widths=3", r"widths must be a tuple\[int, \.\.\.\], got 3"),
        ("pair=(a,)", r"pair must be a tuple\[str, float\], got \('a',\)"),
        ("tau=x", r"tau must be a float \| None, got 'x'"),
        ("words=3", "words must be a str, got 3"),
        ("scale=9", "scale must be at least 0 and at most 8, got 9"),
    ],
)
def test_settings_of_another_type_are_refused(text, told):
    with pytest.raises(InputError, match=f"Held: {told}|held: {told}"):
        read(Score, f"{__name__}:Held({text})")


def made_elsewhere():
    class Held(Score):
        def score(self, p, query, keys, past):
            return keys @ query

    return Held()


def dot(query, keys):
    return keys @ query


@functools.wraps(dot)
def wrapped(query, keys):
    return -dot(query, keys)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (wrapped, "test_round_trips:dot, but this names"),  # another function than it is
        (made_elsewhere(), r"test_round_trips:Held, but this names .*Held\(on=False"),
        (lambda query, keys: keys @ query, "malformed score"),
    ],
)
def test_what_a_run_could_not_record_is_refused_by_name(value, why):
    with pytest.raises(InputError, match=rf"^a run could not record model\.score=.*{why}"):
        config.given({"model.score": value})
