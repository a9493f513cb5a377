"""The page on the library, run as a notebook in a fresh kernel."""

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

PAGE = Path(__file__).parents[1] / "docs" / "library.md"


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    """The cells of the page after they have run."""
    sources = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), flags=re.DOTALL)
    notebook = nbformat.v4.new_notebook(cells=list(map(nbformat.v4.new_code_cell, sources)))
    where = {"metadata": {"path": str(tmp_path_factory.mktemp("notebook"))}}
    return NotebookClient(notebook, timeout=600, resources=where).execute().cells


def shown(cell):
    """The outputs of a cell, by their kind."""
    data = [output.get("data", {"text/plain": output.get("text", "")}) for output in cell.outputs]
    return {kind: "".join(one[kind] for one in data if kind in one) for kind in set().union(*data)}


def test_training_shows_its_progress_and_validations(cells):
    text = shown(cells[1])["text/plain"]
    assert "400/400" in text
    assert re.search(r"step 200: loss \d\.\d+, validation exact_match \d+\.\d\d", text)
    assert "warning" not in text


def test_the_comparison_of_an_own_score_with_dot_is_a_table(cells):
    table = shown(cells[2])["text/markdown"]
    exact = dict(re.findall(r"^\| (\S+) \| 1 \| \d \|[^|]+\|[^|]+\| (\S+) \|", table, re.MULTILINE))
    assert set(exact) == {r"\__main_\_:Near(tau=0.1)", "dot"}
    assert all(float(percentage) > 80 for percentage in exact.values())


def test_a_translation_shows_its_weights(cells):
    html = shown(cells[4])["text/html"]
    assert "a b c d e f</p>" in html
    assert html.count("<tr>") == 1 + 7  # the source, then each target token with the end


def test_figures_show(cells):
    assert all("image/png" in shown(cell) for cell in cells[5:])
