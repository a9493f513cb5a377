"""Options of decoding that cannot be used are refused before there is a model."""

import pytest

from attn_jax.decoding.options import search_of
from attn_jax.errors import InputError


@pytest.mark.parametrize(
    ("penalty", "message"),
    [
        ("gmnt", "did you mean gnmt"),
        ("gnmt(beta=1)", "unknown setting of gnmt 'beta'"),
        ("gnmt(alpha=-1)", "alpha must be at least 0"),
    ],
)
def test_a_wrong_length_penalty(penalty, message):
    with pytest.raises(InputError, match=message):
        search_of({"beam_size": 2, "length_penalty": penalty})
