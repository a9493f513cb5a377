"""Translates lines: `./launch.sh translate --workdir=runs/mine < source.txt > target.txt`."""

import sys
from pathlib import Path

from absl import flags as absl_flags

from attn_jax.data.text_files import decode_lines, read_lines
from attn_jax.loading import load
from experiments import flags
from experiments.flags import FLAGS
from experiments.program import run


def read_source(path: str) -> list[str]:
    """The lines of a file, or of standard input when no file is named."""
    if path:
        return read_lines(Path(path))
    return decode_lines(sys.stdin.buffer.read(), "standard input")


def main() -> None:
    """Writes one translation for each line."""
    translator = load(FLAGS.workdir)
    for hypothesis in translator.translate(read_source(FLAGS.input)):
        print(hypothesis.text)


if __name__ == "__main__":
    flags.define_workdir("folder of a run")
    absl_flags.DEFINE_string("input", "", "file of source sentences; standard input when empty")
    run(main)
