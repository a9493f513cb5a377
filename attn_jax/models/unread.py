"""Options that a model has no use for, such as the cell of a Transformer."""

import dataclasses
import functools

import jax

from attn_jax.config import Model
from attn_jax.models.seq2seq import initialize


def unread(config: Model) -> list[str]:
    """The names of options that differ from their default and that the model has no use for."""
    read = set()

    class Watched(Model):
        def __getattribute__(self, name: str):
            read.add(name)
            return super().__getattribute__(name)

    def shapes(config: Model) -> list[jax.ShapeDtypeStruct]:
        # As it is, since a compiled function would read every option for its cache.
        make = functools.partial(initialize.__wrapped__, config, 5, 5)
        return jax.tree.leaves(jax.eval_shape(make, jax.random.key(0)))

    found, usual = shapes(Watched(**vars(config))), vars(Model())
    # Every score is told this size, though not all have parameters of it.
    larger = dataclasses.replace(config, alignment_size=config.alignment_size + 1)
    if config.alignment_size != usual["alignment_size"] and shapes(larger) == found:
        read.discard("alignment_size")
    return [name for name in usual if getattr(config, name) != usual[name] and name not in read]
