"""Heads, as a user writes them."""

import jax.numpy as jnp
import numpy as np
import pytest

from attn_jax.attention.head_names import HEADS, SEVERAL, Head, Heads, MeanHead, Single
from attn_jax.config.reading import read
from attn_jax.errors import InputError


def head(text):
    return read(Head, text, tables={Head: HEADS})


def test_heads_are_counted_from_1():
    assert head("mean") == MeanHead()
    assert head("2.1") == Single(layer=2, head=1)
    assert head("2.10") == Single(layer=2, head=10)
    assert str(head("2.10")) == head("2.10").brief() == "2.10"
    assert head("mean").place(2, 3, "--head") is None
    assert head("2.1").place(2, 3, "--head") == (1, 0)


def test_the_weights_of_a_head(generator):
    alignment = jnp.asarray(generator.random((3, 4, 5, 7)), jnp.float32)
    (of_head,) = head("2.4").weights(alignment, "--head")
    np.testing.assert_array_equal(of_head, alignment[1, 3])
    mean = sum(alignment[i, j] for i in range(3) for j in range(4)) / 12
    (of_mean,) = head("mean").weights(alignment, "--head")
    np.testing.assert_allclose(of_mean, mean, rtol=1e-6)
    of_all = read(Heads, "all", tables={Heads: SEVERAL}).weights(alignment, "--head")
    for number, one in enumerate(of_all):
        np.testing.assert_array_equal(one, alignment[divmod(number, 4)])
    assert number == 11
    with pytest.raises(
        InputError, match=r"--head=4\.1 does not exist: the model's last head is 3\.4"
    ):
        head("4.1").weights(alignment, "--head")


@pytest.mark.parametrize(
    "name", ["2", "2.", "a.b", "all", "²·1", "2.1.1", f"{'1' * 5000}.1", "1.-1", ""]
)
def test_what_is_no_head_is_refused(name):
    with pytest.raises(InputError, match=r"head.*, or layer\.head as in 2\.1") as raised:
        head(name)
    assert len(str(raised.value)) < 200


@pytest.mark.parametrize("name", ["0.1", "3.1", "1.4"])
def test_a_head_that_the_model_lacks_is_refused(name):
    with pytest.raises(InputError, match=r"does not exist: the model's last head is 2\.3"):
        head(name).place(2, 3, "--head")
