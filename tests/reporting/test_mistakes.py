"""What systems get wrong: lists of wrong sentences, confusions, and quality by group."""

import json
from collections import Counter

import numpy as np
import pytest

from attn_jax.data.run_vocabularies import as_json
from attn_jax.data.two_sources import TwoSources
from attn_jax.data.vocabulary import Characters, Symbols, Tags, Words
from attn_jax.drawing.document import Limits
from attn_jax.errors import InputError
from attn_jax.records import run_files
from attn_jax.reporting import mistakes as limits
from attn_jax.reporting import paper, report_md
from attn_jax.reporting.breakdowns import breakdowns
from attn_jax.reporting.comparisons import compare
from attn_jax.reporting.mistakes import confusions, difference, mistakes, rates
from attn_jax.reporting.report import report
from attn_jax.reporting.report_html import write_page
from attn_jax.reporting.runs import find_runs
from attn_jax.reporting.systems import by_system
from attn_jax.reporting.telling import shown_sentences, telling_sentences
from tests.reporting.test_page import data_of
from tests.reporting.test_report import write_run

FORMS = [  # a lemma, its tags, its form, and what two systems wrote
    ("essen", "V;PST;SG", "aß", "aß", "esste"),
    ("gehen", "V;PST;PL", "gingen", "gehten", "gingen"),
    ("Hut", "N;PL", "Hüte", "Hute", "Hüte"),
    ("Rad", "N;PL", "Räder", "Räder", "Räder"),
    ("Rad", "N;SG", "Rad", "Rad", "Räd"),
    ("ab geben", "V;PST;SG", "gab ab", "gabab", "gab ab"),
]


def form(nth, said):
    lemma, tags, wanted, *_ = FORMS[nth]
    source = [*lemma, *(f"\t{tag}" for tag in tags.split(";"))]
    text = {"source_text": f"{lemma}\t{tags}", "reference": wanted, "text": said}
    tokens = {"source": source, "target": [*wanted], "hypothesis": [*said], "text_tokens": [*said]}
    return text | tokens | {"gold": None, "log_probability": -1.5 * (nth + 1)}


def write_sentences(folder, sentences, kept=3, **options):
    """A run with these sentences and, of the first ones, weights."""
    options = {"data.second_source": "tags"} | options
    exact = 100 * np.mean([one["text_tokens"] == one["target"] for one in sentences])
    write_run(folder, folder.name, 0, exact, options.pop("level", "character"), **options)
    lines = "\n".join(map(json.dumps, sentences))
    (folder / "predictions.test.jsonl").write_text(lines)
    shapes = [(1, 1, len(one["hypothesis"]) + 1, len(one["source"])) for one in sentences[:kept]]
    np.savez(folder / "alignments.test.npz", *map(np.ones, shapes))


@pytest.fixture
def root(tmp_path):
    for place, score in enumerate(["additive", "dot"], start=3):
        forms = [form(nth, one[place]) for nth, one in enumerate(FORMS)]
        write_sentences(tmp_path / score, forms)
    return tmp_path


def systems_of(root):
    return by_system(find_runs(root)[0])


def test_all_wrong_forms_are_listed_with_what_each_system_wrote(root):
    file = write_page(list(compare(find_runs(root)[0])), root, "", Limits())
    (one,) = data_of(file.read_text("utf-8"))["sets"]
    (test,) = one["errors"]
    assert test["columns"] == ["source", "tags", "reference"]
    assert test["items"] == [[n + 1, *FORMS[n][:3]] for n in (0, 1, 2, 4, 5)]
    systems = {system["name"]: system for system in test["systems"]}
    assert systems["additive"]["texts"] == [None, "gehten", "Hute", None, "gabab"]
    assert systems["dot"]["texts"] == ["esste", None, None, "Räd", None]
    assert systems["additive"]["wrong"] == 3
    # Log-probabilities by 7 and 5 steps of the first ones; of the last, with its end, by 6.
    assert systems["additive"]["rows"] == [
        [1, "eht → ing", 50.0, round(-3 / 7, 4)],
        [2, "u → ü", 25.0, -0.9],
        [4, "∅ → ␣", 16.7, -1.5],
    ]
    assert systems["dot"]["rows"][0] == [0, "esste → aß", 250.0, -0.25]


