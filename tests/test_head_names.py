"""Names of heads, as a user writes them."""

import pytest

from attn_jax.errors import InputError
from attn_jax.head_names import find_head


def test_heads_are_counted_from_1():
    assert find_head("mean", 2, 3, "--head") is None
    assert find_head("2.1", 2, 3, "--head") == (1, 0)


@pytest.mark.parametrize("name", ["2", "2.", "a.b", "²·1", "2.1.1", f"{'1' * 5000}.1", "1.-1", ""])
def test_what_is_no_head_is_refused(name):
    with pytest.raises(InputError, match=r"--head must be mean or layer\.head as in 2\.1, got"):
        find_head(name, 2, 3, "--head")


@pytest.mark.parametrize("name", ["0.1", "3.1", "1.4"])
def test_a_head_that_the_model_lacks_is_refused(name):
    with pytest.raises(InputError, match=r"does not exist: the model's last head is 2\.3"):
        find_head(name, 2, 3, "--head")
