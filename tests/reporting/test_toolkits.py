"""What another toolkit wrote, as a system beside runs."""

import json

import numpy as np
import pytest

import attn_jax
from attn_jax.data.run_vocabularies import as_json
from attn_jax.data.vocabulary import Symbols
from attn_jax.errors import InputError
from attn_jax.pairs import Weighed
from attn_jax.records import run_files
from attn_jax.reporting.report import report
from tests.reporting.test_page import data_of
from tests.reporting.test_report import write_run

COUNT = 30


def sentence(number, said):
    source = [f"w{number}", "a", "b", "c"]
    texts = {"source_text": " ".join(source), "reference": " ".join(source[::-1])}
    tokens = {"source": source, "target": source[::-1], "hypothesis": said, "text_tokens": said}
    return texts | tokens | {"text": " ".join(said), "gold": None}


def said_by(right, number):
    wanted = [f"w{number}", "a", "b", "c"][::-1]
    return wanted if number < right else wanted[1:]


@pytest.fixture
def root(tmp_path):
    """Three runs of two systems."""
    for name, score, seed, right in (
        ("a", "additive", 0, 25),
        ("b", "additive", 1, 23),
        ("c", "dot", 0, 10),
    ):
        folder = tmp_path / name
        write_run(folder, score, seed, 100 * right / COUNT)
        lines = [sentence(number, said_by(right, number)) for number in range(COUNT)]
        run_files.predictions(folder, "test").write_text("\n".join(map(json.dumps, lines)))
        shapes = [(1, 1, len(one["hypothesis"]) + 1, 4) for one in lines]
        np.savez(run_files.alignments(folder, "test"), *(np.ones(shape) / 4 for shape in shapes))
        vocabulary = run_files.vocabulary(folder, "target")
        vocabulary.write_text(as_json(Symbols(["a", "b", "c"])))
    return tmp_path


def pairs(right=20, count=COUNT):
    """What a toolkit wrote: pieces of words, with the end of the sentence."""
    found = []
    for number in range(count):
        words = said_by(right, number)
        target = [piece for word in words for piece in (f"▁{word[:1]}", word[1:]) if piece]
        starts = np.cumsum([piece.startswith("▁") for piece in target]) - 1
        source = [f"▁w{number}", "▁a", "▁b", "▁c", "</s>"]
        weights = np.random.default_rng(number).dirichlet(np.ones(5), (2, 2, len(target) + 1))
        found.append(
            Weighed(
                source,
                [*target, "</s>"],
                weights.astype(np.float32),
                source_words=[0, 1, 2, 3, -1],
                target_words=[*starts.tolist(), -1],
            )
        )
    return found


def test_it_is_measured_against_the_same_references(root):
    made = report(root, weights={"marian": pairs()})
    frame = made.frame.set_index("system")
    assert [*dict.fromkeys(frame.index)] == ["additive", "marian", "dot"]
    other = frame.loc["marian"]
    assert other["exact_match"] == pytest.approx(100 * 20 / COUNT)
    missing = COUNT - 20  # symbols, of which each reference has four
    assert other["symbol_error_rate"] == pytest.approx(100 * missing / (4 * COUNT))
    sharpest = np.mean([pair.weights.max(axis=-1).mean(axis=(0, 1)).sum() for pair in pairs()])
    steps = np.mean([len(pair.target) for pair in pairs()])
    assert other["sharpness"] == pytest.approx(100 * sharpest / steps, rel=1e-5)
    assert other[["seed", "perplexity", "parameters", "seconds", "model.score"]].isna().all()
    assert frame.loc["additive", "seed"].tolist() == [0, 1]
    found = made.differences.set_index(["metric", "first", "second"])["difference"]
    # Over both seeds of the first.
    assert found["exact_match", "additive", "marian"] == pytest.approx(100 * (24 - 20) / COUNT)


def test_what_has_the_words_of_a_run_has_its_figures(root):
    def same(number):
        source, target = [f"w{number}", "a", "b", "c"], said_by(25, number)
        return Weighed(source, target, np.ones((1, 1, len(target), 4)) / 4)

    frame = report(root, weights={"copy": list(map(same, range(COUNT)))}).frame.set_index("system")
    of_run = frame[frame["seed"].eq(0)].loc["additive"]
    assert frame.loc["copy", "exact_match"] == pytest.approx(of_run["exact_match"])
    assert frame.loc["copy", "chrf"] > 90


