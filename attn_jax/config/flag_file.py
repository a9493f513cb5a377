"""An experiment as a flag file, such as that of a run, whose flag file can start it again."""

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from attn_jax.config.definitions import Experiment
from attn_jax.config.options import experiment, given, texts, values
from attn_jax.errors import InputError


def lines(experiment: Experiment) -> list[str]:
    """The experiment as lines of a flag file."""
    return [f"--{name}={text}" for name, text in texts(experiment).items()]


def parse(text: Iterable[str]) -> Experiment:
    """The experiment from lines of a flag file, as `lines` returns them.

    Raises:
      InputError: an option has no such name, is there twice, is of the wrong type or out of bounds.
    """
    return experiment(_texts(text))


def _texts(lines: Iterable[str]) -> dict[str, str]:
    """The options on lines of a flag file, by name."""
    found: dict[str, str] = {}
    for line in filter(str.strip, lines):
        name, _, value = line.lstrip().removeprefix("--").partition("=")
        if name in found:
            raise InputError(f"{name} is there twice")
        found[name] = value
    return found


def recorded(file: Path) -> dict[str, Any]:
    """The options of a flag file by name, as `given` gives them, with defaults for the others.

    Raises:
      InputError: the file cannot be read or is empty, or a line of it is not a valid option.
    """
    lines = stated(file)
    with _using(file):
        return values(Experiment()) | given(lines)


def read(file: Path) -> Experiment:
    """The experiment of a flag file, for which the user's own code is imported.

    Raises:
      InputError: the file cannot be read or is empty, or a line of it is not a valid option.
    """
    lines = stated(file)
    with _using(file):
        options = given(lines)
    return experiment(options)  # what the user's own code raises is no fault of the file


def stated(file: Path) -> dict[str, str]:
    """The options on the lines of a flag file, as text.

    Raises:
      InputError: the file cannot be read or is empty, or states an option twice.
    """
    with _using(file):
        text = file.read_text("utf-8-sig")
        if not text.strip():  # all options would have their defaults
            raise InputError("it is empty")
        return _texts(text.splitlines())


@contextlib.contextmanager
def _using(file: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:  # InputError is a ValueError
        raise InputError(f"{file} cannot be used: {error}") from error
