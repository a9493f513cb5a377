"""Weights of other toolkits: the format, the recipes of the docs, and what is refused."""

import contextlib
import html
import json
import re
from pathlib import Path

import numpy as np
import pytest

import attn_jax
from attn_jax.errors import InputError
from tests.reporting.test_page import data_of, unpacked

DOCS = (Path(__file__).parents[2] / "docs" / "report.md").read_text("utf-8")
PAIR = {"source": ["a", "b", "</s>"], "target": ["B", "</s>"]}
WEIGHTS = np.random.default_rng(0).dirichlet(np.ones(3), (2, 4, 2))


def shown(path):
    """The sentences of a page, and its systems."""
    (one,) = data_of(path.read_text("utf-8"))["sets"]
    (split,) = one["splits"]
    return split["sentences"], split["systems"]


def recipe(name):
    """The code of the docs that comes after the paragraph that names a toolkit."""
    return re.search(rf"{name}.*?```python\n(.*?)```", DOCS, re.DOTALL)[1]


def test_files_and_python_show_the_same(tmp_path):
    pairs = [PAIR | {"weights": WEIGHTS, "links": [(1, 0)]}, PAIR | {"weights": WEIGHTS[:, ::-1]}]
    arrays = {
        f"{name}_{nth}": value for nth, pair in enumerate(pairs) for name, value in pair.items()
    }
    np.savez(tmp_path / "a.npz", **arrays)
    listed = [pair | {"weights": pair["weights"].tolist()} for pair in pairs]
    (tmp_path / "a.json").write_text(json.dumps(listed))
    pages = []
    for given in (pairs, tmp_path / "a.npz", str(tmp_path / "a.json")):
        attn_jax.page(tmp_path / "page.html", given)
        pages.append((tmp_path / "page.html").read_text("utf-8"))
    assert len({*pages}) == 1
    shows_itself = attn_jax.page(tmp_path / "page.html", pairs)._repr_html_()
    assert html.unescape(re.search('srcdoc="(.*?)"', shows_itself, re.DOTALL)[1]) == pages[0]
    sentences, (system,) = shown(tmp_path / "page.html")
    assert [one["source"] for one in sentences] == ["a b </s>"] * 2
    assert (system["layers"], system["heads"]) == (2, 4)
    first, second = system["sentences"]
    assert first["target"] == ["B", "</s>"]
    assert first["links"] == [[0, 1]]  # of target and source
    assert "links" not in second
    read = unpacked(second["heads"], WEIGHTS.shape)
    np.testing.assert_allclose(read, WEIGHTS[:, ::-1], atol=0.004)


def test_systems_stand_side_by_side(tmp_path):
    whole = [PAIR | {"weights": WEIGHTS}]
    mean = [PAIR | {"weights": WEIGHTS.mean(axis=(0, 1), keepdims=True)}]
    attn_jax.page(tmp_path / "a.html", {"heads": whole, "mean": mean})
    _, systems = shown(tmp_path / "a.html")
    assert [(one["name"], one["heads"]) for one in systems] == [("heads", 4), ("mean", 1)]


@pytest.mark.parametrize(
    ("weights", "told"),
    [
        (np.log(WEIGHTS), r"the lowest weight is -.*, .* sum to up to -.*: if they are logits"),
        (4 * WEIGHTS, r"^other: the lowest weight is 0\..*, .* sum to up to 4: if they are logits"),
        (WEIGHTS.astype(np.float16), None),
        (np.ones((1, 1, 2, 3)), None),  # links of each token with all
    ],
)
def test_logits_are_drawn_with_a_warning(tmp_path, weights, told):
    pairs = {"right": [PAIR | {"weights": WEIGHTS}], "other": [PAIR | {"weights": weights}]}
    with pytest.warns(UserWarning, match=told) if told else contextlib.nullcontext():
        attn_jax.page(tmp_path / "a.html", pairs)
    assert (tmp_path / "a.html").exists()