def test_the_page_shows_it_beside_runs(root):
    made = report(root, formats=["latex"], weights={"marian": pairs()})
    (data,) = data_of(made.html.read_text("utf-8"))["sets"]
    (split,) = data["splits"]
    by_name = {system["name"]: system for system in split["systems"]}
    other = by_name["marian"]
    assert (other["layers"], other["heads"], other["seed"]) == (2, 2, None)
    (place,) = (nth for nth, one in enumerate(split["sentences"]) if one["number"] == 22)
    shown = other["sentences"][place]
    assert shown["target"] == ["▁c", "▁b", "▁a", "▁w", "21", "</s>"][1:]
    assert shown["text"] == "b a w21"
    assert "wanted" not in shown  # whose symbols are words, not pieces of them
    assert shown["error"] == 25  # percent of these, one of four
    tables = {table["title"]: table for table in data["comparison"]["tables"]}
    assert [row[0] for row in tables["Quality"]["rows"]] == ["additive", "marian", "dot"]
    assert [row[0] for row in tables["Cost"]["rows"]] == ["additive", "dot"]
    assert any("Of other toolkits: marian" in text for text in data["comparison"]["about"])
    (errors,) = data["errors"]
    wrong = {system["name"]: system["wrong"] for system in errors["systems"]}
    assert wrong == {"additive": 5, "marian": 10, "dot": 20}
    assert "marian" in (root / "paper" / "report.tex").read_text()
    told = (root / "report.md").read_text("utf-8")
    assert "are missing (not of marian, whose tokens are others) (additive" in told


def test_it_is_of_the_test_set_whose_sources_it_has(root):
    """Of several with as many sentences."""
    write_run(root / "d", "dot", 5, 50.0, **{"data.test": "other"})
    lines = [sentence(number, ["x"]) for number in range(COUNT)]
    others = [one | {"source_text": "x y", "reference": f"z{nth}"} for nth, one in enumerate(lines)]
    run_files.predictions(root / "d", "test").write_text("\n".join(map(json.dumps, others)))
    run_files.vocabulary(root / "d", "target").write_text(as_json(Symbols(["a"])))
    shapes = [(1, 1, 2, 4)] * COUNT
    np.savez(run_files.alignments(root / "d", "test"), *(np.ones(shape) / 4 for shape in shapes))
    made = report(root, weights={"marian": pairs()})
    assert ["marian" in comparison.systems for comparison in made.comparisons] == [True, False]


def test_its_name_is_its_own(root):
    for name in ("additive", "dot"):
        with pytest.raises(InputError, match=f"{name} is also a system of the runs"):
            report(root, weights={name: pairs()})
    with pytest.raises(InputError, match="weights are given by the names of their systems"):
        report(root, weights=pairs())


def test_pieces_without_words_are_those_of_sentencepiece(root):
    known = report(root, weights={"marian": pairs()}).frame.set_index("system").loc["marian"]
    plain = [pair._replace(source_words=None, target_words=None) for pair in pairs()]
    found = report(root, weights={"marian": plain}).frame.set_index("system").loc["marian"]
    assert found["exact_match"] == known["exact_match"] > 0
    assert found["symbol_error_rate"] == known["symbol_error_rate"]


def test_logits_are_told(root):
    logits = [pair._replace(weights=9 * pair.weights - 3) for pair in pairs()]
    with pytest.warns(UserWarning, match="marian: the lowest weight is .* if they are logits"):
        report(root, weights={"marian": logits})


def test_its_pairs_are_those_of_the_test_sentences(root, tmp_path):
    with pytest.raises(InputError, match=r"marian has 7 pairs, and must have one for each .*: 30"):
        report(root, weights={"marian": pairs(count=7)})
    others = [pair._replace(source=["x", *pair.source[1:]]) for pair in pairs()]
    with pytest.warns(UserWarning, match=r"most sources are not .* pair 1: 'x a b c', where the"):
        made = report(root, weights={"marian": others})
    assert "- marian: most sources are not those" in made.page.read_text("utf-8")
    attn_jax.save_weights(tmp_path / "marian.npz", pairs())
    made = report(root, weights={"marian": tmp_path / "marian.npz"})
    assert "marian" in {*made.frame["system"]}
