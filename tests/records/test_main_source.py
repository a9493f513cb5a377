"""The source of what a script or notebook defines, which runs keep as that of modules."""

import re
import sys
import types
from types import SimpleNamespace

import nbformat
import pytest
from nbclient import NotebookClient

from attn_jax.attention.protocol import Score
from attn_jax.config.reading import read
from attn_jax.errors import InputError
from attn_jax.records import journal
from attn_jax.records.own_code import edited, keep_code
from attn_jax.runs.folder import check_code, is_empty, keep_main
from attn_jax.settings.main_source import KEPT, main_source
from tests.options import with_model
from tests.stages import full

SCRIPT = """
from __future__ import annotations

import functools

import jax.numpy as jnp

from attn_jax import Score, setting

FACTOR = 2.0; UNUSED = 3
scores = print  # not what a method has under this name


def halved(x):
    return x / FACTOR


def loud(function):
    @functools.wraps(function)
    def inner(*given):
        return function(*given)
    return inner


class Near(Score):
    tau: float = setting(0.1, above=0)

    def score(self, p, query, keys, past):
        scores = -self.tau * halved(jnp.sum((query - keys) ** 2, axis=-1))
        return scores


class Nearer(Near):
    tau: float = 2.0


@loud
def own(query, keys):
    return keys @ query


def make(n):
    class Made(Score):
        def score(self, p, query, keys, past):
            return n * (keys @ query)
    return Made


Made = make(2)
exec("class Hidden(Near):\\n    def score(self, *given):\\n        return 0")

if __name__ == "__main__":
    started = True
"""


@pytest.fixture
def script(tmp_path, monkeypatch):
    """Runs a text as the script of this process."""

    def run(text, name="script.py"):
        file = tmp_path / name
        file.write_text(text)
        main = types.ModuleType("__main__")
        main.__file__ = str(file)
        monkeypatch.setitem(sys.modules, "__main__", main)
        exec(compile(text, str(file), "exec"), vars(main))
        return main

    return run


@pytest.fixture
def notebook(monkeypatch):
    """Runs texts as cells of a notebook; those that fail too."""
    main = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    ran = []
    shell = SimpleNamespace(history_manager=SimpleNamespace(input_hist_parsed=ran))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))

    def run(text):
        ran.append(text)
        exec(compile(text, f"<cell {len(ran)}>", "exec"), vars(main))

    return run


def test_the_source_of_a_class_has_all_that_it_uses_and_nothing_else(script):
    script(SCRIPT)
    text = main_source(["Nearer"])
    assert re.findall(r"^(?:class|def|import|from) .*|^\w+ = .*", text, re.MULTILINE) == [
        "from attn_jax import Score, setting",
        "FACTOR = 2.0",
        "def halved(x):",
        "import jax.numpy as jnp",
        "class Near(Score):",
        "class Nearer(Near):",
    ]
    exec(text, {"__name__": "__main__"})


@pytest.mark.parametrize("name", ["Near", "Nearer", "own", "Made"])
def test_the_source_of_a_source_is_the_same(script, name):
    main = script(SCRIPT)
    text = main_source([name])
    again = script(text, "kept.py")
    assert main_source([name]) == text
    assert type(getattr(again, name)) is type(getattr(main, name))


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("Hidden", "Hidden in __main__.*no statement at its top"),
        ("started", "started in __main__.*no statement"),
    ],
)
def test_what_no_statement_defines_has_no_source(script, name, why):
    script(SCRIPT)
    with pytest.raises(InputError, match=why):
        main_source([name])


CELL = """
class Near(Score):
    def score(self, p, query, keys, past):
        return 2 * (keys @ query)
"""


def test_of_a_notebook_the_last_cell_that_ran_counts(notebook):
    notebook("from attn_jax import Score")
    notebook(CELL)
    assert "2 * (keys" in main_source(["Near"])
    notebook(CELL.replace("2", "3"))
    assert "3 * (keys" in main_source(["Near"])
    with pytest.raises(ZeroDivisionError):
        notebook("1 / 0" + CELL.replace("2", "4"))
    with pytest.raises(InputError, match="it is not what the statement that defines it gave"):
        main_source(["Near"])
    notebook(CELL.replace("2", "4"))
    notebook("Score = None")
    assert "Score = None" in main_source(["Near"])