def best_edits(said, wanted):
    """All pairings with the fewest edits, by trying every way."""
    if not said or not wanted:
        return [[(one, None) for one in said] + [(None, one) for one in wanted]]
    ways = (
        [[(said[0], wanted[0]), *rest] for rest in best_edits(said[1:], wanted[1:])]
        + [[(said[0], None), *rest] for rest in best_edits(said[1:], wanted)]
        + [[(None, wanted[0]), *rest] for rest in best_edits(said, wanted[1:])]
    )
    fewest = min(sum(one != other for one, other in way) for way in ways)
    return [way for way in ways if sum(one != other for one, other in way) == fewest]


def test_confusions_are_those_of_some_shortest_edits(root, generator):
    (run, *_), _ = find_runs(root)
    pairs = [
        tuple([*map(str, generator.integers(0, 3, generator.integers(0, 5)))] for _ in "ab")
        for _ in range(6)
    ]
    sentences = [{"text": "".join(one), "reference": "".join(other)} for one, other in pairs]
    for sentence, pair in zip(sentences, pairs, strict=True):
        run.sentences[:] = [sentence]
        found = Counter(
            {(one, other): int(count) for one, other, count, _ in confusions(run, [pair])}
        )
        ways = [
            Counter((a or "∅", b or "∅") for a, b in way if a != b) for way in best_edits(*pair)
        ]
        assert found in ways
    run.sentences[:] = sentences
    rows = confusions(run, pairs)
    assert [int(row[2]) for row in rows] == sorted((int(row[2]) for row in rows), reverse=True)
    # Each example is the first sentence with its edit.
    edits = [{tuple(row[:2]) for row in confusions_of(run, one)} for one in range(len(pairs))]
    for *edit, _, example in rows:
        place = next(nth for nth, of_one in enumerate(edits) if tuple(edit) in of_one)
        assert example == f"{sentences[place]['text']} → {sentences[place]['reference']}"


def confusions_of(run, place):
    sentence = run.sentences[place]
    one = [run.sentences[place]]
    run = type(run)(run.options, {}, [], one, [])
    return confusions(run, [([*sentence["text"]], [*sentence["reference"]])])


@pytest.mark.parametrize(
    ("said", "wanted", "told"),
    [
        ("Hute", "Hüte", "u → ü"),
        ("beschrift", "beschriftet", "∅ → et"),
        ("gesaufen", "soff", "ge → ∅; au → of; en → ∅"),
        ("kehre  ", "kehre", "␣␣ → ∅"),
        ("", "ab", "∅ → ab"),
        ("ab", "ab", ""),
    ],
)
def test_where_a_text_differs(said, wanted, told):
    assert difference([*said], [*wanted], "") == told


def test_where_words_differ():
    said, wanted = ["the", "man", "saw", "a", "big", "dog"], ["a", "man", "saw", "dogs"]
    assert difference(said, wanted, " ") == "the → a; a big dog → dogs"


def test_errors_in_words_are_capped_and_the_worst_come_first(tmp_path, monkeypatch):
    words = [["a", "b", "c", "d"], ["a", "b", "c"], ["a", "b"]]
    sentences = []
    for nth in range(9):
        wanted, said = words[nth % 3], ["a", *"xyz"[: nth % 4]]
        texts = {"source_text": "s t", "reference": " ".join(wanted), "text": " ".join(said)}
        tokens = {"target": wanted, "hypothesis": said, "text_tokens": said}
        sentences.append(texts | tokens | {"source": ["s", "t"], "gold": None})
    write_sentences(tmp_path / "dot", sentences, level="word", **{"data.second_source": ""})
    monkeypatch.setattr(limits, "MOST_SENTENCES", 4)
    told = mistakes("test", systems_of(tmp_path))
    (system,) = told["systems"]
    wrong = [one for one in sentences if one["text"] != one["reference"]]
    assert system["wrong"] == len(wrong)
    assert system["confusions"] is None
    errors = [row[2] for row in system["rows"]]
    assert len(errors) == 4
    assert errors == sorted(errors, reverse=True)
    pairs = [(one["hypothesis"], one["target"]) for one in sentences]
    assert errors == [round(rate, 1) for rate in [*rates(pairs).values()][:4]]
    assert told["columns"] == ["source", "reference"]
    assert system["rows"][0][3] is None  # of this run, no log-probabilities are known
    monkeypatch.setattr(limits, "MOST_SIGNS", 40)  # a sentence has about 20
    assert len(mistakes("test", systems_of(tmp_path))["systems"][0]["rows"]) == 2


