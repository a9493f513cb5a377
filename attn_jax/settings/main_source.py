"""The source of classes and functions of `__main__`: of a script, or of the cells of a notebook.

A run keeps it as a file, from which programs can import it.
"""

import ast
import dis
import functools
import inspect
import os
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from attn_jax.errors import InputError

MAIN = "__main__"
PROGRAMS = ("attn_jax", "experiments")  # packages whose modules are programs
KEPT = "ATTN_JAX_MAIN"  # the environment variable that names the file
LOADS = ("LOAD_NAME", "LOAD_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS")


def main_with(name: str) -> ModuleType:
    """The module `__main__`; for one of our programs, that of which a run has kept the source.

    Args:
      name: what is looked for in it. If it is not there, the program takes the file that the
        variable `KEPT` names for its `__main__`, as the script or notebook was that began the run.
    """
    main, file = sys.modules[MAIN], os.environ.get(KEPT, "")
    program = getattr(main, "__spec__", None)
    is_program = program is not None and program.parent in PROGRAMS
    if hasattr(main, name) or not is_program or getattr(main, "__file__", None) == file:
        return main
    if not Path(file).is_file():
        return main
    module = sys.modules[MAIN] = ModuleType(MAIN)  # where hints of types are looked up
    module.__file__, module.__spec__ = file, program  # which still says what runs
    try:
        exec(compile(Path(file).read_bytes(), file, "exec"), vars(module))
    except BaseException:
        sys.modules[MAIN] = main
        raise
    return module


def main_source(names: Iterable[str]) -> str:
    """The source of names of `__main__`, with all that it uses there; definitions come before uses.

    Raises:
      InputError: it cannot be had, or is not that of what has the name now.
    """
    statements, main = _statements(), vars(sys.modules[MAIN])
    kept, seen = dict[str, Sequence[CodeType]](), set[str]()  # by text, as what follows

    def keep(name: str) -> None:
        if name not in statements:
            raise InputError(_advice(name, "no statement at its top defines it"))
        text, codes = statements[name]
        if text in seen:
            return
        seen.add(text)
        used = set[str]().union(*(_named(one, LOADS) for one in _codes(codes[0])))
        # Others are of Python itself, also those such as `__name__`.
        for each in sorted(one for one in used & main.keys() if not one.startswith("__")):
            keep(each)
        kept[text] = codes

    asked = sorted(set(names))
    for name in asked:
        keep(name)
    known = {_content(one) for codes in kept.values() for code in codes for one in _codes(code)}
    for name in asked:
        if not all(_content(code) in known for code in _codes_of(main[name])):
            raise InputError(_advice(name, "it is not what the statement that defines it gave"))
    return "\n\n\n".join(kept) + "\n"


def _advice(name: str, why: str) -> str:
    return (
        f"the source of {name} in {MAIN}, which a run keeps, cannot be had: {why}. Put it at the "
        "top of a script, a notebook cell or a module"
    )


def _statements() -> dict[str, tuple[str, Sequence[CodeType]]]:
    """The last statement at the top of `__main__` that defines a name.

    By the name, it is its text, its code by itself as notebooks have it, and its functions as in a
    script, where code depends on the imports around it. What is done only if `__name__` is
    `__main__` is not for others to import.
    """
    found: dict[str, tuple[str, Sequence[CodeType]]] = {}
    for text in _texts():
        try:
            nodes, whole = ast.parse(text).body, compile(text, MAIN, "exec", dont_inherit=True)
        except SyntaxError:  # a cell that did not run
            continue
        for node in nodes:
            code = compile(ast.Module([node], []), MAIN, "exec", dont_inherit=True)
            if isinstance(node, ast.If) and "__name__" in code.co_names:
                continue
            for decorator in getattr(node, "decorator_list", [])[:1]:
                node.lineno, node.col_offset = decorator.lineno, 0
            segment, last = ast.get_source_segment(text, node) or "", node.end_lineno or 0
            inside = [one for one in _nested(whole) if node.lineno <= one.co_firstlineno <= last]
            found |= dict.fromkeys(_named(code, ["STORE_NAME"]), (segment, [code, *inside]))
    return found


def _texts() -> Iterator[str]:
    """The text of the script, and of the cells of a notebook in the order in which they ran."""
    if file := getattr(sys.modules[MAIN], "__file__", None):
        yield _text(file)
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is not None:
        yield from shell.history_manager.input_hist_parsed


@functools.cache  # as it was at first, even if it is edited meanwhile
def _text(file: str) -> str:
    return Path(file).read_text("utf-8") if Path(file).is_file() else ""


def _codes(code: CodeType) -> Iterator[CodeType]:
    """A code and all that are nested in it."""
    yield code
    for one in _nested(code):
        yield from _codes(one)


def _nested(code: CodeType) -> list[CodeType]:
    return [one for one in code.co_consts if isinstance(one, CodeType)]


def _named(code: CodeType, operations: Collection[str]) -> set[str]:
    """The names to which a code applies some operations."""
    return {one.argval for one in dis.get_instructions(code) if one.opname in operations}


def _codes_of(value: Any) -> Iterator[CodeType]:
    """The codes of a function of `__main__`, or of the methods of a class."""
    for one in vars(value).values() if isinstance(value, type) else [value]:
        function = inspect.unwrap(getattr(one, "__func__", one))
        code = getattr(function, "__code__", None)
        # The standard library makes methods of dataclasses from text.
        if code and function.__module__ == MAIN and code.co_filename != "<string>":
            yield code


def _content(code: CodeType) -> tuple:
    """What a code does, wherever it stands."""
    held = (_content(one) if isinstance(one, CodeType) else repr(one) for one in code.co_consts)
    return code.co_name, code.co_code, code.co_names, code.co_varnames, *held
