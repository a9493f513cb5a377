"""Which code of the user's own a run keeps, and how it notices that it was edited."""

import importlib

import pytest

from attn_jax.attention.catalogue import resolve
from attn_jax.config import Model
from attn_jax.errors import InputError
from attn_jax.own_code import copy_of, edited, keep_code, own_modules


def write(folder, name, text):
    (folder / f"{name}.py").write_text(text)
    importlib.invalidate_caches()


def test_modules_of_the_package_are_not_the_users_own():
    model = Model(
        score="mine.scores:similar(sharpness=5)",
        window="mine.scores:near",
        normalizer="attn_jax.attention.sparse:sparsemax",
        cell="mine_too:Cell",
    )
    assert own_modules(model) == ["mine_too", "mine.scores"]
    assert own_modules(Model(normalizer="entmax(alpha=1.25)")) == []


def test_an_import_that_fails_in_own_code_names_its_line(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    write(tmp_path, "imports_nothing", "import jax\nimport not_there\n")
    with pytest.raises(
        InputError, match=r"No module named 'not_there' \(imports_nothing.py, line 2"
    ):
        resolve("score", "imports_nothing:own")


def test_what_has_no_source_or_was_not_kept_does_not_differ(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    write(tmp_path, "kept_not", "def own(query, keys):\n    return keys @ query\n")
    keep_code(tmp_path, Model(score="math:dist"))
    assert not copy_of(tmp_path, "math").exists()
    assert edited(tmp_path, Model(score="math:dist", cell="kept_not:own")) == []


def test_what_is_imported_stays_as_its_file_is_edited(tmp_path, monkeypatch):
    """A training continues with the imported module, and writes and compares the copy later."""
    monkeypatch.syspath_prepend(tmp_path)
    model, text = Model(score="while_running:own"), 'own = "é\f"  # no function\r\n'
    write(tmp_path, "while_running", text)
    assert edited(tmp_path, model) == []
    write(tmp_path, "while_running", "own = None")
    keep_code(tmp_path, model)
    assert edited(tmp_path, model) == []
    keep_code(tmp_path, model)
    assert copy_of(tmp_path, "while_running").read_text() == text.replace("\r\n", "\n")