def test_an_edited_class_is_told_as_an_edited_module_is(notebook, tmp_path):
    notebook("from attn_jax import Score")
    notebook(CELL)
    experiment = with_model(score="__main__:Near")
    journal.append(tmp_path, {"step": 1})
    keep_code(tmp_path, experiment)
    modules = {"__main__": ["Near"]}
    check_code(tmp_path, modules)
    notebook("Other = 3  # changes nothing")
    check_code(tmp_path, modules)
    notebook(CELL.replace("2", "3"))
    with pytest.raises(InputError, match=r"^Near in __main__ is not the code that the run in .*"):
        check_code(tmp_path, modules)
    notebook(CELL)
    assert edited(tmp_path, modules) == []


def test_a_run_of_a_sweep_imports_what_is_kept(script, tmp_path, monkeypatch):
    script(SCRIPT)
    experiment = with_model(score="__main__:Near(tau=3)")
    run = tmp_path / "run"
    keep_main(run, experiment)
    assert is_empty(run)
    program = types.ModuleType("__main__")
    program.__spec__ = SimpleNamespace(parent="experiments")
    monkeypatch.setitem(sys.modules, "__main__", program)
    with pytest.raises(InputError, match=r"no attribute 'Near'; of what a script or notebook"):
        read(Score, "__main__:Near")
    monkeypatch.setenv(KEPT, str(run / "code" / "__main__.py"))
    score = read(Score, "__main__:Near(tau=3)")
    assert str(score) == "__main__:Near(tau=3.0)"
    assert type(score) is type(read(Score, "__main__:Near"))
    check_code(run, {"__main__": ["Near"]})
    assert sys.modules["__main__"].__spec__ is program.__spec__


def test_what_cannot_be_imported_by_itself_is_told_before(notebook, tmp_path):
    notebook("from attn_jax import Score")
    notebook("count = 1")
    notebook("count += 1")
    notebook(CELL.replace("2", "count"))
    with pytest.raises(InputError, match=r"for Near of __main__, .*fails with NameError: .*count"):
        keep_main(tmp_path / "run", with_model(score="__main__:Near"))
    assert not (tmp_path / "run").exists()


IMPORTS = "import jax.numpy as jnp\nimport attn_jax\nTAU = 0.5"
IN_CELL = """
class Near(attn_jax.Score):
    def score(self, p, query, keys, past):
        return -TAU * jnp.sum((query - keys) ** 2, axis=-1)
"""
TINY = """
options = {
    "data.name": "copy", "data.examples": 60, "data.held_out": 5, "data.longest": 6,
    "model.embedding_size": 8, "model.annotation_size": 8, "model.hidden_size": 8,
    "model.readout_size": 8, "train.steps": 4, "train.buckets": 1,
}
"""
TRAIN = """
try:
    attn_jax.train({**options, "model.score": Near()}, "run")
except attn_jax.InputError as error:
    print("refused:", error)
"""
LOAD = """
import warnings
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    attn_jax.load("run")
print([str(one.message) for one in told])
"""
SWEEP = """
attn_jax.sweep(options, "sweep", grid={"model.score": [Near(), "dot"]}, jobs=1)
"""


@full
def test_a_notebook_is_told_of_an_edited_cell_and_makes_a_sweep(tmp_path):
    sources = [IMPORTS, IN_CELL, TINY, TRAIN, IN_CELL.replace("-TAU", "TAU"), TRAIN, LOAD]
    sources += [IN_CELL, LOAD, SWEEP, SWEEP]
    cells = list(map(nbformat.v4.new_code_cell, sources))
    where = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(nbformat.v4.new_notebook(cells=cells), timeout=600, resources=where).execute()
    told = ["".join(one.get("text", "") for one in cell.outputs) for cell in cells]
    why = "Near in __main__ is not the code that the run in run was trained with, which is kept as "
    assert "refused" not in told[3]
    assert f"refused: {why}run/code/__main__.py" in told[5]
    assert f"{why}run/code/__main__.py: the parameters may no longer fit it" in told[6]
    assert told[8].strip() == "[]"
    assert "failed" not in told[9]
    assert "2 runs, 2 of them finished" in told[10]
    kept = tmp_path / "sweep" / "model.score=__main__:Near" / "code" / "__main__.py"
    assert kept.read_text() == (tmp_path / "run" / "code" / "__main__.py").read_text()