RAGGED = [[[[0.5, 0.5, 0], [1]]]]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"weights": WEIGHTS[0]}, "weights must be [L, N, 2, 3], of layers, heads, target and"),
        ({"weights": np.swapaxes(WEIGHTS, 2, 3)}, "source tokens, got [2, 4, 3, 2]"),
        ({"weights": WEIGHTS[:0]}, "got [0, 4, 2, 3]"),
        ({"weights": RAGGED}, "pair 0: weights must be numbers, in rows of equal length"),
        ({"weights": WEIGHTS * np.nan}, "weights must be finite"),
        ({"source": "a b"}, "pair 0: source must be a list of one or more tokens, each a text"),
        ({"target": []}, "pair 0: target must be a list of one or more tokens"),
        ({"target": [1, 2]}, "each a text"),
        ({"links": [(0, 2)]}, "links must be within 3 source and 2 target tokens"),
        ({"links": [(-1, 0)]}, "links must be within"),
        ({"links": [0, 1]}, "links must be pairs of places"),
        ({"links": [[0, 0], [1]]}, "links must be pairs of places"),
        ({"links": [(0.5, 1)]}, "links must be pairs of places"),
        ({"weight": WEIGHTS}, "has an unknown 'weight'"),
        ({"source_words": [0, 1]}, "source_words must be the number of the word of each of the 3"),
        ({"target_words": [0, 2]}, "target_words must be the number of the word of each of the 2"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_written(tmp_path, change, why):
    with pytest.raises(InputError, match=re.escape(why)):
        attn_jax.page(tmp_path / "a.html", [PAIR | {"weights": WEIGHTS} | change])
    assert not (tmp_path / "a.html").exists()


@pytest.mark.parametrize(
    ("systems", "why"),
    [
        ({}, "there is no system"),
        ([], "systems must be a list of one or more pairs"),
        ([7], "pair 0 must be a table of source, target, weights"),
        ([PAIR], "pair 0 has no weights"),
        (
            [PAIR | {"weights": WEIGHTS}, PAIR | {"weights": WEIGHTS[:1]}],
            "pairs differ in their layers and heads: (1, 4) and (2, 4)",
        ),
        (
            {"a": [PAIR | {"weights": WEIGHTS}], "b": [PAIR | {"weights": WEIGHTS}] * 2},
            "must have the same pairs, got different numbers: a 1, b 2",
        ),
    ],
)
def test_systems_that_do_not_fit_are_refused(tmp_path, systems, why):
    with pytest.raises(InputError, match=re.escape(why)):
        attn_jax.page(tmp_path / "a.html", systems)


def test_files_that_cannot_be_read_are_refused(tmp_path):
    def refused(why, **arrays):
        np.savez(tmp_path / "a.npz", **arrays)
        with pytest.raises(InputError, match=re.escape(why)):
            attn_jax.page(tmp_path / "a.html", tmp_path / "a.npz")

    refused("arrays are called source_0, weights_0, …, got 'weights'", weights=WEIGHTS)
    refused("counted from 0 without gaps, and there is no pair 0", weights_1=WEIGHTS)
    refused("arrays must be of numbers and texts", source_0=np.array(["a", None], object))
    for name, text in (("a.npz", "no"), ("a.json", "{"), ("none.json", None)):
        if text:
            (tmp_path / name).write_text(text)
        with pytest.raises(InputError, match=name):
            attn_jax.page(tmp_path / "a.html", tmp_path / name)


def test_the_recipe_for_links(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.en").write_text("the cat\nno\n")
    Path("a.de").write_text("die Katze\nnein nein\n")
    Path("a.links").write_text("0-0 1-1\n\n")
    exec(recipe("Links of any word aligner"), {})
    attn_jax.page("a.html", "a.npz")
    sentences, (system,) = shown(Path("a.html"))
    assert [one["target"] for one in sentences] == ["die Katze", "nein nein"]
    first, second = system["sentences"]
    np.testing.assert_array_equal(unpacked(first["mean"], (2, 2)), np.eye(2))
    np.testing.assert_array_equal(unpacked(second["mean"], (2, 1)), 0)


def test_the_recipe_for_marian(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.spm.en").write_text("▁the ▁cat\n")
    Path("a.out").write_text("▁die ||| ||| 0.5,0.25,0.25 0,1,0 0.1,0.2,0.7\n")
    exec(recipe("Marian's soft alignments"), {})
    attn_jax.page("a.html", "a.npz")
    _, (system,) = shown(Path("a.html"))
    (shown_pair,) = system["sentences"]
    assert shown_pair["source"] == ["▁the", "▁cat", "</s>"]
    assert shown_pair["target"] == ["▁die", "|||", "</s>"]
    expected = [[0.5, 0.25, 0.25], [0, 1, 0], [0.1, 0.2, 0.7]]
    np.testing.assert_allclose(unpacked(shown_pair["mean"], (3, 3)), expected, atol=0.004)
