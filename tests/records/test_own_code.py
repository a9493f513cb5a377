"""Which code of the user's own a run keeps, and how it notices that it was edited."""

import importlib
import sys

import pytest

from attn_jax.attention.protocol import Score
from attn_jax.config.reading import read
from attn_jax.errors import InputError
from attn_jax.records.own_code import (
    check_copies,
    copy_of,
    digest,
    edited,
    forget_code,
    keep_code,
    own_modules,
    source,
)
from tests.options import with_model


def write(folder, name, text):
    (folder / f"{name}.py").write_text(text)
    importlib.invalidate_caches()


OWN = "def own(query, keys):\n    return keys @ query\n"
SIMILAR = """
from attn_jax import Score

class Similar(Score):
    sharpness: float = 10.0
    compared: Score

    def score(self, p, query, keys, past):
        return self.sharpness * (keys @ query)
"""


def test_modules_of_the_package_are_not_the_users_own(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    write(tmp_path, "mine_of_scores", SIMILAR)
    write(tmp_path, "mine_inside", OWN)
    experiment = with_model(
        score="mine_of_scores:Similar(compared=mine_inside:own,sharpness=5)",
        normalizer="attn_jax.attention.normalizers:Smoothing",
        cell="mine_too:Cell",
        encoder="attn_jax.models.encoders:RecurrentEncoder",  # named like one's own
    )
    assert [*own_modules(experiment)] == ["mine_too", "mine_of_scores", "mine_inside"]
    assert own_modules(with_model(normalizer="entmax(alpha=1.25)")) == {}


def test_an_import_that_fails_in_own_code_names_its_line(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    write(tmp_path, "imports_nothing", "import jax\nimport not_there\n")
    with pytest.raises(
        InputError, match=r"No module named 'not_there' \(imports_nothing.py, line 2"
    ):
        read(Score, "imports_nothing:own")


NAMELESS = """
import functools

def scaled(query, keys, factor):
    return factor * (keys @ query)

twice = functools.partial(scaled, factor=2)
thrice = lambda query, keys: 3 * (keys @ query)
"""


@pytest.mark.parametrize("name", ["twice", "thrice"])
def test_a_function_is_recorded_as_it_is_called(tmp_path, monkeypatch, name):
    monkeypatch.syspath_prepend(tmp_path)
    write(tmp_path, "without_names", NAMELESS)
    experiment = with_model(score=f"without_names:{name}")
    model = experiment.model
    assert str(model.score) == model.score.brief() == f"without_names:{name}"
    assert own_modules(experiment) == {"without_names": [name]}
    assert read(Score, str(model.score)) == model.score


def test_what_has_no_source_or_was_not_kept_does_not_differ(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    write(tmp_path, "kept_not", OWN)
    keep_code(tmp_path, with_model(score="math:dist"))
    assert not copy_of(tmp_path, "math").exists()
    assert edited(tmp_path, {"math": ["dist"], "kept_not": ["own"]}) == []


def test_what_is_imported_stays_as_its_file_is_edited(tmp_path, monkeypatch):
    """A training continues with the imported module, and writes and compares the copy later."""
    monkeypatch.syspath_prepend(tmp_path)
    name, text = "while_running", OWN + '# "é\f" of another\r\n'
    write(tmp_path, name, text)
    experiment = with_model(score=f"{name}:own")
    assert edited(tmp_path, {name: ["own"]}) == []
    write(tmp_path, name, "own = None")
    keep_code(tmp_path, experiment)
    assert edited(tmp_path, {name: ["own"]}) == []
    keep_code(tmp_path, experiment)
    assert copy_of(tmp_path, name).read_text() == text.replace("\r\n", "\n")


def test_a_module_that_is_reloaded_is_read_anew(tmp_path, monkeypatch):
    """A notebook reloads what has been edited, and the next run is of the new code."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    name, edited_text = "reloaded_in_notebook", OWN + "# edited\n"
    write(tmp_path, name, OWN)
    assert source(name, ["own"]) == OWN  # before it is imported
    module = importlib.import_module(name)
    write(tmp_path, name, edited_text)
    assert source(name, ["own"]) == OWN
    importlib.reload(module)
    assert source(name, ["own"]) == edited_text


def files(folder):
    """Every file and link below a folder, with its content and the time of its last change."""
    return {
        path: (path.lstat().st_mtime_ns, path.is_symlink() or path.read_bytes())
        for path in folder.rglob("*")
        if not path.is_dir() or path.is_symlink()
    }


def test_only_copies_that_an_earlier_start_has_made_are_deleted(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("of_first_start", "of_next_start"):
        write(tmp_path, name, OWN)
    first, following = (
        with_model(score=f"{name}:own") for name in ("of_first_start", "of_next_start")
    )
    run = tmp_path / "run"
    run.mkdir()
    (run / "flags.txt").write_text("--model.score=of_first_start:own")
    keep_code(run, first)
    its_digest = digest(run)
    write(run / "code", "what_it_imports", "WIDTH = 3")
    assert digest(run) == its_digest
    kept = files(run)
    forget_code(run, first)
    keep_code(run, first)
    assert files(run) == kept
    forget_code(run, following)
    keep_code(run, following)
    assert {file.stem for file in (run / "code").iterdir()} == {"of_next_start", "what_it_imports"}


def test_nothing_is_deleted_or_written_through_a_link(tmp_path, monkeypatch):
    mine, run = tmp_path / "mine", tmp_path / "run"
    mine.mkdir()
    monkeypatch.syspath_prepend(mine)
    for name in ("of_old_model", "of_new_model", "of_no_model"):
        write(mine, name, OWN)
    new, plain = with_model(score="of_new_model:own"), with_model()
    run.mkdir()
    (run / "flags.txt").write_text("--model.score=of_old_model:own")
    (run / "code").symlink_to(mine)
    before = files(tmp_path)
    with pytest.raises(InputError, match=r"run/code is a link: remove it, since the run keeps"):
        check_copies(run, new)
    check_copies(run, plain)
    for experiment in (new, plain):
        forget_code(run, experiment)
    (run / "code").unlink()
    (run / "code").mkdir()
    for name in ("of_old_model.py", "of_new_model.py"):
        (run / "code" / name).symlink_to(mine / name)
    forget_code(run, plain)
    with pytest.raises(InputError, match=r"of_new_model\.py is a link"):
        check_copies(run, new)
    assert all(path.exists() and files(tmp_path)[path] == before[path] for path in mine.iterdir())
    assert (run / "code" / "of_old_model.py").is_symlink()
