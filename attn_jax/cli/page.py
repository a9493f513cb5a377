"""Shows weights of any toolkit in a browser: `./launch.sh page --weights=a.npz --page=a.html`.

Each file holds a system: pairs of sentences, as tokens, and the weights [L, N, T, S] between them,
as JSON or .npz; docs/report.md describes both, and how other toolkits' weights become such files.
"""

from pathlib import Path

from absl import flags as absl_flags

from attn_jax.cli import flags
from attn_jax.cli.flags import FLAGS
from attn_jax.drawing.exchange import page
from attn_jax.errors import InputError


def define() -> None:
    """Defines the flags."""
    flags.define_needed("page", "file .html to write")
    absl_flags.DEFINE_list("weights", [], "files of weights, .json or .npz, one for each system")


def main() -> None:
    """Writes a page with a system for each file."""
    target = Path(FLAGS.page)
    if target.suffix != ".html" or not target.parent.is_dir():
        raise InputError(f"--page must be a file .html in a folder that exists: {FLAGS.page}")
    if not FLAGS.weights:
        raise InputError("give --weights, one or more files")
    page(target, flags.weights())
    print(f"page, for a browser: {target}")
