"""How parts are named and read."""

import importlib.util

import numpy as np
import pytest

from attn_jax import (
    NORMALIZERS,
    SCORES,
    InputError,
    Mechanism,
    Normalizer,
    Score,
    Window,
    attend_all,
    config,
    scaled_normal,
)
from attn_jax.attention.compositions import Pair, Projected
from attn_jax.attention.position_scores import Coverage, LocationAware
from attn_jax.attention.scores import Dot, General
from attn_jax.attention.sparse_normalizers import Entmax
from attn_jax.attention.windows import LocalM
from attn_jax.config import model
from attn_jax.config.reading import read
from attn_jax.settings.fields import fields
from experiments.catalogue import catalogue as page
from tests.attention import oracle
from tests.attention.cases import as_arrays

HERE = __name__


def in_the_user_s_module(query, keys):
    return keys @ query


class Own(Score):
    sharpness: float = 2.0

    def score(self, p, query, keys, past):
        return self.sharpness * (keys @ query)


@pytest.mark.parametrize(
    ("kind", "text", "part"),
    [
        (Normalizer, "entmax(alpha=1.25)", Entmax(alpha=1.25)),
        (Normalizer, " entmax( alpha = 1.25 ) ", Entmax(alpha=1.25)),
        (Normalizer, "entmax()", Entmax()),
        (Normalizer, "entmax(alpha=2)", Entmax(alpha=2.0)),
        (Score, "location_aware(width=3, filters=2)", LocationAware(width=3, filters=2)),
        (Score, "coverage(fertility=1_0.5e-1)", Coverage(fertility=1.05)),
        (
            Score,
            "pair(general, projected(dot, units=3))",
            Pair(General(), Projected(Dot(), units=3)),
        ),
        (Score, "projected(compared=dot)", Projected(Dot())),
        (Score, "pair(second=dot, first=general)", Pair(General(), Dot())),
        (Score, f"{HERE}:Own(sharpness=3)", Own(sharpness=3)),
        (Score, f"projected({HERE}:Own)", Projected(Own())),
        (Window, "local_m(half_width=3)", LocalM(half_width=3)),
    ],
)
def test_reads_parts_with_their_settings(kind, text, part):
    assert read(kind, text) == part


def test_a_plain_function_is_read_by_its_module_and_name():
    mechanism = Mechanism(read(Score, f"{HERE}:in_the_user_s_module"))
    assert mechanism == Mechanism(in_the_user_s_module)
    assert str(mechanism.score) == f"{HERE}:in_the_user_s_module"


