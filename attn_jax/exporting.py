"""A decoding function in one file, which JAX runs without this package."""

from collections.abc import Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
from jax import export as jax_export
from jaxtyping import Array, Int

from attn_jax.decoding import compiled
from attn_jax.decoding.options import search_of
from attn_jax.errors import InputError
from attn_jax.files import writing
from attn_jax.loading import Place, load

PLATFORMS = ("cpu", "cuda", "tpu")


def export(
    paths: Place | Sequence[Place],
    file: Place,
    *,
    batch_size: int = 1,
    source_length: int = 32,
    combination: str = "log_probabilities",
    **options,
) -> None:
    """Writes decoding as one function of ids, its parameters included, for `jax.export`.

    The function takes ids [batch_size, source_length], int32, 0 where there is no token, and gives
    the ids [batch_size, K, T] of K hypotheses, up to and with the end of the sentence (3), their
    log-probabilities and scores [batch_size, K], and the weights [batch_size, K, T, L, N, S]. It
    runs wherever `jax.export.deserialize` does, with the same version of JAX or a newer one.

    Args:
      paths: a run, a checkpoint, or several, as `load` takes them.
      file: to be written.
      batch_size: sentences at a time.
      source_length: tokens of the longest sentence.
      combination: of several, as `load` takes it.
      **options: of `attn_jax.decoding.options.Search`, but for what is drawn at random
        and `unknown="copy"`, which is of text.

    Raises:
      InputError: there is no such run, an option is wrong, or the sizes are.
    """
    search = search_of(options)
    if search.temperature:
        raise InputError("what is exported searches: temperature draws at random")
    if search.unknown == "copy":
        raise InputError("what is exported gives ids: unknown=copy puts source words into text")
    translator = load(paths, combination=combination)
    search.check_lengths(translator.max_length)
    if not 1 <= source_length <= translator.max_length or batch_size < 1:
        raise InputError(
            f"source_length must be from 1 to the {translator.max_length} of --data.max_length and "
            f"batch_size at least 1, got {source_length} and {batch_size}"
        )
    rngs = jax.random.split(jax.random.key(0), batch_size)  # nothing is drawn with them

    def decode(source: Int[Array, "B S"]) -> tuple[Array, ...]:
        how = {"combination": translator.combination, "longest": translator.max_length}
        return tuple(compiled.decode(translator.models, source, rngs, search=search, **how))

    ids = jax.ShapeDtypeStruct((batch_size, source_length), jnp.int32)
    exported = jax_export.export(jax.jit(decode), platforms=PLATFORMS)(ids)
    with writing(Path(file)) as (beside,):
        beside.write_bytes(exported.serialize())
