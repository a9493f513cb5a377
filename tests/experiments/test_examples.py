"""Text that a program cannot use."""

import pytest

from attn_jax.config import Data
from attn_jax.data.pairs import Example
from attn_jax.data.run_vocabularies import build_vocabulary
from attn_jax.data.text_checks import check_known, counts_of
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
