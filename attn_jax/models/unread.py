"""Options that a model has no use for, such as the cell of a Transformer."""

import jax

from attn_jax.config import Model
from attn_jax.models.seq2seq import initialize


def unread(config: Model) -> list[str]:
    """The names of options that differ from their default, though the model never reads them."""
    read = set()

    class Watched(Model):
        def __getattribute__(self, name: str):
            read.add(name)
            return super().__getattribute__(name)

    watched = Watched(**vars(config))
    # As it is, since a compiled function would read every option for its cache.
    jax.eval_shape(lambda rng: initialize.__wrapped__(watched, 5, 5, rng), jax.random.key(0))
    usual = vars(Model())
    return [name for name in usual if getattr(config, name) != usual[name] and name not in read]
