"""Flag files, with a flag on each line: the flags of a command line with the places they stand."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from attn_jax.data.lines import read_lines
from attn_jax.errors import InputError
from attn_jax.settings.fields import expand

PACKAGE = Path(__file__).parents[1]
INSTALLED = PACKAGE / "presets"
PRESETS = INSTALLED if INSTALLED.is_dir() else PACKAGE.parent / "experiments" / "presets"


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
        if not (file := file if equals else next(words, "")):
            raise word.refused("--flagfile names no file")
        file = found(file)
        if os.path.realpath(file) in within:
            raise word.refused(f"{file} includes itself")
        try:
            lines = read_lines(Path(file))
        except InputError as error:
            presets = f"presets are {', '.join(sorted(os.listdir(PRESETS)))}"
            hint = "flag files name others from the current folder" if place else presets
            raise word.refused(error if Path(file).exists() else f"{error}; {hint}") from error
        for number, line in enumerate(map(str.strip, lines), start=1):
            if line and not line.startswith(("#", "//")):
                yield from expanded(
                    [line], f"{file}, line {number}", (*within, os.path.realpath(file))
                )


def found(file: str) -> str:
    """The path of a file; a name alone may be that of a preset, which needs no folder."""
    path = expand(file)
    is_preset = not os.path.exists(path) and path in os.listdir(PRESETS)
    return str(PRESETS / path) if is_preset else path


def at_home(word: str) -> str:
    """A flag with the user's folder in place of ~, which shells leave alone after a =."""
    name, _, value = word.partition("=")
    return f"{name}={expand(value)}" if value.startswith("~/") else word
