"""Text that a program cannot use."""

import contextlib

import pytest

from attn_jax.config import Data
from attn_jax.data.run_vocabularies import build_vocabulary
from attn_jax.data.sentences import Example
from attn_jax.data.text_checks import check_known, counts_of, unknown_shares
from attn_jax.data.two_sources import TwoSources
from attn_jax.errors import InputError


@pytest.mark.parametrize("level", ["word", "character", "symbol", "subword"])
def test_a_run_that_knows_nothing_of_a_text_is_no_start_for_it(level):
    vocabulary = build_vocabulary(level, ["ein haus am see"] * 2, Data(subwords=40))
    known, unknown = map(vocabulary.cut, ("жук haus", "жук щ"))

    def check(*pairs):
        counts = counts_of(pairs, vocabulary, vocabulary)
        check_known("runs/old", counts, vocabulary, vocabulary)

    for side in ("source", "target"):
        pair = Example(known, known)._replace(**{side: unknown})
        with pytest.raises(InputError, match=f"the run in runs/old knows no {side} token of the"):
            check(pair, pair)
        check(pair, Example(known, known))


def test_tags_alone_are_no_start_for_a_text():
    first = build_vocabulary("character", ["ein haus"], Data())
    source = TwoSources(first, build_vocabulary("tag", ["N;PL"], Data()))
    target = build_vocabulary("character", ["haus"], Data())
    for text, is_known in (("haus\tN;PL", True), ("жук\tN;PL", False), ("haus\tX", True)):
        counts = counts_of([Example(source.cut(text), target.cut("haus"))], source, target)
        told = pytest.raises(InputError, match="knows no source token of the training text")
        with contextlib.nullcontext() if is_known else told:
            check_known("runs/old", counts, source, target)


def test_tokens_that_do_not_suit_the_text_are_told():
    lemmas, forms = ["haus"] * 5, ["haus", "haus", "hause", "hauses", "häuser"]  # three once only
    source, target = (build_vocabulary("word", side, Data()) for side in (lemmas, forms))

    def told(target):
        pairs = [Example(source.cut(a), target.cut(b)) for a, b in zip(lemmas, forms, strict=True)]
        return unknown_shares({"training": counts_of(pairs, source, target)}, source, target)

    assert told(target).splitlines() == [
        "unknown source and target tokens: 0.0 and 60.0 % of training",
        "most target tokens of the training text are unknown: would other tokens suit it, such as "
        "--data.target_level=character?",
    ]
    assert told(build_vocabulary("character", forms, Data())) is None
