"""Text that names something with settings, such as `entmax(alpha=1.25)`, and what it stands for.

A name is that of an entry of a table, or `module:name` of the user's own. Settings are numbers, or
named themselves: `pair(additive(units=64),general)`.
"""

import functools
import importlib
import inspect
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from attn_jax.errors import InputError, choose, failure, place
from attn_jax.options import LARGEST

NAME = r"[A-Za-z_][\w.-]*(?::\w*)?"
NUMBER = r"[+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
TOKEN = re.compile(rf"\s*(?:(?P<name>{NAME})|(?P<number>{NUMBER})|(?P<sign>[(),=]))\s*")


class Named(NamedTuple):
    """A name with settings; those that are given without a name come first, with ''."""

    name: str
    settings: tuple[tuple[str, Any], ...] = ()

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


class _Reader:
    """Reads a text token by token, by recursive descent.

    named   = name [ "(" [ setting { "," setting } ] ")" ]
    setting = [ name "=" ] ( number | named )
    """

    def __init__(self, text: str, what: str):
        self.text, self.what = text, what
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
            f"malformed {self.what} {self.text!r}: write name, or name(setting=number)"
        )

    def expect(self, token: str) -> None:
        if self.next != token:
            raise self.malformed()
        if token:
            self.take()

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

    def setting(self, given: set[str]) -> tuple[str, Any]:
        if not self.tokens:
            raise self.malformed()
        kind, token = self.tokens[-1]
        if kind == "number":
            return "", _number(self.take())
        value = self.named()
        if self.next != "=":
            return "", value
        self.take()
        if token in given:
            raise InputError(f"{self.text.strip()!r} gives {token} twice")
        if self.tokens and self.tokens[-1][0] == "number":
            return token, _number(self.take())
        return token, self.named()


def _number(text: str) -> int | float:
    return int(text) if re.fullmatch(r"[+-]?\d[\d_]*", text) else float(text)


def settings_of(named: Named, known: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a name, as numbers of the types of their defaults.

    Args:
      named: the name with its settings.
      known: all settings there are, with their defaults.

    Raises:
      InputError: there is no such setting, or it is not a number of that type.
    """
    return {setting: _as(named, setting, value, known) for setting, value in named.settings}


def _as(named: Named, setting: str, value: Any, known: Mapping[str, Any]) -> int | float:
    if not known:
        raise InputError(f"{named.name} has no settings, got {setting or value!r}")
    if not setting:
        raise InputError(f"{named.name}: {value} is a setting without a name: {', '.join(known)}")
    default = choose(known, setting, f"setting of {named.name}")
    kind = type(default)
    try:
        number = kind(value)
        if number != value or not math.isfinite(number) or abs(number) > LARGEST:
            raise ValueError
    except (ValueError, TypeError, OverflowError):
        message = f"{named.name}: {setting} must be of type {kind.__name__}, got {str(value)!r}"
        raise InputError(message) from None
    return number


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


def choose_or_import(table: Mapping[str, Callable], name: str, what: str) -> Callable:
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


def keywords_of(function: Callable) -> dict[str, Any]:
    """The keyword-only arguments of a function, with their defaults."""
    parameters = inspect.signature(function).parameters
    keyword_only = inspect.Parameter.KEYWORD_ONLY
    return {name: p.default for name, p in parameters.items() if p.kind is keyword_only}


def choose_with_settings(table: Mapping[str, Callable], text: str, what: str) -> Callable:
    """The function of a table that a text names, bound to the settings in the text.

    Settings are the keyword-only arguments of the function.

    Raises:
      InputError: there is no such function or setting.
    """
    named = parse(text, what)
    function = choose(table, named.name, what)
    return functools.partial(function, **settings_of(named, keywords_of(function)))
