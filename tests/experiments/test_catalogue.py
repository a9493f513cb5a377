"""The page of mechanisms matches the code."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from attn_jax import GATES, MIXING, NORMALIZERS, SCORES, SOURCES, VALUES, WINDOWS
from attn_jax.attention.catalogue import COMPOSITIONS, WRAPPERS
from attn_jax.models.readouts import OVER_POSITIONS, OVER_WORDS
from experiments import catalogue
from tests.attention.cases import NORMALIZER_LOOPS, SCORE_LOOPS, WINDOW_LOOPS, plain


def test_the_page_is_up_to_date():
    page = catalogue.FILE.read_text("utf-8")
    assert page.partition(catalogue.MEASURED)[0].strip() == catalogue.mechanisms().strip()


def test_without_runs_the_measurements_stay(tmp_path, monkeypatch):
    page = tmp_path / "mechanisms.md"
    page.write_text(f"earlier tables\n\n{catalogue.MEASURED}\n\nfigures\n")
    monkeypatch.setattr(catalogue, "FILE", page)
    monkeypatch.setattr(catalogue, "FLAGS", SimpleNamespace(workdir=""))
    catalogue.main()
    assert page.read_text() == f"{catalogue.mechanisms()}\n{catalogue.MEASURED}\n\nfigures\n"


@pytest.mark.parametrize(
    "table", [SCORES, COMPOSITIONS, WINDOWS, NORMALIZERS, WRAPPERS, VALUES, GATES, MIXING]
)
def test_every_mechanism_has_formula_cost_and_paper(table):
    told = catalogue.catalogue(table)
    for column in ("name", "formula", "cost", "paper"):
        assert told[column].all(), column


@pytest.mark.parametrize(
    "classes", [OVER_POSITIONS, OVER_WORDS, SOURCES], ids=["positions", "words", "sources"]
)
def test_what_has_no_parameters_of_a_head_has_formula_cost_and_paper(classes):
    assert catalogue.without_parameters(classes).map(bool).all(axis=None)


def test_shapes_are_told_in_letters():
    told = catalogue.catalogue(SCORES).set_index("name")
    assert told.loc["`concat`", "parameters"] == "W [Q+D, A], v [A]"


LOOPS = {plain(name) for name in SCORE_LOOPS | WINDOW_LOOPS | NORMALIZER_LOOPS}
TRAINS = catalogue.published().query("state == 'trains'")


def test_what_is_published_is_counted():
    """Of 135, these train; `test_a_row_that_trains_has_an_oracle` is about them."""
    assert catalogue.published()["number"].tolist() == list(range(1, 136))
    assert set(catalogue.published()["state"]) == set(catalogue.STATES)
    assert len(TRAINS) == 118


@pytest.mark.parametrize("row", [*TRAINS.itertuples()], ids=lambda row: row.mechanism)
def test_a_row_that_trains_has_an_oracle(row):
    if row.oracle:  # a test of its own
        file, _, name = row.oracle.partition("::")
        assert f"def {name}(" in Path(file).read_text()
    else:  # a loop for each part that it names
        parts = set(re.findall(r"[a-z_][a-z0-9_]*", row.options.partition("=")[2]))
        assert (
            parts - {"or", "model", "score", "with", "k", "gate", "heads", "normalizer", "rms_norm"}
            <= LOOPS
        )
