"""Text that a program cannot use."""

import pytest

from attn_jax.config import Data
from attn_jax.data.examples import check_known
from attn_jax.data.pairs import Pair
from attn_jax.data.vocabularies import build_vocabulary
from attn_jax.errors import InputError


@pytest.mark.parametrize("level", ["word", "character", "symbol", "subword"])
def test_a_run_that_knows_nothing_of_a_text_is_no_start_for_it(level):
    vocabulary = build_vocabulary(level, ["ein haus am see"] * 2, Data(subwords=40))
    known, unknown = map(vocabulary.encode, ("жук haus", "жук щ"))
    for side in ("source", "target"):
        pair = Pair(known, known)._replace(**{side: unknown})
        with pytest.raises(InputError, match=f"the run in runs/old knows no {side} token of the"):
            check_known("runs/old", [pair] * 2, vocabulary, vocabulary)
        check_known("runs/old", [pair, Pair(known, known)], vocabulary, vocabulary)
