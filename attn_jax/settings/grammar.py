"""Text that names something with settings, such as `entmax(alpha=1.25)`, and what it stands for.

A name is that of an entry of a table, or `module:name` of the user's own. Settings are numbers,
words, text in quotation marks, True, False, None, tuples of these, or named themselves:
`pair(additive(units=64),general)`. Several are joined by `+`. Python's own parser reads all this.
"""

import ast
import dataclasses
import importlib
import keyword
import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from attn_jax.errors import InputError, choose, failure, place
from attn_jax.settings.main_source import MAIN, main_with

# What Python does not read as an expression: `module:name`, outside of quotation marks.
OWN = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|([A-Za-z_][\w.]*):([A-Za-z_]\w*)""")
MARK = "._own_."  # stands for the colon


def own_names(text: str) -> list[tuple[str, str]]:
    """The modules and names of the user's own code in a text."""
    return [(module, name) for _, module, name in OWN.findall(text) if module]


@dataclasses.dataclass(frozen=True)
class Number:
    """A number as it is written: 2.10 may stand for another head than 2.1."""

    text: str

    def __str__(self) -> str:
        return self.text

    @property
    def value(self) -> int | float:
        """What it is as a number."""
        return ast.literal_eval(self.text)


@dataclasses.dataclass(frozen=True)
class Named:
    """A name with settings; those that are given without a name come first, with ''."""

    name: str
    settings: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        told = [
            f"{name}={written(value)}" if name else written(value) for name, value in self.settings
        ]
        return f"{self.name}({','.join(told)})" if told else self.name


def written(value: Any) -> str:
    """A setting as text: a number, True, None, a tuple, a word, or text in quotation marks."""
    if isinstance(value, Enum):
        value = value.name
    if isinstance(value, tuple):
        return f"({','.join(map(written, value))}{',' * (len(value) == 1)})"
    if not isinstance(value, str):
        return str(value)
    is_word = value.isascii() and value.isidentifier() and not keyword.iskeyword(value)
    return value if is_word else repr(value)


def parse(text: str, what: str) -> Named:
    """The name and the settings in a text.

    Raises:
      InputError: the text is not of this form, or gives a setting twice.
    """
    named = parse_value(text, what)
    if not isinstance(named, Named):
        raise _malformed(text, what)
    return named


def parse_value(text: str, what: str, also: str = "") -> Any:
    """The same, or the number, text, tuple, truth value or None that the text is.

    Args:
      text: what is read.
      what: what it stands for, for error messages.
      also: what it may be besides a name with settings, likewise.

    Raises:
      InputError: the text is not of this form, or gives a setting twice.
    """
    values = _parsed(text, what, also)
    if len(values) > 1:
        raise _malformed(text, what, also)
    return values[0]


def parse_values(text: str, what: str, also: str = "") -> list[Any]:
    """The same for several, joined by `+`.

    Raises:
      InputError: the text is not of this form, or gives a setting twice.
    """
    return _parsed(text, what, f"{also}; several are joined by +")


def _parsed(text: str, what: str, also: str) -> list[Any]:
    marked = OWN.sub(lambda found: found[1] or f"{found[2]}{MARK}{found[3]}", text.strip())
    try:
        node: ast.expr = ast.parse(marked, mode="eval").body
        joined = []
        while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            joined.append(node.right)
            node = node.left
        return [_value(each, marked) for each in (node, *reversed(joined))]
    # Of the last two, texts with thousands of brackets.
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise _malformed(text, what, also) from error


def _malformed(text: str, what: str, also: str = "") -> InputError:
    return InputError(f"malformed {what} {text[:60]!r}: write name, or name(setting=number){also}")


def _value(node: ast.expr, text: str) -> Any:
    """What a node of an expression stands for.

    Raises:
      InputError: a setting is there twice.
      ValueError: it stands for nothing.
    """
    unsigned = node
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        unsigned = node.operand
    match node, unsigned:
        case _, ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return Number(ast.get_source_segment(text, node) or "")
        case ast.Constant(value=bool() | str() | None as value), _:
            return value
        case ast.Tuple(elts=each), _:
            return tuple(_value(one, text) for one in each)
        case ast.Call(func=name, args=unnamed, keywords=named), _:
            settings = [("", _value(one, text)) for one in unnamed]
            for one in named:
                if one.arg is None:
                    raise ValueError("** is no setting")
                if one.arg in dict(settings):
                    told = text.replace(MARK, ":")
                    raise InputError(f"{told!r} gives {one.arg} twice")
                settings.append((one.arg, _value(one.value, text)))
            return Named(_dotted(name), tuple(settings))
        case ast.BinOp(op=ast.Sub(), left=ast.Name(id=one), right=ast.Name(id=other)), _:
            return Named(f"{one}-{other}")  # which nothing is called, but something similar
    return Named(_dotted(node))


def _dotted(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=of, attr=name):
            return f"{_dotted(of)}.{name}".replace(MARK, ":")
    raise ValueError("not a name")


def split(text: str) -> list[str]:
    """Splits a text at its commas, except those in parentheses or quotation marks."""
    values, depth, quote = [""], 0, ""
    for character in text:
        if quote or character in "\"'":
            quote = "" if character == quote else quote or character
        elif character in "()":
            depth += 1 if character == "(" else -1
        if character == "," and depth == 0 and not quote:
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
        found = main_with(attribute) if module == MAIN else importlib.import_module(module)
        imported = getattr(found, attribute)
    except (ImportError, AttributeError) as error:
        hint = ""
        if module.endswith(".py"):
            hint = "; write module:name, without .py"
        elif module == MAIN:
            hint = "; of what a script or notebook defines, its run keeps the source, in code"
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
