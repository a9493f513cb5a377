"""Writes decoding as one file: `./launch.sh export --workdir=runs/mine --output=mine.zip`.

`attn_jax.load_exported` translates with it, and JAX alone runs it; see docs/decoding.md.
"""

from pathlib import Path

from absl import flags as absl_flags

from attn_jax.cli import flags
from attn_jax.cli.flags import FLAGS
from attn_jax.errors import InputError
from attn_jax.translation.exporting import export


def define() -> None:
    """Defines the flags."""
    flags.define_models()
    flags.define_search(left_out=["temperature", "top_k", "top_p", "seed"])
    flags.define_needed("output", "file to be written")
    absl_flags.DEFINE_integer("batch_size", 1, "sentences at a time")
    absl_flags.DEFINE_integer("source_length", 32, "tokens of the longest sentence")


def main() -> None:
    """Writes the file.

    Raises:
      InputError: the file exists already, or `--combination` is given for a single model.
    """
    flags.check_combination()
    output = Path(FLAGS.output).absolute()
    if output.exists():
        raise InputError(f"--output must be a new file: {FLAGS.output} exists")
    sizes = {"batch_size": FLAGS.batch_size, "source_length": FLAGS.source_length}
    export(
        [FLAGS.workdir, *FLAGS.also],
        FLAGS.output,
        combination=FLAGS.combination,
        **sizes,
        **flags.search(),
    )
    print(f"wrote {FLAGS.output}: sources [{FLAGS.batch_size}, {FLAGS.source_length}]")