def test_runs_record_all_settings_without_importing_the_user_s_code():
    for text, (full, brief) in {
        "additive": ("additive(units=128)", "additive"),
        " projected( dot )": ("projected(dot,units=128)", "projected(dot)"),
        "projected(dot,units=3)": ("projected(dot,units=3)", "projected(dot,units=3)"),
        "no_such_module:f( a=1 )": ("no_such_module:f(a=1)", "no_such_module:f(a=1)"),
    }.items():
        (score,) = config.given({"model.score": text}).values()
        assert (config.text_of(score), config.brief(score)) == (full, brief)


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        (
            Score,
            "bilinear",
            r"unknown score 'bilinear' \(did you mean linear\?\), or .* own",
        ),
        (Window, "local", r"unknown window 'local'.*allowed: full, local_m, local_p,"),
        (Normalizer, "sparse_max", "did you mean sparsemax"),
        (Score, "scaled-dot", "did you mean scaled_dot"),
        (Score, "softmax", "unknown score 'softmax'"),
        (Score, "projected(bilinear)", "unknown score 'bilinear'"),
        (Normalizer, "entmax(beta=2)", "unknown setting of entmax 'beta'; allowed: alpha"),
        (Normalizer, "entmax(alpha=x)", "alpha must be of type float, got 'x'"),
        (Normalizer, "entmax(alpha=dot(a=1))", r"alpha must be of type float, got 'dot\(a=1\)'"),
        (Score, "additive(units=1.5)", r"units must be of type int, got 1\.5"),
        (Normalizer, "entmax(alpha=9)", "entmax: alpha must be .* at most 3, got 9"),
        (Normalizer, "entmax(alpha", r"malformed normalizer 'entmax\(alpha': write name, or name"),
        (Normalizer, "entmax(alpha=)", "malformed normalizer"),
        (Normalizer, "entmax(alpha=1.5", "malformed normalizer"),
        (Normalizer, "entmax(alpha=1.5))", "malformed normalizer"),
        (Normalizer, "entmax alpha", "malformed normalizer"),
        (Normalizer, "", "malformed normalizer"),
        (Normalizer, "1.5", "1.5 is not a normalizer"),
        (Normalizer, "entmax(alpha=$1)", "malformed normalizer"),
        (Score, "additive+dot", "malformed score"),
        (Normalizer, "entmax(alpha=1.5, alpha=2)", "gives alpha twice"),
        (Score, "projected(dot,compared=general)", "gives compared twice"),
        (Score, "pair(first=dot,general)", "malformed score"),
        (Score, "additive(units=1_)", "malformed score"),
        (Score, "additive(units=1__0)", "malformed score"),
        (Score, f"additive(units={'9' * 5000})", "malformed score"),
        (Score, "(" * 5000 + "dot" + ")" * 5000, "malformed score"),
        (Score, "dot(**{})", "malformed score"),
        (Score, "additive(units=~3)", "malformed score"),
        (Score, "additive(units=not 3)", "malformed score"),
        (Score, "additive(units=-3)", "units must be at least 1, got -3"),
        (Score, "'dot'", "dot is not a score"),
        (Score, "None", "None is not a score"),
        (Normalizer, "entmax(1.5)", r"entmax: 1\.5 stands without a name; allowed: alpha"),
        (Score, "dot(width=3)", "dot has no settings, got 'width'"),
        (Score, "dot(3)", "dot has no settings, got '3'"),
        (Score, "pair(dot)", r"pair needs second: pair\(first, second\)"),
        (Score, "projected", r"projected needs compared: projected\(compared\)"),
        (Score, "projected(3)", "3 is not a score"),
        (Score, "pair(dot, dot, dot)", "pair: dot stands without a name; allowed: first, second"),
        (Score, "projected(sparsemax)", "unknown score 'sparsemax'"),
        (Score, "projected(pair(dot, dot), units=2", "malformed score"),
        (Score, "pair(pair(dot, dot), dot)", "a pair consists of two scores, not of pairs"),
        (Score, "pair(gmm, dot)", "pair takes no part with a state of its own, got gmm"),
        (Score, "projected(gmm)", "projected takes no part with a state of its own, got gmm"),
        (
            Score,
            f"{HERE}:in_the_user_s_module(a=1)",
            "in_the_user_s_module is a function, which has no settings: write a class derived from "
            r"attn_jax\.Score",
        ),
        (Window, f"{HERE}:Own", r"Own' as a window: it is not derived from attn_jax\.Window"),
        (Score, f"{HERE}:Own(sharp=1)", "unknown setting of .*:Own 'sharp' .*allowed: sharpness"),
        (Score, "my_score.py:f", r"write module:name, without \.py"),
        (
            Score,
            "no_such_module:f",
            "cannot use 'no_such_module:f' as a score: .*No module named 'no_such_module'; Python "
            "looks for it on PYTHONPATH, and last in the current folder",
        ),
        (Score, "math:no_such_function", "cannot use"),
        (Score, "math:pi", "it is not a function or class"),
        (Score, "fractions:Fraction", "it is not derived from attn_jax.Score"),
    ],
)
def test_refuses_what_does_not_exist(kind, text, message):
    with pytest.raises(InputError, match=message):
        read(kind, text)


class Bilinear(Score):
    """s · M h_j, with a matrix of its own.

    Paper: none, section 0.
    Cost: time T S Q D, memory T S.
    """

    gives_logarithms = True

    def init(self, rng, Q, D):
        return {"M": scaled_normal(rng, (Q, D))}

    def score(self, p, query, keys, past):
        return keys @ (query @ p["M"])


def test_a_new_score_is_a_class_a_line_in_a_table_and_an_oracle(monkeypatch, generator):
    monkeypatch.setitem(SCORES, "bilinear", Bilinear)

    assert read(Score, "bilinear") == Bilinear()
    assert read(Score, "pair(bilinear, projected(bilinear))").first == Bilinear()
    with pytest.raises(InputError, match=r"unknown score 'bilinaer' \(did you mean bilinear\?\)"):
        read(Score, "bilinaer")

    # The help is made as the options are defined.
    spec = importlib.util.spec_from_file_location("model_again", model.__file__)
    again = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(again)
    help = dict(fields(again.Model))["score"].metadata["help"]
    assert "bilinear" in help

    row = next(row for row in page(SCORES).to_numpy().tolist() if row[0] == "`bilinear`")
    assert row[1:3] == ["s · M h_j, with a matrix of its own", "M [Q, D]"]

    assert Mechanism(Bilinear(), normalizer=NORMALIZERS["exponential"]())
    p = {"M": generator.normal(size=(3, 2))}
    queries, annotations = generator.normal(size=(4, 3)), generator.normal(size=(5, 2))
    contexts, alignment = attend_all(Bilinear(), *as_arrays((p, queries, annotations)))

    def loop(query, annotations, mask, past, *, M):
        return oracle.general(query, annotations, mask, past, W=M)

    expected = oracle.attend(
        queries, annotations, [True] * 5, lambda *a: loop(*a, **p), oracle.full, oracle.softmax
    )
    np.testing.assert_allclose(contexts, expected[0], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(alignment, expected[1], rtol=1e-5, atol=1e-5)
