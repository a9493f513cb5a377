"""Options that a model does not use, such as the cell of a Transformer."""

import dataclasses
import functools

import jax

from attn_jax.config import Model
from attn_jax.models.seq2seq import initialize


def unread(config: Model) -> list[str]:
    """The names of options that are not at their default although the model does not use them."""
    read = set()

    class Watched(Model):
        def __getattribute__(self, name: str):
            read.add(name)
            return super().__getattribute__(name)

    def shapes(config: Model) -> list[jax.ShapeDtypeStruct]:
        # Without `jax.jit`, which would read every option to hash its arguments.
        make = functools.partial(initialize.__wrapped__, config, 5, 5)
        return jax.tree.leaves(jax.eval_shape(make, jax.random.key(0)))

    found, usual = shapes(Watched(**vars(config))), vars(Model())
    # This size is passed to every score, but only some have parameters of it.
    larger = dataclasses.replace(config, alignment_size=config.alignment_size + 1)
    if config.alignment_size != usual["alignment_size"] and shapes(larger) == found:
        read.discard("alignment_size")
    return [name for name in usual if getattr(config, name) != usual[name] and name not in read]
