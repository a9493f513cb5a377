"""Files of systems to compare, with the flags of one on each line."""

import shlex
from pathlib import Path

from attn_jax import config
from attn_jax.errors import InputError

from . import flags


def read_systems(file: Path) -> list[dict[str, str]]:
    """The options on each line of a file, which may name flag files; `#` starts a comment.

    Raises:
      InputError: the file cannot be read or names no system, or a line holds a word that is not an
        option or a value that is not allowed.
    """
    systems = []
    try:
        lines = file.read_text("utf-8-sig").splitlines()
    except (OSError, ValueError) as error:
        raise InputError(f"{file} cannot be read: {error}") from error
    for number, line in enumerate(lines, start=1):
        try:
            system = flags.options_of(shlex.split(line, comments=True))
            config.experiment(system)
        except ValueError as error:  # InputError is one
            raise InputError(f"{file}, line {number}: {error}") from error
        if system:
            systems.append(system)
    if not systems:
        raise InputError(f"{file} names no system")
    return systems
