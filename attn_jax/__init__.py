"""Encoder-decoder attention in JAX: compare, train, inspect and use it."""

from attn_jax.attention.catalogue import NORMALIZERS, SCORES, WINDOWS
from attn_jax.attention.context import attend, attend_all, attend_step, begin
from attn_jax.attention.parts import Memory, part
from attn_jax.errors import InputError
from attn_jax.exporting import export
from attn_jax.loading import load
from attn_jax.translator import Hypothesis, Translator

__version__ = "0.1.0"

__all__ = [
    "NORMALIZERS",
    "SCORES",
    "WINDOWS",
    "Hypothesis",
    "InputError",
    "Memory",
    "Translator",
    "attend",
    "attend_all",
    "attend_step",
    "begin",
    "export",
    "load",
    "part",
]
