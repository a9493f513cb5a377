"""Runs with a second source: trained, gone on with, translated, aligned, evaluated, exported."""

import itertools
import re

import numpy as np
import pytest

import attn_jax
from attn_jax.errors import InputError
from attn_jax.records import journal
from tests.experiments.programs import refused, works
from tests.stages import full

pytestmark = full

WORDS = ["".join(letters) for letters in itertools.product("abc", repeat=3)]
TAGS = {"N;PL": "s", "V;PST": "ed"}
TEXTS = [(word, word + end, tags) for word in WORDS for tags, end in TAGS.items()]
SENTENCES = ["abc\tN;PL", "cab\tV;PST"]
OPTIONS = {
    "data.name": "parallel",
    "data.columns": "1,2,3",
    "data.source_level": "character",
    "data.target_level": "character",
    "model.embedding_size": 4,
    "model.annotation_size": 8,
    "model.hidden_size": 8,
    "model.score": "additive(units=4)",
    "train.steps": 4,
    "train.valid_every": 2,
    "train.buckets": 1,
}


HARD = {"model.decoder": "luong", "model.readout": "marginal"}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The options that name the text: a lemma, its form and its tags in each line."""
    folder = tmp_path_factory.mktemp("text")
    for split, lines in {"train": TEXTS, "valid": TEXTS[:9], "test": TEXTS[9:20]}.items():
        (folder / f"{split}.tsv").write_text("".join("\t".join(one) + "\n" for one in lines))
    return {f"data.{split}": str(folder / f"{split}.tsv") for split in ("train", "valid", "test")}


@pytest.mark.parametrize(
    "model",
    [
        {"model.sources": "flat"},
        {"model.sources": "hierarchical(score=general,units=4)", "model.decoder": "transformer"},
        {"model.sources": "concatenated"} | HARD,
    ],
    ids=lambda model: model["model.sources"][:4],
)
def test_a_run_trains_goes_on_translates_aligns_and_is_exported(tmp_path, files, model):
    run, of_run = tmp_path / "run", OPTIONS | files | model
    attn_jax.train(of_run, run)
    attn_jax.train({"train.steps": 6}, run)
    attn_jax.train(of_run | {"train.steps": 6}, tmp_path / "whole")
    translator, whole = (attn_jax.load(folder, "last") for folder in (run, tmp_path / "whole"))
    found = translator.translate(SENTENCES, beam_size=2, coverage_penalty=0.2)
    again = whole.translate(SENTENCES, beam_size=2, coverage_penalty=0.2)
    for one, other in zip(found, again, strict=True):
        assert one.text == other.text
        np.testing.assert_array_equal(one.weights, other.weights)
        assert one.weights.shape[-1] == 5  # three letters and two tags
    scores = translator.score(SENTENCES, found)
    np.testing.assert_allclose(scores, [one.log_probability for one in found], rtol=1e-4)
    assert all(np.isfinite(each).all() for each in translator.align(SENTENCES, SENTENCES))

    result = attn_jax.load([run, tmp_path / "whole"]).translate(SENTENCES)
    assert len(result) == 2
    attn_jax.export(run, tmp_path / "file", source_length=6, beam_size=2)
    exported = attn_jax.load_exported(tmp_path / "file").translate(SENTENCES)
    best = attn_jax.load(run).translate(SENTENCES, beam_size=2)
    assert [one.text for one in exported] == [one.text for one in best]
    with pytest.raises(InputError, match="source sentence 1: 'abc' is one source"):
        translator.translate(["abc"])


def test_tags_decide_what_is_written(tmp_path, files):
    """Only the tags say which ending a word takes: without them, half the words would be wrong."""
    more = {"model.sources": "hierarchical(units=8)", "model.hidden_size": 32}
    more |= {"model.annotation_size": 32, "model.embedding_size": 16, "train.learning_rate": 0.01}
    more |= {"train.steps": 250, "train.valid_every": 250, "train.metric": "perplexity"}
    translator = attn_jax.train(OPTIONS | files | more, tmp_path / "run")
    (last,) = journal.read(tmp_path / "run")
    assert last["valid_exact_match"] > 90
    (plural, past) = translator.translate(["abc\tN;PL", "abc\tV;PST"])
    assert (plural.text, past.text) == ("abcs", "abced")


def test_a_posterior_is_that_of_the_first_source(tmp_path, files):
    hard = {"model.sources": "concatenated", "model.decoder": "luong"}
    of_run = OPTIONS | files | hard | {"model.readout": "monotonic_hmm", "train.steps": 2}
    translator = attn_jax.train(of_run, tmp_path / "hard")
    for of in ("posterior", "viterbi"):
        (alignment,) = translator.align(["abc\tN;PL"], ["abcs"], of=of)
        np.testing.assert_allclose(alignment[:, :3].sum(axis=1), 1, rtol=1e-5)
        assert not alignment[:, 3:].any()
    soft = attn_jax.train(OPTIONS | files | hard | {"train.steps": 2}, tmp_path / "soft")
    with pytest.raises(InputError, match="it attends to each of two sources by itself"):
        soft.align(["abc\tN;PL"], ["abcs"], of="posterior")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "the data have two sources: give model.sources=flat, hierarchical, concatenated or"),
        ({"data.name": "reverse", "model.sources": "flat"}, "name a second by data.columns=1,2,3"),
        (
            {
                "model.sources": "hierarchical",
                "model.decoder": "luong",
                "model.readout": "marginal",
            },
            "which model.sources=hierarchical mixes with the second",
        ),
        (
            {"model.sources": "flat", "data.second_level": "letter"},
            "the second side: unknown",
        ),
        (
            {"model.sources": "flat", "data.second_source": "tags"},
            "leave out data.source, data.target and data",
        ),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(tmp_path, files, options, message):
    of_run = (OPTIONS | files if options.get("data.name") != "reverse" else {}) | options
    with pytest.raises(InputError, match=re.escape(message)):
        attn_jax.train(of_run, tmp_path / "run")
    assert not (tmp_path / "run" / "experiment.flags").exists()


def test_programs_take_a_tab_between_two_sources(tmp_path, files):
    run = tmp_path / "run"
    attn_jax.train(OPTIONS | files | {"model.sources": "flat"}, run)
    lines = "\n".join(SENTENCES) + "\n\n\tN;PL\n"
    found = works("translate", f"--workdir={run}", stdin=lines).stdout.splitlines()
    assert len(found) == 4
    assert found[2:] == ["", ""]
    line = refused("translate", f"--workdir={run}", stdin="a\tN;PL\nabc\n")
    assert line.startswith("error: line 2: 'abc' is one source, and this model has two")
    (tmp_path / "a.source").write_text("\n".join(SENTENCES) + "\n")
    (tmp_path / "a.target").write_text("abcs\ncabed\n")
    sides = f"--sources={tmp_path}/a.source", f"--targets={tmp_path}/a.target"
    links = works("align", f"--workdir={run}", "--unit=token", f"--figures={tmp_path}/f", *sides)
    assert len(links.stdout.splitlines()) == 2
    assert (tmp_path / "f" / "alignment-1.png").is_file()
    assert "exact match" in works("evaluate", f"--workdir={run}", *sides).stdout
    (tmp_path / "a.source").write_text(f"{SENTENCES[0]}\n\tN;PL\n")
    empty = {"align": "source sentence 2 is empty", "evaluate": "2: the source side has no token"}
    for program, told in empty.items():
        assert refused(program, f"--workdir={run}", *sides).endswith(told)
    (tmp_path / "a.source").write_text(f"{SENTENCES[0]}\nabc\n")
    for program in ("align", "evaluate"):
        assert " 2: 'abc' is one source" in refused(program, f"--workdir={run}", *sides)


def test_a_sentence_without_a_first_source_is_refused(tmp_path, files):
    translator = attn_jax.train(OPTIONS | files | {"model.sources": "flat"}, tmp_path / "run")
    attn_jax.export(tmp_path / "run", tmp_path / "file", source_length=6)
    calls = [
        translator.translate,
        lambda sources: translator.align(sources, ["s"]),
        lambda sources: translator.score(sources, ["s"]),
        attn_jax.load_exported(tmp_path / "file").translate,
    ]
    for call in calls:
        with pytest.raises(InputError, match="source sentence 1 is empty"):
            call(["\tN;PL"])
