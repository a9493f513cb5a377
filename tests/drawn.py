"""Models whose numbers are drawn by NumPy, as tests need many and compiling takes seconds each."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from attn_jax.models.protocols import Encoded
from attn_jax.models.seq2seq import initialize


def drawn(config, source_size, target_size, seed=0):
    """A model as `initialize` makes it, with other numbers.

    What begins as zeros, ones or the identity is drawn too, which would hide faults.
    """
    generator = np.random.default_rng(seed)
    make = partial(initialize.__wrapped__, config, source_size, target_size)
    return jax.tree.map(
        lambda leaf: jnp.asarray(generator.normal(0, 0.3, leaf.shape), leaf.dtype),
        jax.eval_shape(make, jax.random.key(0)),
    )


def encoded(annotations, mask=None):
    """Annotations as an attention takes them, which needs neither word vectors nor a summary."""
    mask = jnp.ones(annotations.shape[:2], bool) if mask is None else mask
    return Encoded(None, annotations, mask, None)
