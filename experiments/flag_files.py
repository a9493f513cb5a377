"""Flag files, with a flag on each line: the flags of a command line with the places they stand."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from attn_jax.data.text_files import read_lines
from attn_jax.errors import InputError


class Word(NamedTuple):
    """A word of a command line."""

    text: str
    place: str  # the flag file and line that it is from; empty if from the command line itself

    def refused(self, why: object) -> InputError:
        """The error that this word cannot be used."""
        return InputError(f"{self.place}: {why}" if self.place else str(why))


def expanded(words: Iterable[str], place: str = "", within: tuple[str, ...] = ()) -> Iterator[Word]:
    """The words of a command line, with the lines of flag files in the place of these files.

    A line is a flag with its value after a =, another flag file, blank, or a comment that begins
    with # or //.

    Args:
      words: words of a command line.
      place: where they stand, if in a flag file.
      within: the files that are being read, the outermost first.

    Raises:
      InputError: a flag file cannot be read, is not text or includes itself.
    """
    words = iter(words)
    for text in words:
        name, equals, file = text.partition("=")
        if name not in ("--flagfile", "-flagfile"):
            yield Word(at_home(text), place)
            continue
        word = Word(text, place)
        file = expand(file if equals else next(words, ""))
        if not file:
            raise word.refused("--flagfile names no file")
        if os.path.realpath(file) in within:
            raise word.refused(f"{file} includes itself")
        try:
            lines = read_lines(Path(file))
        except InputError as error:
            hint = "flag files name others from the current folder, presets from the root"
            raise word.refused(error if Path(file).exists() else f"{error}; {hint}") from error
        for number, line in enumerate(map(str.strip, lines), start=1):
            if line and not line.startswith(("#", "//")):
                yield from expanded(
                    [line], f"{file}, line {number}", (*within, os.path.realpath(file))
                )


def at_home(word: str) -> str:
    """A flag with the user's folder in place of ~, which shells leave alone after a =."""
    name, _, value = word.partition("=")
    return f"{name}={expand(value)}" if value.startswith("~/") else word


def expand(path: str) -> str:
    """A path with the user's folder in place of ~.

    Raises:
      InputError: the user has no folder.
    """
    expanded = os.path.expanduser(path)
    if expanded == path and path.startswith("~/"):
        raise InputError(f"there is no home folder for {path}: write out the path")
    return expanded
