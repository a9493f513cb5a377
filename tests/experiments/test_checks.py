"""What is looked at before a run begins."""

import pytest

from attn_jax.errors import InputError
from experiments.checks import check_mask

PARTS = """
import jax
import jax.numpy as jnp
from attn_jax import part

def heeds(scores, mask):
    return jax.nn.softmax(scores, where=mask)

def forgets(scores, mask):
    return jax.nn.softmax(scores)

@part(shapes=lambda sizes: {"scale": ()})
def scaled(scores, mask, *, scale, power=1.0):
    return jax.nn.softmax(scale * scores**power)

def everywhere(query, mask):
    return jnp.ones_like(mask), jnp.ones(mask.shape)

def nearby(query, mask, *, step):
    return mask & (jnp.arange(mask.size) <= step), jnp.ones(mask.shape)
"""


def test_parts_of_ones_own_attend_to_no_padding(tmp_path, monkeypatch):
    (tmp_path / "masked_parts.py").write_text(PARTS)
    monkeypatch.syspath_prepend(str(tmp_path))
    check_mask("normalizer", "softmax")
    check_mask("normalizer", "masked_parts:heeds")
    check_mask("window", "masked_parts:nearby")
    for what, name in (
        ("normalizer", "forgets"),
        ("normalizer", "scaled(power=2)"),
        ("window", "everywhere"),
    ):
        with pytest.raises(InputError, match=f"--model.{what}=.*attends where its mask is False"):
            check_mask(what, f"masked_parts:{name}")
