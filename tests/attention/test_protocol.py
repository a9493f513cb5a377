"""Parts are values: their settings, what they declare, and what they are in text."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attn_jax import (
    NORMALIZERS,
    SCORES,
    WINDOWS,
    InputError,
    Mechanism,
    Normalizer,
    Part,
    Score,
    Window,
    attend_all,
    inner,
    scaled_normal,
    setting,
)
from attn_jax.attention.compositions import Pair, Projected
from attn_jax.attention.monotonic import Mocha, Monotonic
from attn_jax.attention.moving_scores import Gmm
from attn_jax.attention.normalizers import Temperature
from attn_jax.attention.offset_scores import Relative
from attn_jax.attention.position_scores import LocationAware
from attn_jax.attention.scores import Additive, Concat, Dot, General
from attn_jax.attention.sparse_normalizers import Entmax
from attn_jax.attention.windows import LocalM, LocalP
from attn_jax.config.reading import read


class Weighted(Score):
    """A score with settings of each kind."""

    tau: float = setting(1.0, above=0)
    count: int = setting(2, low=1, high=4)

    def score(self, p, query, keys, past):
        return keys @ query / self.tau


class Nested(Score):
    compared: Score = inner()
    factor: float = 1.0

    def score(self, p, query, keys, past):
        return self.factor * self.compared.score(p, query, keys, past)


class Named(Score):
    """One whose score is given by its name alone."""

    compared: Score

    def score(self, p, query, keys, past):
        return self.compared.score(p, query, keys, past)


class Counting(Score):
    """A score with a state."""

    def start(self, p, mask):
        return jnp.zeros(())

    def advance(self, p, query, keys, past):
        return past.own + 1

    def score(self, p, query, keys, past):
        return keys @ query * past.own


class HandsOn(Nested):
    """A score that hands the state of another on."""

    def start(self, p, mask):
        return self.compared.start(p, mask)

    def advance(self, p, query, keys, past):
        return self.compared.advance(p, query, keys, past)


def test_a_state_is_handed_on_or_refused():
    advice = r"takes no part with a state of its own, got .*:Counting: it has no `start` and"
    with pytest.raises(InputError, match=advice):
        Nested(Counting())
    with pytest.raises(InputError, match=advice.replace("Counting", "HandsOn")):
        Nested(HandsOn(Counting()))
    queries, annotations = jnp.ones((3, 2)), jnp.arange(8.0).reshape(4, 2)
    found, expected = (
        attend_all(score, {}, queries, annotations) for score in (HandsOn(Counting()), Counting())
    )
    np.testing.assert_array_equal(found[1], expected[1])
    assert not np.allclose(found[1][0], found[1][1])


def test_a_part_is_a_value():
    assert Weighted(tau=2) == Weighted(tau=2.0) != Weighted(tau=3)
    assert hash(Weighted(tau=2)) == hash(Weighted(tau=2.0))
    assert type(Weighted(tau=2).tau) is float
    assert type(Weighted(count=np.int32(3)).count) is int
    assert Temperature(tau=2) == Temperature(tau=2.0)
    assert Weighted() != Nested(Dot())
    assert len({Weighted(), Weighted(tau=1, count=2), Weighted(count=3)}) == 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        Weighted().tau = 3.0


def test_equal_parts_share_a_compiled_program():
    traced = []

    @jax.jit(static_argnums=0)
    def scaled(part, x):
        traced.append(part)
        return x / part.tau

    for tau in (2, 2.0, np.float32(2)):
        assert scaled(Weighted(tau=tau), jnp.ones(())) == 0.5
    assert traced == [Weighted(tau=2)]


def test_settings_have_names_except_inner_parts():
    with pytest.raises(InputError, match=r"^Weighted: 2\.0 stands without a name; .*: tau, count$"):
        Weighted(2.0)
    with pytest.raises(InputError, match=r"^Counting has no settings, got '3'$"):
        Counting(3)
    hint = r"; allowed: compared; declared as `compared: Score = inner\(\)`, it needs no name$"
    with pytest.raises(InputError, match=rf"^Named: dot stands without a name{hint}"):
        Named(Dot())
    with pytest.raises(InputError, match=rf"^{__name__}:Named: dot stands without a name{hint}"):
        read(Score, f"{__name__}:Named(dot)")
    with pytest.raises(InputError, match=r"needs compared: .*:Named\(compared=…\)$"):
        read(Score, f"{__name__}:Named")
    assert Nested(Dot(), factor=2) == Nested(compared=Dot(), factor=2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Weighted(tau=jnp.ones(())),
            "tau must be a plain number: arrays are parameters",
        ),
        (lambda: Weighted(tau=np.ones(2)), "weighted: tau must be a plain number"),
        (lambda: Weighted(tau="2"), "weighted: tau must be of type float, got '2'"),
        (lambda: Weighted(tau=None), "weighted: tau must be of type float, got None"),
        (lambda: Weighted(tau=True), "weighted: tau must be of type float, got True"),
        (lambda: Weighted(tau=float("nan")), "weighted: tau must be of type float, got nan"),
        (lambda: Weighted(tau=float("inf")), "weighted: tau must be of type float, got inf"),
        (lambda: Weighted(count=2.5), r"weighted: count must be of type int, got 2\.5"),
        (lambda: Weighted(tau=0), "weighted: tau must be more than 0, got 0"),
        (lambda: Weighted(count=0), "weighted: count must be at least 1 and at most 4, got 0"),
        (lambda: Weighted(count=5), "weighted: count must be at least 1 and at most 4, got 5"),
        (lambda: Nested(3), "nested: compared must be a Score, got 3"),
        (lambda: Nested(LocalM()), "nested: compared must be a Score, got LocalM"),
        (lambda: Nested(Dot), "nested: compared must be a Score, got <class"),
        (lambda: Entmax(alpha=1), r"entmax: alpha must be at least 1\.0001 and at most 3, got 1"),
        (lambda: Entmax(alpha=4), "alpha must be .* at most 3, got 4"),
        (lambda: Temperature(tau=0), "temperature: tau must be more than 0"),
        (lambda: Monotonic(noise=-1), "monotonic: noise must be at least 0, got -1"),
        (lambda: Mocha(chunk=0), "mocha: chunk must be at least 1"),
        (lambda: LocalM(half_width=0), "local_m: half_width must be at least 1"),
        (lambda: LocalP(units=0), "local_p: units must be at least 1"),
        (lambda: Relative(distance=0), "relative: distance must be at least 1"),
        (lambda: LocationAware(width=0), "location_aware: width must be at least 1"),
        (lambda: Gmm(components=0), "gmm: components must be at least 1"),
        (lambda: Projected(Dot(), units=0), "projected: units must be at least 1"),
        (lambda: Additive(units=0), "additive: units must be at least 1"),
    ],
)
def test_settings_are_checked(make, message):
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize(
    "name", ["query", "keys", "start", "hidden", "reads", "name", "word", "settings"]
)
def test_a_setting_is_not_named_as_what_the_protocol_uses(name):
    typed = {"__annotations__": {name: tuple}, name: ("step",), "__module__": __name__}
    message = rf"Mine has a setting {name}, which \w+ has another use for: .* leave out its type"
    with pytest.raises(InputError, match=message):
        type("Mine", (Score,), typed)


def test_a_subclass_may_change_the_default_of_a_setting():
    class Sharper(Weighted):
        tau: float = setting(0.5, above=0)

    assert Sharper().settings() == {"tau": 0.5, "count": 2}


def test_what_the_protocol_means_is_set_without_a_type():
    class Mine(Score):
        hidden = True
        default_normalizer = Entmax
        reads: ClassVar = ("step",)

    assert Mine.hidden
    assert Mine().settings() == {}
    assert Mine().reads == ("step",)


def test_what_a_part_reads_is_carried():
    with pytest.raises(InputError, match="Mine reads weigths; a part can read step, weights, tot"):
        type("Mine", (Window,), {"reads": ("weigths", "step")})
    assert type("Mine", (Window,), {"reads": "weights"}).reads == ("weights",)


@pytest.mark.parametrize("kind", [Score, Window, Normalizer])
@pytest.mark.parametrize("method", ["start", "advance"])
def test_a_state_starts_and_advances(kind, method):
    with pytest.raises(InputError, match="Mine has only one of `start` and `advance`"):
        type("Mine", (kind,), {method: lambda self, *inputs: inputs[-1]})


def test_a_subclass_has_the_settings_the_state_and_the_reads_of_its_base():
    class Slower(Gmm):
        delay: float = 2.0

    class Other(LocationAware):
        pass

    assert Slower().settings() == {"components": 3, "delay": 2.0}
    assert Slower().is_stateful
    assert Other.reads == ("weights",)


def test_parts_are_told_by_the_parts_they_hold():
    nested = Nested(Projected(Additive()))
    assert [part.name for part in nested.parts()] == ["nested", "projected", "additive"]


class Both(Score):
    """Where to stop, and how much of each position to read."""

    scores = 2

    def init(self, rng, Q, D):
        return {"W": scaled_normal(rng, (2, Q, D))}

    def score(self, p, query, keys, past):
        return (query @ p["W"]) @ keys.T


def test_a_score_may_give_two(generator):
    mechanism, pair = (Mechanism(score, normalizer=Mocha()) for score in (Both(), General()))
    assert mechanism.score == Both()
    assert pair.score == Pair(General(), General())
    W, queries, annotations = (generator.normal(size=size) for size in ((2, 3, 4), (5, 3), (6, 4)))
    rest = {"values": {}, "gate": {}, "window": {}, "normalizer": {"r": np.array(0.5)}}
    of_pair = {"first": {"W": W[0]}, "second": {"W": W[1]}}
    _, weights = attend_all(mechanism, rest | {"score": {"W": W}}, queries, annotations)
    _, expected = attend_all(pair, rest | {"score": of_pair}, queries, annotations)
    np.testing.assert_allclose(weights, expected, rtol=1e-5)
    with pytest.raises(InputError, match="needs a normalizer that takes two"):
        Mechanism(Both())


@pytest.mark.parametrize("shape", [(), (400,), (400, 100), (25, 40, 40)])
def test_the_scale_of_inputs_is_kept(shape):
    draws = jax.vmap(lambda rng: scaled_normal(rng, shape))(jax.random.split(jax.random.key(0), 50))
    assert draws.shape == (50, *shape)
    expected = (shape[0] if shape else 1) ** -0.5
    np.testing.assert_allclose(draws.std(), expected, rtol=0.05 if shape else 0.3)


def another(value):
    """A setting that differs, and is within the same bounds."""
    if isinstance(value, Score):
        return Concat()
    if isinstance(value, tuple):
        return (*value, 2)
    return value + 1 if isinstance(value, int) else 0.75 * value


def changed(one):
    """A part with settings none of which is the default."""
    return one(**{name: another(value) for name, value in one().settings().items()})


PARTS = [
    (kind, one)
    for kind, table in ((Score, SCORES), (Window, WINDOWS), (Normalizer, NORMALIZERS))
    for one in table.values()
]


@pytest.mark.parametrize(("kind", "one"), PARTS, ids=[one.name for _, one in PARTS])
def test_text_and_value_are_the_same(kind, one):
    part = changed(one)
    assert read(kind, str(part)) == part
    assert read(kind, part.brief()) == part
    assert read(kind, str(one())) == read(kind, one.name) == one()
    assert one().brief() == one.name
    assert all(f"{name}=" in str(one()) for name in part.settings())


@pytest.mark.parametrize(
    ("part", "text", "brief"),
    [
        (
            Pair(Additive(units=3), Projected(Dot(), units=2)),
            "pair(additive(units=3),projected(dot,units=2))",
            "pair(additive(units=3),projected(dot,units=2))",
        ),
        (
            Projected(Additive()),
            "projected(additive(units=128),units=128)",
            "projected(additive)",
        ),
        (
            Projected(Relative(distance=4), units=2),
            "projected(relative(distance=4),units=2)",
            "projected(relative(distance=4),units=2)",
        ),
        (
            Weighted(tau=1e-9),
            "tests.attention.test_protocol:Weighted(tau=1e-09,count=2)",
            "tests.attention.test_protocol:Weighted(tau=1e-09)",
        ),
        (
            Nested(Weighted(count=3), factor=-1e20),
            "tests.attention.test_protocol:Nested("
            "tests.attention.test_protocol:Weighted(tau=1.0,count=3),factor=-1e+20)",
            "tests.attention.test_protocol:Nested("
            "tests.attention.test_protocol:Weighted(count=3),factor=-1e+20)",
        ),
        (
            Pair(Nested(Dot()), General()),
            "pair(tests.attention.test_protocol:Nested(dot,factor=1.0),general)",
            "pair(tests.attention.test_protocol:Nested(dot),general)",
        ),
    ],
)
def test_text_of_nested_parts_and_of_ones_own(part, text, brief):
    assert str(part) == text
    assert part.brief() == brief
    assert read(Score, text) == read(Score, brief) == part


def test_names_on_the_command_line_are_those_of_classes():
    names = {one: name for table in (SCORES, WINDOWS, NORMALIZERS) for name, one in table.items()}
    assert all(one.name == name for one, name in names.items())
    assert LocationAware.name == "location_aware"
    assert type("Own2Score", (Part,), {}).name == "own2_score"
