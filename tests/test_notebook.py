"""The notebooks, and the page on the library as one, run in a fresh kernel."""

import csv
import re
from pathlib import Path

import nbformat
import numpy as np
import pytest
from nbclient import NotebookClient

from tests.stages import full

pytestmark = full

DOCS = Path(__file__).parents[1] / "docs"
NOTEBOOKS = ("lecture", "cross_attention")


def run(notebook, folder):
    """The code cells of a notebook after they have run in a folder."""
    where = {"metadata": {"path": str(folder)}}
    cells = NotebookClient(notebook, timeout=600, resources=where).execute().cells
    return [cell for cell in cells if cell.cell_type == "code"]


def code_of(page):
    """The code of a page as cells."""
    text = (DOCS / f"{page}.md").read_text("utf-8")
    sources = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    return list(map(nbformat.v4.new_code_cell, sources))


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    """The cells of the page after they have run."""
    notebook = nbformat.v4.new_notebook(cells=code_of("library"))
    return run(notebook, tmp_path_factory.mktemp("notebook"))


def opened(name):
    return nbformat.read(DOCS / f"{name}.ipynb", as_version=4)


@pytest.fixture(scope="module")
def lecture(tmp_path_factory):
    """The cells of the lecture, then of the answers to its exercises; and its trained runs."""
    folder = tmp_path_factory.mktemp("lecture")
    notebook = opened("lecture")
    notebook.cells += code_of("lecture_answers")
    cells = run(notebook, folder)
    with (folder / "runs" / "lecture" / "runs.csv").open() as file:
        return cells, {row["system"]: row for row in csv.DictReader(file)}


@pytest.fixture(scope="module")
def cross_attention(tmp_path_factory):
    """The cells of the notebook on cross-attention."""
    return run(opened("cross_attention"), tmp_path_factory.mktemp("cross_attention"))


def cell(cells, text):
    """The one cell with a text in its source."""
    (found,) = (one for one in cells if text in one.source)
    return found


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
    exact = dict(re.findall(r"^\| (\S+) \| (\d+\.\d) ", table, re.MULTILINE))
    assert set(exact) == {r"\__main_\_:Near(tau=0.1)", "dot"}
    assert all(float(percentage) > 80 for percentage in exact.values())


def test_a_translation_shows_its_weights(cells):
    html = shown(cells[4])["text/html"]
    assert html.count("3 1 4 1 5 9</p>") == 2  # the source and its copy
    assert html.count("<tr>") == 1 + 7  # the source, then each target token with the end


def test_figures_show(cells):
    assert all("image/png" in shown(cell) for cell in cells[5:])


def test_the_bottleneck_of_the_lecture_is_one(lecture):
    """Attention reads what a fixed vector has forgotten, and the figure of it shows."""
    cells, runs = lecture
    exact = {name: float(run["exact_match"]) for name, run in runs.items()}
    assert exact["additive"] > 90
    assert exact["last"] < 60
    assert "image/png" in shown(cell(cells, "reverse-length.png"))


def test_what_the_lecture_computes_by_hand_is_what_the_library_computes(lecture):
    cells, _ = lecture
    compared = [shown(one)["text/plain"] for one in cells if "np.allclose" in one.source]
    assert len(compared) == 4
    assert all("True" in text and "False" not in text for text in compared)
    assert "got 3 and 4" in shown(cell(cells, "Dot().init"))["text/plain"]


def test_the_model_of_the_lecture_needs_what_it_looks_at(lecture):
    cells, _ = lecture
    text = shown(cell(cells, "most attended symbol"))["text/plain"]
    most, other = map(int, re.findall(r"(\d+)%", text))
    assert most > 60 > 30 > other


def test_the_figures_of_the_lecture_show(lecture):
    cells, _ = lecture
    drawn = [one for one in cells if re.search(r"(heat_map|bars|compare)\(.*\)$", one.source)]
    assert len(drawn) == 11
    assert all("image/png" in shown(one) for one in drawn)
    assert "<table>" in shown(cell(cells, "\nhypothesis"))["text/html"]


def test_a_larger_vector_hardly_helps_as_the_answers_say(lecture):
    cells, _ = lecture
    _, table = shown(cell(cells, "length  last, 64"))["text/plain"].split("additive\n")
    exact = {length: right for length, *right in np.loadtxt(table.splitlines(), int).tolist()}
    assert min(exact[4]) > 80
    assert max(exact[12][:2]) < 20 < 70 < exact[12][2]


def test_the_shapes_of_cross_attention_are_those_that_are_told(cross_attention):
    shapes = [
        ("Q.shape, K.shape", "((1, 3, 4), (1, 5, 4), (1, 5, 4))"),
        ("\nscores.shape", "(1, 3, 5)"),
        ("\noutput.shape", "(1, 3, 4)"),
        ("queries.shape, keys.shape", "((1, 3, 4), (1, 6, 4), (1, 3, 6))"),
        ("q.shape, k.shape", "((1, 2, 3, 2), (1, 2, 5, 2), (1, 2, 3, 5), (1, 2, 3, 2))"),
    ]
    for source, text in shapes:
        assert shown(cell(cross_attention, source))["text/plain"].strip() == text
    assert shown(cell(cross_attention, "np.allclose(output"))["text/plain"] == "(True, True)"


def test_the_block_is_that_of_pytorch(cross_attention):
    pytest.importorskip("torch")
    text = shown(cell(cross_attention, "theirs"))["text/plain"]
    assert text == "weights agree: True\noutputs agree: True\n"


def test_the_heads_of_the_trained_transformer_show(cross_attention):
    assert shown(cross_attention[-2])["text/plain"].startswith("(1, 4, ")
    assert "image/png" in shown(cross_attention[-1])
    assert "1998-03-03" in shown(cross_attention[-3])["text/html"]


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_cells_are_short_and_shown_as_they_ran(name):
    for one in opened(name).cells:
        if one.cell_type == "code":
            assert len(one.source.splitlines()) <= 18, one.source
            assert not any(output.output_type == "error" for output in one.outputs)