def groups_of(run):
    return {one.by: {group.name: group.places for group in one.groups} for one in breakdowns(run)}


def test_sentences_are_grouped_by_tags_length_and_unknown_symbols(root):
    (run, *_), _ = find_runs(root)
    by = groups_of(run)
    assert {*by} == {"tag", "source length in tokens"}  # its folder has no vocabulary
    assert by["tag"]["PST"] == [0, 1, 5]
    assert by["tag"]["PL"] == [1, 2, 3]
    assert by["tag"]["N"] == [2, 3, 4]
    assert list(by["tag"]) == ["V", "PST", "SG", "PL", "N"]  # each three times, as they come
    source = TwoSources(Characters([*"esnghRadb "]), Tags(["V", "PST", "SG", "PL", "N"]))
    target = Symbols([*"abdefghinrtuHR üßä"])
    for score in ("additive", "dot"):
        for side, vocabulary in (("source", source), ("target", target)):
            run_files.vocabulary(root / score, side).write_text(as_json(vocabulary), "utf-8")
    by = groups_of(run)
    assert by["unknown source tokens"] == {"none": [0, 1, 3, 4, 5], "some": [2]}
    assert "unknown reference tokens" not in by  # all are known
    accuracy = {one["title"]: one["rows"] for one in mistakes("test", systems_of(root))["quality"]}
    table = {row[0]: row[1:] for row in accuracy["tag"]}
    assert table["N"] == ["3", "66.7", "66.7"]
    right = {"additive": "33.3", "dot": "66.7"}
    assert table["PST"] == ["3", *(right[name] for name in systems_of(root))]
    right = {"additive": "0.0", "dot": "100.0"}
    assert accuracy["unknown source tokens"][1][1:] == ["1", *(right[n] for n in systems_of(root))]


def test_words_are_grouped_by_their_rank_in_the_vocabulary(root):
    (run, *_), _ = find_runs(root)
    words = [f"w{rank}" for rank in range(1, 1200)]
    run_files.vocabulary(run.folder, "source").write_text(as_json(Words(words)), "utf-8")
    sources = [["w1", "w100"], ["w101"], ["w5", "w1000"], ["w1001", "w1"], ["new", "w1"], []]
    for sentence, source in zip(run.sentences, sources, strict=True):
        sentence["source"] = source
    assert groups_of(run)["frequency rank of the rarest source word"] == {
        "1–100": [0, 5],  # noqa: RUF001
        "101–1,000": [1, 2],  # noqa: RUF001
        "1,001–10,000": [3],  # noqa: RUF001
        "unknown": [4],
    }


def test_wrong_sentences_are_shown_before_right_ones(root):
    for score in ("additive", "dot"):
        forms = [form(nth, "xy" if nth == 4 else FORMS[nth][2]) for nth in range(6)]
        write_sentences(root / score, forms, kept=6)
    systems = systems_of(root)
    assert telling_sentences(systems, 9) == [1, 3, 5]  # which have five symbols
    assert shown_sentences(systems, 9) == [4, 1, 3, 5]  # both write it wrong


def test_the_sentence_in_figures_is_asked_for(root, monkeypatch):
    systems = systems_of(root)
    assert telling_sentences(systems, 1, "3") == [2]
    assert telling_sentences(systems, 2, "Hut") == [2, 1]
    assert telling_sentences(systems, 1, "V;PST;PL") == [1]
    assert telling_sentences(systems, 1) == telling_sentences(systems, 1, "9") == [1]
    drawn = []
    for module in (paper, report_md):
        monkeypatch.setattr(module, "of_quality", lambda *_: ())
        monkeypatch.setattr(module, "one_sentence", lambda _, index: drawn.append(index) or ())
    report(root, sentence="Hut", formats=["svg"])
    report(root, sentence=3, formats=["pdf"])
    assert drawn == [2] * 4
    assert "| test sentence | 3 |" in (root / "report.md").read_text()
    report(root, formats=["svg"])
    assert drawn[4:] == [1, 1]
    for sentence in (0, 4, "Haus"):
        with pytest.raises(InputError, match="give the number of a test sentence whose"):
            report(root, sentence=sentence)
