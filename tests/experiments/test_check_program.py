"""`./launch.sh check`: a line for each check, and a status for scripts."""

import pytest

from attn_jax.checks.losses import CHECKS as OF_LOSSES
from attn_jax.checks.mechanisms import CHECKS
from tests.experiments.programs import program, refused, works
from tests.stages import full

pytestmark = full

PARTS = """
import jax
from attn_jax import Loss, Score, scaled_normal

class MyScore(Score):
    sharpness: float = 1.0

    def init(self, rng, Q, D):
        return {"W": scaled_normal(rng, (Q, D))}

    def score(self, p, query, keys, past):
        return self.sharpness * keys @ (query @ p["W"])

class LooksBack(MyScore):
    def score(self, p, query, keys, past):
        return super().score(p, query, keys, past) - past.total

class NoScore:
    pass

class MyLoss(Loss):
    def loss(self, seen):
        return (1 - seen.weights.max(axis=1)).sum(where=seen.target_mask)

def forgets(scores, mask):
    return jax.nn.softmax(scores)
"""


@pytest.fixture
def place(tmp_path):
    (tmp_path / "my_score.py").write_text(PARTS)
    return {"PYTHONPATH": str(tmp_path)}


def test_a_part_that_passes(place):
    done = works("check", "my_score:MyScore(sharpness=2)", "--query_size=5", **place)
    first, *lines = done.stdout.splitlines()
    assert first == (
        "my_score:MyScore(sharpness=2.0), with queries of 5 and annotations of 32 features"
    )
    assert lines == [f"ok     {check.holds}" for check in CHECKS if check.of_all]


def test_a_loss(place):
    done = works("check", "my_score:MyLoss(weight=2)", **place)
    first, *lines = done.stdout.splitlines()
    assert first == "my_score:MyLoss(weight=2.0,head=all)"
    assert lines == [f"ok     {check.holds}" for check in OF_LOSSES]


def test_a_part_that_fails(place):
    done = program("check", "my_score:LooksBack", **place)
    assert done.returncode == 1, done.stderr
    assert 'reads past.total: give its class reads = ("total",)' in done.stdout
    assert not done.stderr


def test_a_function_is_checked_as_what_the_flags_say(place):
    done = program("check", "dot", "--normalizer=my_score:forgets", **place)
    assert done.returncode == 1, done.stderr
    assert "FAILS  positions where the mask is False get a weight of 0." in done.stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["my_scores:MyScore"], "cannot use 'my_scores:MyScore' as a part: No module named"),
        (["my_score:MyScores"], "has no attribute 'MyScores'"),
        (["my_score:NoScore"], "'my_score:NoScore' is no part: it is not derived from one of"),
        (["my_score:MyScore(speed=2)"], "unknown setting of my_score:MyScore 'speed'"),
        (["aditive"], "unknown part 'aditive' (did you mean additive?)"),
        (["my_score:MyScore", "--score=dot"], "is a score already: leave out --score"),
        (["my_score:MyLoss", "--score=dot"], "my_score:MyLoss is a loss: leave out --score"),
        (["entropy", "--query_size=5"], "a loss sees no queries or annotations"),
        (["sparsemax", "--window=local_m"], "--score is missing: the score for sparsemax"),
        (["my_score:MyScore", "--query_size=0"], "query_size"),
        (["my_score:MyScore", "additive"], "'additive' is not a flag"),
        ([], "--part is missing"),
    ],
)
def test_what_cannot_be_checked_is_refused(place, arguments, told, monkeypatch):
    monkeypatch.syspath_prepend(place["PYTHONPATH"])
    assert told in refused("check", *arguments)
