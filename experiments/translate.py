"""Translates lines: `./launch.sh translate --workdir=runs/mine < source.txt > target.txt`."""

import sys
from pathlib import Path

from absl import flags as absl_flags

from attn_jax.data.text_files import read_lines
from attn_jax.errors import InputError
from attn_jax.translator import load
from experiments import flags
from experiments.flags import FLAGS
from experiments.program import run


def read_source(path: str) -> list[str]:
    """The lines of a file, or of standard input when no file is named."""
    if path:
        return read_lines(Path(path))
    try:
        # Not splitlines, which also splits at signs that are part of a line, such as U+2028.
        return [line.rstrip("\n") for line in sys.stdin]
    except UnicodeDecodeError as error:
        raise InputError(f"standard input is not UTF-8 ({error.reason})") from error


def main() -> None:
    """Writes one translation for each line."""
    translator = load(FLAGS.workdir)
    for hypothesis in translator.translate(read_source(FLAGS.input)):
        print(hypothesis.text)


if __name__ == "__main__":
    flags.define_workdir("folder of a run")
    absl_flags.DEFINE_string("input", "", "file of source sentences; standard input when empty")
    run(main)
