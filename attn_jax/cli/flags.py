"""Flags: one for each option of an experiment or of a search, and those of the programs."""

import itertools
import operator
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from absl import flags

from attn_jax import config
from attn_jax.cli.flag_files import Word, at_home, expanded
from attn_jax.decoding.ensemble import COMBINATIONS
from attn_jax.decoding.options import Search, search_of
from attn_jax.errors import InputError, choose
from attn_jax.settings import grammar
from attn_jax.settings.fields import checked, fields, local

# `--help` shows a flag under the program that asked this module to define it.
flags.disclaim_key_flags()

FLAGS = flags.FLAGS
HELP = ("--help", "-help", "-h", "--h")
_needed: list[str] = []  # flags without a default
_first: list[str] = []  # the one whose value may come first, without its name


class _Option(flags.ArgumentParser):
    """Reads the text of an option."""

    def __init__(self, kind: Any, read: Callable[[str], Any]):
        self.syntactic_help = {int: "an integer", float: "a number"}.get(kind, "")
        self._read = read

    def parse(self, argument: str) -> Any:
        return self._read(argument)


class _Brief(flags.ArgumentSerializer):
    """Writes the default of an option."""

    def serialize(self, value: Any) -> str:
        return config.brief(value)


class _Texts(flags.ArgumentParser):
    """Splits text at its commas."""

    def parse(self, argument: str) -> list[str]:
        return grammar.split(argument)


def define_needed(name: str, help: str) -> None:
    """Defines a flag that has no default."""
    flags.DEFINE_string(name, "", help)
    _needed.append(name)


def define_first(name: str, help: str) -> None:
    """Defines a flag without a default, which the first word may give without its name."""
    define_needed(name, help)
    _first.append(name)


def define_workdir(help: str) -> None:
    """Defines `--workdir`."""
    define_needed("workdir", help)


def define_experiment() -> None:
    """Defines a flag for each option of an experiment."""
    for name, field in config.known().items():

        def read(text: str, name: str = name) -> Any:
            return config.given({name: text})[name]

        default, help = config.brief(field.default), field.metadata["help"]
        flags.DEFINE(_Option(field.type, read), name, default, help, serializer=_Brief())


def given() -> dict[str, Any]:
    """The options that are given on the command line."""
    return {name: FLAGS[name].value for name in config.known() if FLAGS[name].present}


def define_values(prefix: str, help: str) -> None:
    """Defines a flag for values of each option of an experiment, separated by commas."""
    for name, field in config.known().items():
        flags.DEFINE(_Texts(), f"{prefix}.{name}", None, f"{help}: {field.metadata['help']}")


def define_models() -> None:
    """Defines the flags that choose the checkpoints to decode with, and how to combine them."""
    define_workdir("folder of a run, or of one checkpoint in it (runs/mine/checkpoints/1500)")
    flags.DEFINE_multi_string(
        "also", [], "another run or checkpoint to combine with; can be repeated"
    )
    flags.DEFINE_enum(
        "combination",
        "log_probabilities",
        [*COMBINATIONS, "parameters"],
        "of several models: an ensemble by the mean of these, or one model with mean parameters",
    )


def check_combination() -> None:
    """Raises InputError if `--combination` is given for a single model."""
    if FLAGS["combination"].present and not FLAGS.also:
        raise InputError("--combination is for several models: add others with --also")


def define_search(left_out: Iterable[str] = ()) -> None:
    """Defines a flag for each option of a search, except those that are left out."""
    for name, field in fields(Search):

        def read(text: str, name: str = name, field: Any = field) -> Any:
            return checked(name, field, text)

        if name not in left_out:
            default, help = str(field.default), field.metadata["help"]
            flags.DEFINE(_Option(field.type, read), name, default, help, serializer=_Brief())


def search() -> dict[str, Any]:
    """The search options that are given on the command line.

    Raises:
      InputError: one is out of bounds, or has no effect together with the others.
    """
    options = {
        name: FLAGS[name].value
        for name, _ in fields(Search)
        if name in FLAGS and FLAGS[name].present
    }
    search_of(options)
    return options


def weights() -> dict[str, str]:
    """The files of `--weights`, by the names of their systems.

    Raises:
      InputError: two have the same name.
    """
    names = [Path(file).stem for file in FLAGS.weights]
    if len({*names}) < len(names):
        raise InputError(f"--weights must be files of different names, got {', '.join(names)}")
    return dict(zip(names, FLAGS.weights, strict=True))


def value_of(name: str) -> Any:
    """The value of a flag, of any type."""
    return FLAGS[name].value


def options_of(words: Iterable[str]) -> dict[str, Any]:
    """The options in the words of a command line, including those in flag files.

    Raises:
      InputError: a word is not an option, or a flag file cannot be read.
    """
    known, options = config.known(), {}
    for word in expanded(words):
        name, equals, value = word.text.removeprefix("--").partition("=")
        if not word.text.startswith("--") or not equals:
            raise word.refused(f"{word.text!r} is not --option=value")
        try:
            choose(known, name, "option")
            options |= config.given({name: value})
        except InputError as error:
            raise word.refused(error) from error
    return options


def parse(arguments: list[str]) -> None:
    """Parses a command line.

    Raises:
      InputError: a flag is unknown, missing, of a wrong type or a URL, a word is not a flag, or a
        flag file cannot be used.
    """
    program, *words = arguments
    FLAGS([program])
    if _first and words and not words[0].startswith("-"):
        words[0] = f"--{_first[0]}={words[0]}"
    # absl would read flag files itself, but its errors would name neither file nor line.
    for _, together in itertools.groupby(expanded(words), operator.attrgetter("place")):
        _parse(program, list(together))
    _refuse_overridden(list(map(at_home, words)))
    options = {*config.known(), *dict(fields(Search))}
    for name in FLAGS:
        if FLAGS[name].present and name not in options:  # of these, paths are looked at elsewhere
            local(FLAGS[name].value)
    for name in _needed:
        if not FLAGS[name].value:
            raise InputError(f"--{name} is missing: the {FLAGS[name].help}")


def _parse(program: str, words: list[Word]) -> None:
    """Parses words of a command line, or one line of a flag file."""
    first = words[0]
    try:
        _, *others = FLAGS([program, *(word.text for word in words)])
    except flags.Error as error:
        raise first.refused(_told(error)) from error
    if others:
        raise first.refused(f"{others[0]!r} is not a flag: flags look like --name=value")


def _told(error: flags.Error) -> str:
    """An error of absl, in words for the user."""
    if isinstance(error.__context__, InputError):  # which says all itself
        return str(error.__context__)
    message = str(error).replace("invalid literal for int() with base 10", "not a whole number")
    return message.replace("could not convert string to float", "not a number")


def _refuse_overridden(words: list[str]) -> None:
    """Raises InputError if a flag file that comes after a flag gives it another value."""
    files = [nth for nth, word in enumerate(words) if word.lstrip("-").startswith("flagfile")]
    last = max(files, default=0)
    again = {word.lstrip("-").partition("=")[0] for word in words[last:]}  # these win in any case
    for word, next_word in itertools.pairwise(words[: last + 1]):
        name, equals, value = word.lstrip("-").partition("=")
        if not word.startswith("-") or name not in FLAGS or name in again:
            continue
        flag = FLAGS[name]
        if not equals:
            if flag.boolean:
                continue
            value = next_word
        if not isinstance(flag.value, list) and flag.parser.parse(value) != flag.value:
            raise InputError(
                f"--{name}={value} has no effect: the flag file after it sets "
                f"--{name}={config.brief(flag.value)}; give it after --flagfile"
            )
