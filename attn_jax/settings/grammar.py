"""Text that names something with settings, such as `entmax(alpha=1.25)`, and what it stands for.

A name is that of an entry of a table, or `module:name` of the user's own. Settings are numbers, or
named themselves: `pair(additive(units=64),general)`. Several are joined by `+`.
"""

import importlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from attn_jax.errors import InputError, choose, failure, place

NAME = r"[A-Za-z_][\w.-]*(?::\w*)?"
WHOLE = r"[+-]?\d+(?:_\d+)*"
NUMBER = rf"(?:{WHOLE}\.?\d*|[+-]?\.\d+)(?:[eE][+-]?\d+)?"
TOKEN = re.compile(rf"\s*(?:(?P<name>{NAME})|(?P<number>{NUMBER})|(?P<sign>[(),=+]))\s*")


class Number(NamedTuple):
    """A number as it is written: 2.10 may stand for another head than 2.1."""

    text: str

    def __str__(self) -> str:
        return self.text

    @property
    def value(self) -> int | float:
        """What it is as a number.

        Raises:
          InputError: it has thousands of digits.
        """
        try:
            return int(self.text) if re.fullmatch(WHOLE, self.text) else float(self.text)
        except ValueError as error:
            raise InputError(f"{self.text[:20]}… has too many digits") from error


class Named(NamedTuple):
    """A name with settings; those that are given without a name come first, with ''."""

    name: str
    settings: tuple[tuple[str, "Named | Number"], ...] = ()

    def __str__(self) -> str:
        told = [f"{name}={value}" if name else str(value) for name, value in self.settings]
        return f"{self.name}({','.join(told)})" if told else self.name

    def without(self, setting: str) -> "Named":
        """The same without a setting, also of those among its settings."""
        kept = [
            (name, value.without(setting) if isinstance(value, Named) else value)
            for name, value in self.settings
            if name != setting
        ]
        return Named(self.name, tuple(kept))

    def all(self) -> Iterator["Named"]:
        """This one, and those among its settings."""
        yield self
        for _, value in self.settings:
            if isinstance(value, Named):
                yield from value.all()


def parse(text: str, what: str) -> Named:
    """The name and the settings in a text.

    Raises:
      InputError: the text is not of this form, or gives a setting twice.
    """
    reader = _Reader(text, what)
    named = reader.named()
    reader.expect("")
    return named


def parse_value(text: str, what: str, also: str = "") -> Named | Number:
    """The same, or the number that the text is.

    Args:
      text: what is read.
      what: what it stands for, for error messages.
      also: what it may be besides a name with settings, likewise.

    Raises:
      InputError: the text is not of this form, or gives a setting twice.
    """
    reader = _Reader(text, what, also)
    value = reader.value()
    reader.expect("")
    return value


def parse_values(text: str, what: str, also: str = "") -> list[Named | Number]:
    """The same for several, joined by `+`.

    Raises:
      InputError: the text is not of this form, or gives a setting twice.
    """
    reader = _Reader(text, what, f"{also}; several are joined by +")
    values = [reader.value()]
    while reader.next == "+":
        reader.take()
        values.append(reader.value())
    reader.expect("")
    return values


class _Reader:
    """Reads a text token by token, by recursive descent.

    values  = value { "+" value }
    value   = number | named
    named   = name [ "(" [ setting { "," setting } ] ")" ]
    setting = [ name "=" ] value
    """

    def __init__(self, text: str, what: str, also: str = ""):
        self.text, self.what, self.also = text, what, also
        self.tokens: list[tuple[str | None, str]] = []
        at = 0
        while at < len(text.rstrip()):
            found = TOKEN.match(text, at)
            if not found:
                raise self.malformed()
            self.tokens.append((found.lastgroup, found[found.lastgroup or 0]))
            at = found.end()
        self.tokens.reverse()

    @property
    def next(self) -> str:
        return self.tokens[-1][1] if self.tokens else ""

    def take(self) -> str:
        return self.tokens.pop()[1]

    def malformed(self) -> InputError:
        return InputError(
            f"malformed {self.what} {self.text[:60]!r}: write name, or name(setting=number)"
            f"{self.also}"
        )

    def expect(self, token: str) -> None:
        if self.next != token:
            raise self.malformed()
        if token:
            self.take()

    def value(self) -> Named | Number:
        is_number = self.tokens and self.tokens[-1][0] == "number"
        return Number(self.take()) if is_number else self.named()

    def named(self) -> Named:
        if not self.tokens or self.tokens[-1][0] != "name":
            raise self.malformed()
        name, settings = self.take(), []
        if self.next == "(":
            self.take()
            while self.next != ")":
                settings.append(self.setting({of for of, _ in settings}))
                if self.next != ")":
                    self.expect(",")
            self.take()
        return Named(name, tuple(settings))

    def setting(self, given: set[str]) -> tuple[str, Named | Number]:
        token, value = self.next, self.value()
        if isinstance(value, Number) or self.next != "=":
            return "", value
        self.take()
        if token in given:
            raise InputError(f"{self.text.strip()!r} gives {token} twice")
        return token, self.value()


def split(text: str) -> list[str]:
    """Splits a text at its commas, except those in parentheses."""
    values, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            values.append("")
        else:
            values[-1] += character
    return values


def choose_or_import(table: Mapping[str, Callable], name: str, what: str) -> Any:
    """The entry of a table, or for `module:name`, a function or class of the user's own.

    Raises:
      InputError: the name is not in the table; or the module cannot be imported, or has no function
        or class of that name.
    """
    if ":" not in name:
        try:
            return choose(table, name, what)
        except InputError as error:
            raise InputError(f"{error}, or module:name of your own") from None
    module, _, attribute = name.partition(":")
    use = f"cannot use {name!r} as {'an' if what[0] in 'aeiou' else 'a'} {what}"
    found = None
    try:
        found = importlib.import_module(module)
        imported = getattr(found, attribute)
    except (ImportError, AttributeError) as error:
        hint = ""
        if module.endswith(".py"):
            hint = "; write module:name, without .py"
        elif isinstance(error, ModuleNotFoundError) and error.name == module.partition(".")[0]:
            hint = "; Python looks for it on PYTHONPATH, and last in the current folder"
        elif found is not None:
            its_file = getattr(found, "__file__", None) or "part of Python"
            hint = f"; the module that Python finds first under this name is {its_file}"
        raise InputError(f"{use}: {error}{place(error, [module])}{hint}") from error
    except (Exception, SystemExit) as error:  # anything that a user's own module raises
        raise InputError(f"{use}: {failure(error, [module])}") from error
    if not callable(imported):
        raise InputError(f"{use}: it is not a function or class")
    return imported
