"""Export of a decoding function to one file, which JAX can run without this package."""

from collections.abc import Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
from jax import export as jax_export
from jaxtyping import Array, Int

from attn_jax.decoding.decode import decode
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
    """Writes decoding as one function of token ids, including its parameters, with `jax.export`.

    The function takes ids [batch_size, source_length], int32, padded with 0. It returns, for K
    hypotheses of each sentence, their ids [batch_size, K, T], up to and including the end of the
    sentence (3) and then 0, their log-probabilities and scores, each [batch_size, K], and their
    weights [batch_size, K, L, N, T, S]. It runs wherever `jax.export.deserialize` works, with the
    same version of JAX or a somewhat newer one, which keeps such files readable for half a year.

    Args:
      paths: one or several runs or checkpoints, as in `load`.
      file: the file to write.
      batch_size: number of sentences.
      source_length: most tokens of a sentence.
      combination: of several models, as in `load`.
      **options: of `attn_jax.decoding.options.Search`, except those for sampling, and except
        `unknown="copy"`, which needs text.

    Raises:
      InputError: a run or the folder of the file does not exist, or an option or a size is invalid.
    """
    if not Path(file).absolute().parent.is_dir():
        raise InputError(f"cannot write {file}: its folder does not exist")
    search = search_of(options)
    if search.temperature:
        raise InputError("sampling cannot be exported: leave out temperature")
    if search.unknown == "copy":
        raise InputError(
            "unknown=copy cannot be exported: it changes the text, and what is exported returns ids"
        )
    translator = load(paths, combination=combination)
    search.check_lengths(translator.max_length)
    if not 1 <= source_length <= translator.max_length or batch_size < 1:
        raise InputError(
            f"source_length must be from 1 to the {translator.max_length} of --data.max_length and "
            f"batch_size at least 1, got {source_length} and {batch_size}"
        )

    def of_ids(source: Int[Array, "B S"]) -> tuple[Array, ...]:
        return tuple(decode(translator.models, source, search=search, **translator.settings))

    ids = jax.ShapeDtypeStruct((batch_size, source_length), jnp.int32)
    exported = jax_export.export(jax.jit(of_ids), platforms=PLATFORMS)(ids)
    with writing(Path(file)) as (beside,):
        beside.write_bytes(exported.serialize())
