"""Figures that tell whether weights matter, from what a made-up model says."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.stats

from attn_jax.data.vocabulary import Symbols
from attn_jax.decoding.explanations import Explained
from attn_jax.evaluation.explanations import explanations, rank_agreement


def tau_b(first, second):
    """Kendall's τ by its definition: over all pairs, those with ties left out of each root."""
    n = len(first)
    signs = [
        (np.sign(first[i] - first[j]), np.sign(second[i] - second[j]))
        for i in range(n)
        for j in range(i)
    ]
    ours, theirs = np.array(signs).T
    return (ours * theirs).sum() / np.sqrt((ours**2).sum() * (theirs**2).sum())


def test_rank_agreement_is_kendalls_tau():
    generator = np.random.default_rng(0)
    weights = generator.dirichlet(np.ones(6), 4)
    weights[0, 1:4] = weights[0, 0]  # ties
    importance = np.abs(generator.normal(size=(4, 6)))
    found = rank_agreement(weights, importance)
    pairs = list(zip(weights, importance, strict=True))
    assert found == pytest.approx([tau_b(*pair) for pair in pairs])
    assert found == pytest.approx([scipy.stats.kendalltau(*pair).statistic for pair in pairs])
    assert rank_agreement(weights, weights) == pytest.approx(1)
    assert rank_agreement(weights, -weights) == pytest.approx(-1)
    assert np.isnan(rank_agreement(np.ones((1, 6)), importance[:1])).all()


def model(explain):
    return SimpleNamespace(source=Symbols([]), explain=explain)


def test_figures_are_means_over_target_tokens():
    weights = np.array([[0.6, 0.4], [0.5, 0.5]])
    importance = np.array([[1.0, 2.0], [1.0, 2.0]])
    short = Explained(*np.array([[-1.0], [-5.0], [-2.0], [-4.0]]), weights[:1], importance[:1])
    long = Explained(
        *np.array([[-1.0] * 2, [-2.0] * 2, [-1.0] * 2, [-1.0] * 2]), weights, importance
    )

    def explain(sources, targets):
        assert [source.tokens for source in sources] == [["a", "b"], ["b", "a"]]
        assert targets == ["x", "z"]
        return [short, long]

    found = explanations(model(explain), ["a b", "a", "b a"], ["x", "y", "z"])
    assert found == {
        "sentences": 2,
        "tokens": 3,
        "without_most": 2.0,
        "without_random": pytest.approx(1 / 3),
        "uniform": 1.0,
        "rank_agreement": -1.0,  # of the two tokens where the weights are not all the same
    }


def test_without_ranks_there_is_no_agreement():
    numbers = np.array([[-1.0]] * 4)
    same = Explained(*numbers, np.array([[0.5, 0.5]]), np.array([[1.0, 2.0]]))
    found = explanations(model(lambda *_: [same]), ["a b"], ["x"])
    assert "rank_agreement" not in found


def test_sentences_of_one_token_have_no_figures():
    assert explanations(model(lambda *_: []), ["a", "b"], ["x", "y"]) == {}
