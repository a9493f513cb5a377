"""All measurements of a model, on what a made-up one says."""

from types import SimpleNamespace

import numpy as np
import pytest

from attn_jax.data.sentences import Example
from attn_jax.data.vocabulary import Characters, Symbols
from attn_jax.evaluation.assess import assess


def assessed(kind, said, wanted, tokenizer="13a", **options):
    """What is measured of a model that says these texts where others are wanted."""
    vocabulary = kind([])
    weights = np.ones((1, 1, 2, 1))

    def translate(sources, first):
        return [
            SimpleNamespace(
                text=text, tokens=vocabulary.cut(text).tokens, log_probability=0.0, weights=weights
            )
            for text in said[first : first + len(sources)]
        ]

    def force(sources, targets):
        forced = SimpleNamespace(log_probabilities=[-1.0], correct=[True], weights=weights)
        return [forced] * len(targets)

    model = SimpleNamespace(source=vocabulary, target=vocabulary, translate=translate, force=force)
    return assess(model, [Example("x", text) for text in wanted], tokenizer, {}, **options)


@pytest.mark.parametrize(
    ("kind", "tokenizer", "said", "wanted", "words", "symbols"),
    [
        (Characters, "13a", "a cat sits", "the cat sits", 100 / 3, 100 * 3 / 12),
        # Where no spaces tell words apart, the tokenisation of BLEU does.
        (Characters, "zh", "猫坐在垫子上", "狗坐在垫子上", 100 / 6, 100 / 6),
        # But symbols spell a single word.
        (Symbols, "13a", "k a t", "k a p", 100, 100 / 3),
    ],
)
def test_errors_in_words_and_in_symbols(kind, tokenizer, said, wanted, words, symbols):
    metrics = assessed(kind, [said], [wanted], tokenizer).metrics
    assert metrics["word_error_rate"] == pytest.approx(words)
    assert metrics["symbol_error_rate"] == pytest.approx(symbols)
    assert metrics["exact_match"] == 0
    assert assessed(kind, [wanted], [wanted], tokenizer).metrics["exact_match"] == 100


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_weights_are_kept_of_the_first_sentences_and_the_first_wrong_ones(parts):
    """However many processes share the sentences."""
    said, wanted = list("axaxxaxx"), ["a"] * 8

    def one_of(nth):
        return lambda count: slice(nth * count // parts, (nth + 1) * count // parts)

    def of_all(own):
        measured.append(own)
        return [own]

    measured = []
    for nth in range(parts):
        options = {"pictured": 2, "wrong": 3, "share": one_of(nth), "gathered": of_all}
        assessed(Symbols, said, wanted, "none", **options)
    options["gathered"] = lambda _: measured
    kept = assessed(Symbols, said, wanted, "none", **options).pictured
    assert list(kept) == [0, 1, 3, 4, 6]
    assert [one.hypothesis.text for one in kept.values()] == list("axxxx")
