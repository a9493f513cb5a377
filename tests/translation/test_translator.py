"""A trained run, used through `load`: one small training serves all tests here."""

import contextlib
import dataclasses
import itertools
import json
import shutil
import subprocess
import sys
import zipfile
from collections import UserList
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import attn_jax
from attn_jax import config, startup
from attn_jax.attention.scores import Dot, ScaledDot
from attn_jax.attention.windows import LocalP
from attn_jax.config import Experiment, Model
from attn_jax.data.datasets import open_corpus
from attn_jax.data.pretokens import cut_pairs
from attn_jax.data.sentences import Example
from attn_jax.data.two_sources import TwoSources
from attn_jax.data.vocabulary import Characters, Symbols, Words
from attn_jax.decoding.decode import decode
from attn_jax.errors import InputError
from attn_jax.evaluation.assess import assess
from attn_jax.models.seq2seq import initialize, with_uniform_weights
from attn_jax.records import manifest, run_files
from attn_jax.runs.evaluation import evaluate_split
from attn_jax.runs.folder import inherited, settle
from attn_jax.runs.preparing import check_tokens, training_pairs
from attn_jax.tokens import BOS, EOS, SPECIALS, UNK
from attn_jax.training import loop
from attn_jax.translation.loading import best_checkpoint, experiment_of, mean_parameters
from attn_jax.translation.translator import Translator
from tests.options import model_options
from tests.reporting.test_page import data_of, unpacked
from tests.test_damage import train_in

OPTIONS = {
    "data.name": "reverse",
    "data.shortest": 2,
    "data.longest": 6,
    "data.symbols": 9,
    "data.examples": 2000,
    "data.held_out": 50,
    "data.max_length": 12,
    "model.embedding_size": 16,
    "model.annotation_size": 32,
    "model.hidden_size": 32,
    "model.score": "additive(units=16)",
    "model.readout_size": 16,
    "train.steps": 300,
    "train.valid_every": 150,
    "train.learning_rate": 0.01,
    "train.buckets": 2,
}


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "reverse"
    train_in(folder, OPTIONS)
    return folder


@pytest.fixture(scope="module")
def translator(workdir):
    return attn_jax.load(workdir)


SENTENCES = ["3 1 4", "1 5 9 2 6 5", "3 5", "8 9 7 9 3"]


def test_translates_what_it_learned(translator):
    hypotheses = translator.translate(SENTENCES)
    assert [h.text for h in hypotheses] == [" ".join(s.split()[::-1]) for s in SENTENCES]
    for sentence, hypothesis in zip(SENTENCES, hypotheses, strict=True):
        length = len(sentence.split())
        assert hypothesis.tokens == sentence.split()[::-1]
        assert hypothesis.alignment.shape == (length + 1, length)
        np.testing.assert_allclose(hypothesis.alignment.sum(axis=1), 1, rtol=1e-5)


def test_a_hypothesis_knows_its_source_and_draws_itself(translator):
    (hypothesis,) = translator.translate(["3 1 4"])
    assert hypothesis.source == translator.source.cut("3 1 4")
    assert hypothesis.steps == ["4", "1", "3", "</s>"]
    axes, _ = hypothesis.heat_map().axes
    np.testing.assert_array_equal(axes.images[0].get_array(), hypothesis.alignment)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["3", "1", "4"]
    assert [axes.get_ylabel() for axes in hypothesis.bars().axes] == hypothesis.steps
    axes, _ = hypothesis.heads().axes
    np.testing.assert_array_equal(axes.images[0].get_array(), hypothesis.weights[0, 0])
    html = hypothesis._repr_html_()
    assert "3 1 4</p>" in html
    assert "4 1 3</p>" in html


def test_a_hypothesis_that_does_not_end_draws_the_steps_that_it_has(translator):
    (hypothesis,) = translator.translate(["3 1 4"], min_length=2, max_length=2)
    assert len(hypothesis.steps) == len(hypothesis.alignment)
    axes, _ = hypothesis.heat_map().axes
    assert len(axes.get_yticklabels()) == len(hypothesis.alignment)


def test_two_models_are_compared_on_a_sentence(translator, workdir):
    early = attn_jax.load(workdir, checkpoint="150")
    figure = translator.compare(early, "3 1 4", "4 1 4", names=("late", "early"))
    late, other, _ = figure.axes
    assert late.get_title() == "late: 4 1 3"
    assert other.get_title().startswith("early: ")
    (hypothesis,) = translator.translate(["3 1 4"])
    np.testing.assert_array_equal(late.images[0].get_array(), hypothesis.alignment)
    colours = [label.get_color() for label in late.get_yticklabels()]
    assert colours == ["black", "black", "red", "black"]
    unmarked, *_ = translator.compare(early, "3 1 4").axes
    assert {label.get_color() for label in unmarked.get_yticklabels()} == {"black"}
    with pytest.raises(InputError, match="both models are called 'a': give two names"):
        translator.compare(early, "3 1 4", names=("a", "a"))
    with pytest.raises(InputError, match="of each model is drawn: leave out n_best"):
        translator.compare(early, "3 1 4", beam_size=2, n_best=2)


def test_scores_equal_those_of_the_search(translator):
    hypotheses = translator.translate(SENTENCES)
    texts = [hypothesis.text for hypothesis in hypotheses]
    expected = [hypothesis.log_probability for hypothesis in hypotheses]
    np.testing.assert_allclose(translator.score(SENTENCES, texts), expected, rtol=1e-5, atol=1e-5)
    for alignment, hypothesis in zip(translator.align(SENTENCES, texts), hypotheses, strict=True):
        np.testing.assert_allclose(alignment, hypothesis.alignment, rtol=1e-5, atol=1e-6)


def test_batch_and_order_change_nothing(translator):
    together = translator.translate(SENTENCES * 20)
    for sentence, hypothesis in zip(SENTENCES, together[-4:], strict=True):
        (alone,) = translator.translate([sentence])
        assert alone.tokens == hypothesis.tokens
        assert alone.log_probability == pytest.approx(hypothesis.log_probability, abs=1e-5)
        np.testing.assert_allclose(alone.alignment, hypothesis.alignment, rtol=1e-5, atol=1e-6)


def test_a_beam_gives_the_best_of_each_sentence(translator):
    found = translator.translate(SENTENCES, beam_size=4, n_best=3, length_penalty="average")
    for sentence, hypotheses in zip(SENTENCES, found, strict=True):
        assert hypotheses[0].text == " ".join(sentence.split()[::-1])
        assert len({h.text for h in hypotheses}) == 3
        for one in hypotheses:
            assert one.score == pytest.approx(one.log_probability / (len(one.tokens) + 1))
            assert one.weights.shape == (1, 1, len(one.tokens) + 1, len(sentence.split()))
        assert sorted((h.score for h in hypotheses), reverse=True) == [h.score for h in hypotheses]
        expected = translator.score([sentence] * 3, [h.text for h in hypotheses])
        actual = [h.log_probability for h in hypotheses]
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)
    together = translator.translate(SENTENCES[::-1] * 20, beam_size=4, length_penalty="average")
    for (first, *_), again in zip(found, together[3::-1], strict=True):
        assert again.tokens == first.tokens
        assert again.score == pytest.approx(first.score, rel=1e-5, abs=1e-6)
        np.testing.assert_allclose(again.weights, first.weights, rtol=1e-5, atol=1e-6)


def test_what_is_drawn_depends_on_the_seed_and_the_place_alone(translator):
    options = {"temperature": 3.0, "n_best": 2, "top_p": 0.99}
    drawn = translator.translate(SENTENCES, **options)
    more = translator.translate([*SENTENCES, *SENTENCES], **options)
    assert [[h.text for h in own] for own in more[:4]] == [[h.text for h in own] for own in drawn]
    later = translator.translate(SENTENCES[2:], first=2, **options)
    assert [[h.text for h in own] for own in later] == [[h.text for h in own] for own in drawn[2:]]
    assert any(one.text != other.text for one, other in drawn)
    other = translator.translate(SENTENCES, seed=1, **options)
    assert [h.text for own in other for h in own] != [h.text for own in drawn for h in own]


def test_a_hypothesis_writes_a_page_of_itself(translator, tmp_path):
    (hypothesis,) = translator.translate(["3 1 4"])
    hypothesis.page(tmp_path / "a.html")
    data = data_of((tmp_path / "a.html").read_text("utf-8"))
    ((test,),) = (one["splits"] for one in data["sets"])
    assert test["sentences"] == [
        {"number": 1, "source": "3 1 4", "target": "4 1 3", "reference": None}
    ]
    (shown,) = test["systems"][0]["sentences"]
    assert shown["source"] == ["3", "1", "4"]
    assert shown["target"] == ["4", "1", "3", "</s>"]
    np.testing.assert_allclose(unpacked(shown["mean"], (4, 3)), hypothesis.alignment, atol=0.004)


def test_lengths_are_kept(translator):
    for options in ({}, {"beam_size": 3}):
        for one in translator.translate(SENTENCES, min_length=5, max_length=5, **options):
            assert len(one.tokens) == 5


@pytest.mark.parametrize(("source", "limit"), [(Words, 12 * 2 + 20), (Characters, 2 * 3 + 20)])
def test_the_default_limit_leaves_room_for_the_characters_of_words(source, limit):
    sides = source(["a", "b"]), Characters(["a", "b"])
    sizes = {"embedding_size": 8, "annotation_size": 8, "hidden_size": 8, "readout_size": 8}
    model = initialize(Model(**sizes), *map(len, sides), jax.random.key(0))
    bias = model.words.output.bias
    bias[...] = bias[...].at[EOS].set(-1e9)  # it never ends by itself
    for options in ({}, {"beam_size": 2}):
        (hypothesis,) = Translator([model], *sides).translate(["a b"], **options)
        assert len(hypothesis.tokens) == limit


def test_a_test_set_may_be_measured_in_parts(translator, monkeypatch):
    examples = [
        Example(one, " ".join(one.split()[::-1]), np.arange(len(one.split()))[::-1])
        for one in SENTENCES
    ]
    options = {"temperature": 1.5, "top_k": 3}
    whole = assess(translator, examples, "none", options, pictured=1, wrong=1)
    monkeypatch.setattr("attn_jax.evaluation.assess.AT_ONCE", 2)
    parts = assess(translator, examples, "none", options, pictured=1, wrong=1)
    # Batches of other sizes are summed in another order.
    for one in whole.sentences:
        one["log_probability"] = pytest.approx(one["log_probability"], rel=1e-5)
    assert parts[:4] == whole[:4]
    assert whole.metrics["alignment_accuracy"] > 50
    shapes = [
        {place: kept.hypothesis.weights.shape for place, kept in one.pictured.items()}
        for one in (parts, whole)
    ]
    assert shapes[0] == shapes[1]


def test_an_ensemble_of_one_model_twice_is_that_model(workdir, translator):
    last = workdir / "checkpoints" / "300"
    for combination in ("log_probabilities", "probabilities", "parameters"):
        twice = attn_jax.load([last, last], combination=combination)
        alone = attn_jax.load(last)
        np.testing.assert_allclose(
            twice.score(SENTENCES, SENTENCES), alone.score(SENTENCES, SENTENCES), rtol=1e-5
        )
    both = attn_jax.load([last, workdir / "checkpoints" / "150"])
    assert [h.text for h in both.translate(SENTENCES)] == [
        " ".join(s.split()[::-1]) for s in SENTENCES
    ]
    assert both.translate(["1 2"])[0].weights.shape == (2, 1, 3, 2)


class Labelled(UserList):
    """Indexed by labels, which differ from places, as in a shuffled series of pandas."""

    def __getitem__(self, label):
        return self.data[-1 - label]

    def __iter__(self):
        return iter(self.data)


def test_unknown_words_are_kept_forbidden_or_copied(workdir):
    """The model is changed to write `<unk>` where it learned to write 3, and never 3."""
    translator = attn_jax.load(workdir)
    words, three = translator.models[0].words, translator.target.encode("3")[0]
    order = np.arange(len(translator.target))
    order[[UNK, three]] = three, UNK
    words.target_words.embedding[...] = words.target_words.embedding[...][order]
    words.output.kernel[...] = words.output.kernel[...][:, order]
    words.output.bias[...] = words.output.bias[...][order]
    right = [" ".join(sentence.split()[::-1]) for sentence in SENTENCES]
    examples = [Example(*pair, alignment=None) for pair in zip(SENTENCES, right, strict=True)]
    for options in ({}, {"beam_size": 3}):
        kept = translator.translate(SENTENCES, **options)
        assert [one.text for one in kept] == [text.replace("3", "<unk>") for text in right]
        copied = translator.translate(Labelled(SENTENCES), unknown="copy", **options)
        assert [one.text for one in copied] == right
        assert [one.tokens for one in copied] == [one.tokens for one in kept]
        known = translator.translate(SENTENCES, unknown="forbid", **options)
        assert not any("<unk>" in one.tokens for one in known)
        for found in (copied, known):
            expected = [one.log_probability for one in found]
            scores = translator.score(SENTENCES, found)
            np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-5)
    assert assess(translator, examples, "none", {}).metrics["exact_match"] == 25
    assert assess(translator, examples, "none", {"unknown": "copy"}).metrics["exact_match"] == 100


@pytest.mark.parametrize("decoder", ["bahdanau", "transformer"])
@pytest.mark.parametrize("score", ["last", "mean"])
def test_a_model_without_attention_has_nothing_to_copy(decoder, score):
    sizes = dict.fromkeys(("embedding_size", "annotation_size", "hidden_size"), 8)
    models = [
        initialize(model_options(decoder=decoder, score=one, **sizes), 5, 5, jax.random.key(0))
        for one in ("dot", score)
    ]
    vocabularies = Symbols(["a"]), Symbols(["a"])
    Translator(models[:1], *vocabularies).translate(["a"], unknown="copy")
    with pytest.raises(InputError, match="unknown=copy needs attention"):
        Translator(models, *vocabularies).translate(["a"], unknown="copy")


def test_the_mean_of_parameters(workdir):
    places = [workdir / "checkpoints" / step for step in ("150", "300")]
    first, second = (jax.tree.leaves(attn_jax.load(place).models) for place in places)
    means = jax.tree.leaves(attn_jax.load(places, combination="parameters").models)
    for one, other, mean in zip(first, second, means, strict=True):
        np.testing.assert_allclose(mean, (one + other) / 2, rtol=1e-6, atol=1e-7)


def test_a_mean_of_parameters_of_unrelated_runs_is_warned_of(workdir, tmp_path):
    other = shutil.copytree(workdir, tmp_path / "other")
    with pytest.warns(UserWarning, match="those of runs of their own do not fit together"):
        attn_jax.load([workdir, other], combination="parameters")


def test_the_posterior_is_bayes_rule(translator):
    """Compares it with steps whose weight is forced onto one position at a time."""
    source, target = "3 1 4", "4 1 3"
    model = translator.models[0]
    ids = jnp.array([translator.source.encode(source)])
    written = [*translator.target.encode(target), EOS]
    encoded = model.encode(ids)
    state, before, expected = model.start(encoded, 4), BOS, []
    for word in written:
        likelihoods = []
        for place in range(3):
            alone = encoded._replace(mask=jnp.arange(3)[None] == place)
            _, log_probabilities, _ = model.step(state, jnp.array([before]), alone)
            likelihoods.append(np.exp(log_probabilities[0, word]))
        state, _, weights = model.step(state, jnp.array([before]), encoded)
        joint = np.array(likelihoods) * np.array(weights[0, 0, 0])
        expected.append(joint / joint.sum())
        before = word
    (posterior,) = translator.align([source], [target], of="posterior")
    np.testing.assert_allclose(posterior, expected, rtol=1e-4, atol=1e-6)
    assert posterior[:3].argmax(axis=1).tolist() == [2, 1, 0]
    with pytest.raises(
        InputError, match=r"unknown kind 'prior'.*allowed: weights, posterior, viterbi"
    ):
        translator.align([source], [target], of="prior")


def test_an_export_has_the_limits_of_its_run(workdir, tmp_path):
    with pytest.raises(InputError, match="min_length=50 is more than the 12"):
        attn_jax.export(workdir, tmp_path / "file", source_length=6, min_length=50)
    with pytest.raises(InputError, match="unknown=copy cannot be exported"):
        attn_jax.export(workdir, tmp_path / "file", source_length=6, unknown="copy")
    with pytest.raises(InputError, match="its folder does not exist"):
        attn_jax.export(workdir, tmp_path / "none" / "file")
    assert not (tmp_path / "file").exists()


def test_an_exported_function_runs_without_the_package(workdir, translator, tmp_path):
    file = tmp_path / "reverse.zip"
    attn_jax.export(workdir, file, batch_size=2, source_length=6, beam_size=3, n_best=2)
    program = f"""
import json, sys, zipfile, numpy as np
from jax import export
archive = zipfile.ZipFile({str(file)!r})
exported = export.deserialize(bytearray(archive.read("decode.jax")))
tokens = json.loads(archive.read("source.json"))["tokens"]
source = np.zeros((2, 6), np.int32)
source[0, :3] = [tokens.index(word) + 4 for word in "3 1 4".split()]
found, log_probabilities, scores, weights = exported.call(source)
assert not any(name.startswith(("attn_jax", "flax")) for name in sys.modules)
words = json.loads(archive.read("target.json"))["tokens"]
print(json.dumps([[words[i - 4] for i in row if i > 3] for row in found[0].tolist()]))
print(json.dumps([log_probabilities[0].tolist(), list(weights.shape)]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    texts, (totals, shape) = map(json.loads, done.stdout.splitlines())
    (expected,) = translator.translate(["3 1 4"], beam_size=3, n_best=2)
    assert texts == [h.tokens for h in expected]
    np.testing.assert_allclose(totals, [h.log_probability for h in expected], rtol=1e-4)
    assert shape == [2, 2, 1, 1, 13, 6]
    exported = attn_jax.load_exported(file)
    assert exported.about["target_length"] == 13
    sentences = [*SENTENCES, "7"]  # more than a batch of two, and not a whole number of batches
    found = exported.translate(sentences, n_best=2)
    expected = translator.translate(sentences, beam_size=3, n_best=2)
    for of_sentence, others in zip(found, expected, strict=True):
        for one, other in zip(of_sentence, others, strict=True):
            assert (one.text, one.tokens) == (other.text, other.tokens)
            np.testing.assert_allclose(one.weights, other.weights, rtol=1e-4, atol=1e-6)
            assert one.score == pytest.approx(other.score, rel=1e-4)
    assert [one.text for one in exported.translate(sentences)] == [of[0].text for of in found]
    assert exported.translate([]) == []
    for wrong, message in (
        (["1", " "], "source sentence 2 is empty"),
        (["1 " * 7], "source sentence 1 has 7 tokens, more than the 6 of the export"),
        ("1 2", "expected a list of source sentences, got one"),
    ):
        with pytest.raises(InputError, match=message):
            exported.translate(wrong)
    with pytest.raises(InputError, match="n_best must be from 1 to the 2 of the export, got 3"):
        exported.translate(["1"], n_best=3)
    again = tmp_path / "again.zip"
    options = {"batch_size": 2, "source_length": 6, "beam_size": 3, "n_best": 2}
    attn_jax.export(attn_jax.load(workdir), again, **options)
    assert sorted(zipfile.ZipFile(again).namelist()) == sorted(MEMBERS)
    _damaged_exports_are_refused(file, tmp_path / "other.zip")


MEMBERS = ("decode.jax", "source.json", "target.json", "about.json")


def _damaged_exports_are_refused(file, other):
    with zipfile.ZipFile(file) as archive:
        members = {name: archive.read(name) for name in MEMBERS}
    whole = file.read_bytes()
    middle = whole.index(members["source.json"]) + 20

    def written(**changed):
        with zipfile.ZipFile(other, "w") as archive:
            for name, content in (members | changed).items():
                if content is not None:
                    archive.writestr(name, content)
        return other.read_bytes()

    newer = json.loads(members["about.json"]) | {"format": 2}
    for content, message in (
        (members["decode.jax"], "not written by this version of attn_jax.export, or is damaged"),
        (whole[:-200], "not written by this version"),
        (whole[:middle] + b"?" + whole[middle + 1 :], "is missing or damaged"),
        (written(**{"target.json": None}), "is missing or damaged"),
        (written(**{"decode.jax": b"other"}), r"cannot be read by JAX .*; it was written by"),
        (written(**{"about.json": json.dumps(newer)}), "by a later version of attn_jax"),
    ):
        other.write_bytes(content)
        with pytest.raises(InputError, match=message):
            attn_jax.load_exported(other)
    with pytest.raises(InputError, match="is missing or damaged"):
        attn_jax.load_exported(other.with_name("none"))


def test_an_export_of_subwords_has_their_model(tmp_path, monkeypatch):
    options = OPTIONS | {"data.source_level": "subword", "data.target_level": "subword"}
    train_in(tmp_path / "run", options | {"train.steps": 1, "data.examples": 100})
    attn_jax.export(tmp_path / "run", tmp_path / "file", source_length=10)
    expected = attn_jax.load(tmp_path / "run").translate(["3 1", "4"])
    found = attn_jax.load_exported(tmp_path / "file").translate(["3 1", "4"])
    assert [one.text for one in found] == [one.text for one in expected]
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    startup._use_wide_vectors.cache_clear()
    with pytest.warns(UserWarning, match="JAX has started before"):  # as `load` sets up JAX
        attn_jax.load_exported(tmp_path / "file")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam_size": 0}, "beam_size must be at least 1, got 0"),
        ({"beam": 5}, r"unknown option 'beam'.*did you mean beam_size"),
        ({"beam_size": 2, "n_best": 3}, "n_best=3 is more than beam_size=2"),
        ({"beam_size": 2, "temperature": 1.0}, "sampling does not use a beam"),
        ({"top_k": 3}, "give a temperature"),
        ({"seed": 3}, "seed is for sampling"),
        ({"length_penalty": "average"}, "length_penalty is for beam search"),
        ({"beam_size": 2.5}, "beam_size must be of type int, got 2.5"),
        ({"beam_size": None}, "beam_size must be of type int, got None"),
        ({"temperature": 1e-9}, "temperature must be 0, or at least 0.01"),
        ({"unknown": "cope"}, r"unknown treatment of <unk> 'cope' .*did you mean copy"),
        ({"min_length": 13}, "min_length=13 is more than the 12 of data.max_length"),
        ({"min_length": 4, "max_length": 3}, "min_length=4 is more than max_length=3"),
        ({"beam_size": 2, "length_penalty": "gmnt"}, "did you mean gnmt"),
        ({"beam_size": 2, "length_penalty": "gnmt(alpha=-1)"}, "alpha must be at least 0"),
    ],
)
def test_refuses_searches_that_make_no_sense(translator, options, message):
    with pytest.raises(InputError, match=message):
        translator.translate(SENTENCES, **options)


def test_a_run_is_loaded_where_other_arrays_are_of_float64(workdir):
    with jax.enable_x64(True):
        attn_jax.load(workdir)


def test_refuses_models_that_do_not_go_together(workdir, tmp_path):
    other = shutil.copytree(workdir, tmp_path / "other")
    file = run_files.vocabulary(other, "target")
    vocabulary = json.loads(file.read_text())
    vocabulary["tokens"].reverse()
    manifest.write(other, file, json.dumps(vocabulary))
    with pytest.raises(InputError, match="other has other vocabularies than"):
        attn_jax.load([workdir, other])
    with pytest.raises(InputError, match="unknown combination of models 'sum'"):
        attn_jax.load([workdir, workdir], combination="sum")
    with pytest.raises(InputError, match="unknown checkpoint '7'; allowed: best, last, 150, 300"):
        attn_jax.load(workdir, 7)
    for nothing, why in [
        ([], "no run was given"),
        (None, "expected the path of a folder, got None"),
        ("date", r"date is not the folder of a run \(did you mean dates\?\)"),
    ]:
        with pytest.raises(InputError, match=why):
            attn_jax.load(nothing)


def test_hypotheses_are_as_long_as_sentences_or_empty(translator):
    found = translator.translate(["1"])[0]
    nothing = dataclasses.replace(found, tokens=[])
    long = dataclasses.replace(found, tokens=["1"] * 13)
    assert np.isfinite(translator.score(["1"], [nothing])).all()
    with pytest.raises(InputError, match="target sentence 1 has 13 tokens, more than the 12"):
        translator.score(["1"], [long])


def test_takes_any_sentence_up_to_the_maximum(translator):
    one, longest, unknown = translator.translate(["7", "1 " * 12, "seven 7"])
    assert one.alignment.shape[1] == 1
    assert longest.alignment.shape[1] == 12
    assert translator.source.encode("seven 7")[0] == UNK
    assert unknown.alignment.shape[1] == 2
    assert translator.translate([]) == []
    assert len(translator.score([], [])) == 0


@pytest.mark.parametrize(
    ("sentences", "message"),
    [
        (["1", ""], "source sentence 2 is empty"),
        (["1 " * 13], "source sentence 1 has 13 tokens, more than the 12 of data.max_length"),
    ],
)
def test_refuses_sentences_that_are_empty_or_too_long(translator, sentences, message):
    with pytest.raises(InputError, match=message):
        translator.translate(sentences)


def test_refuses_targets_without_sources(translator):
    with pytest.raises(InputError, match="got 1 sources, but 2 targets"):
        translator.score(["1"], ["1", "2"])
    with pytest.raises(InputError, match="expected a list of source sentences, got one: '1 2'"):
        translator.score("1 2", ["2 1"])


def test_needs_nothing_but_the_folder(workdir, translator, tmp_path):
    moved = shutil.copytree(workdir, tmp_path / "elsewhere")
    loaded = attn_jax.load(moved)
    assert loaded.translate(SENTENCES)[0].text == translator.translate(SENTENCES)[0].text


@pytest.mark.parametrize("name", ["flags.txt", "checkpoints"])
def test_refuses_a_folder_that_is_no_run(workdir, tmp_path, name):
    broken = shutil.copytree(workdir, tmp_path / "broken")
    if name == "flags.txt":
        (broken / name).unlink()
    else:
        shutil.rmtree(broken / name)
    with pytest.raises(InputError, match=r"broken (is not the folder|has no checkpoint) of a run"):
        attn_jax.load(broken)
    assert not (broken / name).exists()


def test_starts_from_another_run(workdir, tmp_path, translator):
    options = OPTIONS | {"train.initial": str(workdir), "train.steps": 1, "model.dropout": 0.1}
    train_in(tmp_path / "next", options)
    before = translator.score(SENTENCES, SENTENCES)
    after = attn_jax.load(tmp_path / "next").score(SENTENCES, SENTENCES)
    # One step of warm-up moves each parameter by at most 0.0001.
    np.testing.assert_allclose(after, before, rtol=0.05)
    other = OPTIONS | {"train.initial": str(workdir), "model.score": "general"}
    with pytest.raises(InputError, match="does not fit this model"):
        train_in(tmp_path / "other", other)
    assert not (tmp_path / "other").exists()
    other = OPTIONS | {"train.initial": str(workdir), "data.source_level": "character"}
    with pytest.raises(InputError, match=r"data\.source_level=symbol, and this one character"):
        train_in(tmp_path / "other", other)
    assert not (tmp_path / "other").exists()


def test_a_vocabulary_is_as_large_as_in_the_run_to_start_from(tmp_path):
    tokens = {"data.source_level": "subword", "data.target_level": "word", "data.min_count": 3}
    initial = config.experiment(tokens | {"data.subwords": 40})
    (tmp_path / "flags.txt").write_text("\n".join(config.lines(initial)))
    check_tokens(tmp_path, initial)
    with pytest.raises(InputError, match=r"has data\.subwords=40, and this one 50"):
        check_tokens(tmp_path, config.experiment(tokens | {"data.subwords": 50}))
    other = tokens | {"data.subwords": 40, "data.min_count": 2}
    with pytest.raises(InputError, match=r"has data\.min_count=3, and this one 2"):
        check_tokens(tmp_path, config.experiment(other))


def test_flags_are_no_remedy_for_a_damaged_run_to_start_from(workdir, tmp_path):
    initial = shutil.copytree(workdir, tmp_path / "initial")
    shutil.rmtree(initial / "checkpoints" / "300" / "model")
    with pytest.raises(InputError, match="300/model is missing or damaged") as error:
        train_in(tmp_path / "next", OPTIONS | {"train.initial": str(initial)})
    assert "--flagfile" not in str(error.value)


def test_starts_from_one_checkpoint_of_another_run(workdir, tmp_path):
    one = workdir / "checkpoints" / "150"
    options = OPTIONS | {"train.initial": str(one), "train.steps": 1, "data.symbols": 4}
    train_in(tmp_path / "next", options)
    for side in ("source", "target"):
        name = f"vocabulary.{side}.json"
        assert (tmp_path / "next" / name).read_text() == (workdir / name).read_text()
    after, before, best = (
        attn_jax.load(folder).score(SENTENCES, SENTENCES)
        for folder in (tmp_path / "next", one, workdir)
    )
    np.testing.assert_allclose(after, before, rtol=0.05)
    assert not np.allclose(after, best, rtol=0.05)
    other = OPTIONS | {"train.initial": str(one), "data.source_level": "character"}
    with pytest.raises(InputError, match=rf"the run in {workdir} has data\.source_level=symbol"):
        train_in(tmp_path / "other", other)
    other = OPTIONS | {"train.initial": str(one), "model.score": "general"}
    with pytest.raises(
        InputError, match=rf"150 does not fit .* options in {workdir}/flags\.txt are those"
    ):
        train_in(tmp_path / "other", other)
    assert not (tmp_path / "other").exists()


def test_the_same_run_goes_on_and_another_is_refused(workdir):
    longer = settle(workdir, {"train.steps": 400})
    assert longer.train.steps == 400
    assert longer.data.symbols == 9
    message = (
        "other flags: seed was 0 and is now 1; "
        r"model.score was 'additive\(units=16\)' and is now 'dot'"
    )
    with pytest.raises(InputError, match=message):
        settle(workdir, {"seed": 1, "model.score": "dot"})
    assert settle(workdir, {"train.steps": 200}).train.steps == 300  # which were done


def test_what_a_run_has_from_its_folder_alone_is_told(workdir):
    given = OPTIONS | {"train.steps": 400}
    assert inherited(settle(workdir, given), given) == {}
    given.pop("data.symbols")
    assert inherited(settle(workdir, given), given) == {"data.symbols": 9}


def test_until_something_is_trained_options_data_and_code_may_change(tmp_path, monkeypatch):
    """As when a score of the user's own gives no finite loss and is then fixed."""
    run, modules = tmp_path / "run", tmp_path / "modules"
    modules.mkdir()
    monkeypatch.syspath_prepend(modules)
    for name in ("first_try", "second_try"):
        (modules / f"{name}.py").write_text("def own(query, keys):\n    return keys @ query\n")
    small = OPTIONS | {"train.steps": 1, "data.examples": 100}

    def fails(*_, **__):
        raise InputError("the loss is not finite")

    with monkeypatch.context() as failing:
        failing.setattr("attn_jax.training.loop.fit", fails)
        with pytest.raises(InputError, match="not finite"):
            train_in(run, small | {"model.score": "first_try:own", "data.symbols": 5})
    assert [file.name for file in (run / "code").iterdir()] == ["first_try.py"]
    train_in(run, small | {"model.score": "second_try:own"})
    assert [file.name for file in (run / "code").iterdir()] == ["second_try.py"]
    assert len(attn_jax.load(run).source) == len(SPECIALS) + 9
    other = settle(tmp_path / "new", {"data.name": "copy"}).data
    (tmp_path / "begun").mkdir()
    lines = ["--data.name=copy", f"--data.source_level={other.source_level}"]
    (tmp_path / "begun" / "flags.txt").write_text("\n".join(lines))
    assert settle(tmp_path / "begun", {"data.name": "dates"}).data.source_level == "character"
    with pytest.raises(InputError, match="holds a run with other flags"):
        settle(run, small | {"model.score": "first_try:own"})
    shutil.rmtree(run / "checkpoints")  # the journal still shows that there was training
    with pytest.raises(InputError, match="holds a run with other flags"):
        settle(run, small | {"model.score": "first_try:own"})


def test_an_evaluation_in_the_midst_of_training_does_not_stay(tmp_path, monkeypatch):
    file = run_files.evaluation(tmp_path / "run", "test")
    fit = loop.fit

    def evaluated(*of_run, **how):
        fit(*of_run, **how)
        file.write_text("{}")

    monkeypatch.setattr("attn_jax.training.loop.fit", evaluated)
    train_in(tmp_path / "run", OPTIONS | {"train.steps": 1, "data.examples": 100})
    assert not file.exists()


def test_an_evaluation_of_what_is_no_longer_the_best_is_not_kept(workdir, monkeypatch):
    corpus = open_corpus(experiment_of(workdir).data)
    best = best_checkpoint(workdir)
    checkpoints = iter([best, best.with_name("400")])
    monkeypatch.setattr("attn_jax.runs.evaluation.best_checkpoint", lambda _: next(checkpoints))
    with pytest.raises(InputError, match="has been trained on in the meantime"):
        evaluate_split(workdir, corpus, "train", {})
    assert not run_files.evaluation(workdir, "train").exists()


def test_an_evaluation_measures_whether_the_weights_matter(workdir, translator):
    result = attn_jax.evaluate(workdir, "validation", explain=12)
    file = run_files.evaluation(workdir, "validation")
    assert json.loads(file.read_text()) == result
    found = result["explanations"]
    assert found["sentences"] == 12  # all have at least two tokens
    corpus = open_corpus(experiment_of(workdir).data)
    examples = corpus.sentences("validation", translator.source, translator.target)[:12]
    explained = translator.explain(
        *([getattr(e, n) for e in examples] for n in ("source", "target"))
    )
    assert found["tokens"] == sum(len(one.uniform) for one in explained)
    # Whoever reverses needs to look at the right place.
    assert found["without_most"] > 1 > abs(found["without_random"])
    assert found["uniform"] > 1
    flat = Translator(
        [with_uniform_weights(*translator.models)], translator.source, translator.target
    )
    sources, references = ([getattr(e, n).text for e in examples] for n in ("source", "target"))
    usual, changed = (
        sum(said.text == one for said, one in zip(each.translate(sources), references, strict=True))
        for each in (translator, flat)
    )
    assert found["uniform_quality"] == pytest.approx(100 * (usual - changed) / 12)
    assert found["uniform_quality"] > 50
    assert -1 <= found["rank_agreement"] <= 1
    with pytest.raises(InputError, match="explain must be at least 0, got -1"):
        attn_jax.evaluate(workdir, explain=-1)
    with pytest.raises(InputError, match="one hypothesis for each sentence: leave out n_best"):
        attn_jax.evaluate(workdir, beam_size=5, n_best=2)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"score": "mean"}, "the weights of a control, mean or last, are fixed"),
        ({"decoder": "luong", "readout": "marginal"}, "this model sums over alignments"),
        ({"sources": "flat"}, "this model has two sources"),
        ({}, "there are several models: take one"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_what_has_no_weights_that_could_be_others_is_not_explained(options, why):
    sizes = dict.fromkeys(("embedding_size", "annotation_size", "hidden_size"), 8)
    two = options.get("sources") == "flat"
    model = initialize(
        model_options(**options, **sizes), (5, 5) if two else 5, 5, jax.random.key(0)
    )
    source = TwoSources(Symbols(["a"]), Symbols(["a"])) if two else Symbols(["a"])
    models = [model] if options else [model, model]
    translator = Translator(models, source, Symbols(["a"]))
    with pytest.raises(InputError, match=why):
        translator.explain(["a a"], ["a"])


def test_pairs_with_an_empty_side_are_left_out():
    examples = [Example("a", "b"), Example("\t ", "b"), Example("a " * 200, "b")]
    text = cut_pairs(examples, ("words", "words"))
    pairs = training_pairs(Experiment(), examples, text, Symbols(["a"]), Symbols(["b"]), False)
    assert (pairs.lengths.tolist(), pairs.left_out) == ([[1, 2]], 2)
    source, target, _ = pairs.batch(np.array([0]), 1, 2)
    assert (source.tolist(), target.tolist()) == ([[4]], [[4, EOS]])


@pytest.mark.parametrize("decoder", ["bahdanau", "transformer"])
def test_one_word_and_five_hundred_of_a_vocabulary_of_one(decoder):
    sizes = dict.fromkeys(("embedding_size", "annotation_size", "hidden_size"), 8)
    units = {"units": 4, "readout_size": 8, "feedforward_size": 8}
    config = model_options(decoder=decoder, **units, **sizes)
    model = initialize(config, 5, 5, jax.random.key(0))
    short, long = "a", " ".join(["a"] * 500)
    translator = Translator([model], Symbols(["a"]), Symbols(["a"]))
    for options in ({}, {"beam_size": 2}):
        found = translator.translate([short, long], **options)
        expected = translator.score([short, long], found)
        for one, sentence, score in zip(found, (short, long), expected, strict=True):
            assert set(one.tokens) <= {"a", "<unk>"}
            assert len(one.tokens) <= min(2 * len(sentence.split()) + 20, 512)
            assert one.alignment.shape == (len(one.tokens) + 1, len(sentence.split()))
            assert one.log_probability == pytest.approx(score, rel=1e-5, abs=1e-4)
    (posterior,) = translator.align([long], ["a a"], of="posterior")
    np.testing.assert_allclose(posterior.sum(axis=1), 1, rtol=1e-4)


def test_a_window_that_moves_with_the_sentence_has_no_posterior():
    sizes = dict.fromkeys(("embedding_size", "annotation_size", "hidden_size"), 8)
    model = initialize(Model(window=LocalP(), **sizes), 5, 5, jax.random.key(0))
    translator = Translator([model], Symbols(["a"]), Symbols(["a"]))
    with pytest.raises(InputError, match="this model has no posterior"):
        translator.align(["a a a a"], ["a a"], of="posterior")


def test_another_number_of_sentences_compiles_nothing(translator, caplog):
    (sentence, *_) = SENTENCES
    for options in ({}, {"temperature": 1.0}):
        translator.translate(33 * [sentence], **options)
        jax.config.update("jax_log_compiles", True)  # a context would not reach other threads
        try:
            translator.translate(34 * [sentence], **options)
        finally:
            jax.config.update("jax_log_compiles", False)
        assert not [one for one in caplog.messages if "ompil" in one]


def test_a_model_that_is_not_finite_is_said_to_be():
    sizes = dict.fromkeys(("embedding_size", "annotation_size", "hidden_size"), 8)
    model = initialize(Model(**sizes), 5, 5, jax.random.key(0))
    broken = jax.tree.map(lambda leaf: leaf * np.nan, model)
    translator = Translator([broken], Symbols(["a"]), Symbols(["a"]))
    for options in ({}, {"beam_size": 2}, {"temperature": 1.0}):
        with pytest.raises(InputError, match="probabilities are not finite"):
            translator.translate(["a"], **options)


def test_parameters_are_float32():
    sizes = dict.fromkeys(("embedding_size", "annotation_size", "hidden_size"), 8)
    model = initialize(Model(**sizes), 5, 5, jax.random.key(0))
    half = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), model)
    with pytest.raises(InputError, match="parameters of float32, not bfloat16"):
        Translator([half], Symbols(["a"]), Symbols(["a"]))
    with pytest.raises(InputError, match=r"of 5 source and 5 target tokens does not .* of 5 and 6"):
        Translator([model], Symbols(["a"]), Symbols(["a", "b"]))
    with pytest.raises(InputError, match="no model was given"):
        Translator([], Symbols(["a"]), Symbols(["a"]))


def test_means_are_of_one_kind_of_model():
    sizes = dict.fromkeys(("embedding_size", "annotation_size", "hidden_size"), 8)
    models = [
        initialize(Model(score=score, **sizes), 5, 5, jax.random.key(0))
        for score in (Dot(), ScaledDot())
    ]
    with pytest.raises(InputError, match="only of models with the same --model options"):
        mean_parameters(models)


@contextlib.contextmanager
def compilations():
    """The list of what JAX has compiled, in any thread, inside the context."""
    counted = []

    def count(event, _, **__):
        if event == "/jax/core/compile/backend_compile_duration":
            counted.append(event)

    jax.monitoring.register_event_duration_secs_listener(count)
    try:
        yield counted
    finally:
        jax.monitoring.unregister_event_duration_listener(count)


@pytest.mark.parametrize(
    "options", [{}, {"beam_size": 2, "n_best": 2}, {"temperature": 0.9}, {"unknown": "copy"}]
)
def test_after_a_warm_up_nothing_is_compiled(translator, options):
    jax.clear_caches()
    with compilations() as counted:
        assert translator.warm_up([3, 9], [1, 6, 70], **options) is None
        programs = decode._cache_size()
        assert programs == 6
        assert len(counted) >= programs
        counted.clear()
        translator.warm_up([4], [5], **options)
        for sentences in (["3 1 4"], ["1 " * 9] * 7, ["3"] * 64 + ["1 " * 12] * 30, ["2"] * 5):
            translator.translate(sentences, **options)
        list(translator.translate_stream(["3 1", "1 " * 10], buffer=1, **options))
        assert not counted
        translator.translate(["3 1"] * 3, **options)
        assert counted  # so many were not announced
    assert decode._cache_size() == programs + 1


def test_a_warm_up_is_of_common_lengths_by_default(translator, monkeypatch):
    asked = []
    monkeypatch.setattr(translator, "_decoded", lambda batch, *_: asked.append(batch.shape))
    translator.warm_up()
    assert sorted(asked) == [(1, 8), (1, 16), (64, 8), (64, 16)]
    monkeypatch.setattr(translator, "max_length", 512)
    asked.clear()
    translator.warm_up()
    assert sorted(asked) == [(rows, length) for rows in (1, 64) for length in (8, 16, 32, 64)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lengths": [3, 13]}, "lengths must be from 1 to 12, got 13"),
        ({"lengths": [0]}, "lengths must be from 1 to 12, got 0"),
        ({"rows": [0]}, "rows must be at least 1, got 0"),
        ({"beam": 5}, r"unknown option 'beam'.*did you mean beam_size"),
        ({"min_length": 13}, "min_length=13 is more than the 12"),
    ],
)
def test_refuses_a_warm_up_of_what_cannot_come(translator, options, message):
    with pytest.raises(InputError, match=message):
        translator.warm_up(**options)


@pytest.mark.parametrize("buffer", [1, 3, 64])
def test_a_stream_has_the_translations_of_a_list(translator, buffer):
    sentences = SENTENCES * 2
    for options in ({}, {"beam_size": 3}, {"temperature": 2.0}):
        expected = [one.text for one in translator.translate(sentences, **options)]
        stream = translator.translate_stream(iter(sentences), buffer=buffer, **options)
        assert [one.text for one in stream] == expected
    both = translator.translate_stream(sentences, buffer=buffer, beam_size=2, n_best=2)
    assert [len(found) for found in both] == [2] * len(sentences)
    assert list(translator.translate_stream([], buffer=buffer)) == []


@pytest.mark.parametrize("buffer", [1, 2, 3])
def test_a_stream_holds_no_more_than_its_buffer(translator, buffer):
    taken = 0

    def endless():
        nonlocal taken
        for sentence in itertools.cycle(SENTENCES):
            taken += 1
            yield sentence

    stream = translator.translate_stream(endless(), buffer=buffer)
    for done, sentence in zip(range(7), itertools.cycle(SENTENCES), strict=False):
        assert next(stream).text == " ".join(sentence.split()[::-1])
        assert taken == -(-(done + 1) // buffer) * buffer


@pytest.mark.parametrize("buffer", [1, 2, 64])
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (" ", "source sentence 4 is empty"),
        ("1 " * 13, "source sentence 4 has 13 tokens"),
    ],
)
def test_a_stream_tells_of_a_wrong_sentence_in_its_place(translator, buffer, wrong, message):
    stream = translator.translate_stream(["3 1", "4 2", "5 6", wrong, "6"], buffer=buffer)
    assert [next(stream).text for _ in range(3)] == ["1 3", "2 4", "6 5"]
    with pytest.raises(InputError, match=message):
        next(stream)
    assert list(stream) == []


def test_a_stream_ends_as_its_sentences_do(translator):
    def broken():
        yield "3 1"
        raise ConnectionError("the peer is gone")

    stream = translator.translate_stream(broken())
    assert next(stream).text == "1 3"
    with pytest.raises(ConnectionError, match="the peer is gone"):
        next(stream)
    with pytest.raises(InputError, match="buffer must be at least 1, got 0"):
        translator.translate_stream([], buffer=0)
    with pytest.raises(InputError, match="expected a list of source sentences, got one: '3 1'"):
        translator.translate_stream("3 1")
    with pytest.raises(InputError, match="expected a list of source sentences, got one: '3 1'"):
        translator.translate_stream(translator.source.cut("3 1"))
    with pytest.raises(InputError, match="unknown option 'beam'"):
        translator.translate_stream([], beam=3)


def test_threads_may_share_a_translator(translator):
    expected = [one.text for one in translator.translate(SENTENCES)]
    with ThreadPoolExecutor(4) as pool:
        found = pool.map(lambda _: translator.translate(SENTENCES), range(8))
        assert all([one.text for one in texts] == expected for texts in found)


def of_readout(*readouts):
    """A translator with a model for each readout of Luong's decoder."""
    sizes = dict.fromkeys(("embedding_size", "annotation_size", "hidden_size"), 8)
    configs = [Model(decoder="luong", readout=readout, **sizes) for readout in readouts]
    models = [initialize(config, 6, 6, jax.random.key(0)) for config in configs]
    return Translator(models, Symbols(["a", "b"]), Symbols(["a", "b"]))


@pytest.mark.parametrize("readout", ["marginal", "monotonic_hmm"])
def test_hard_attention_aligns_with_the_best_alignment(readout):
    translator = of_readout(readout)
    (path,) = translator.align(["a b a b"], ["b a"], of="viterbi")
    assert path.shape == (3, 4)
    np.testing.assert_array_equal(np.sort(path), np.tile([0, 0, 0, 1], (3, 1)))
    (posterior,) = translator.align(["a b a b"], ["b a"], of="posterior")
    np.testing.assert_allclose(posterior.sum(axis=1), 1, rtol=1e-5)


def test_the_marginal_posterior_is_that_of_bayes_rule():
    """Step by step with one position alone, as for models that do not sum over alignments."""
    translator = of_readout("marginal")
    (own,) = translator.align(["a b a b"], ["b a"], of="posterior")
    (weights,) = translator.align(["a b a b"], ["b a"])
    likelihoods = np.empty_like(weights)
    (model,) = translator.models
    target = np.array([[*translator.target.ids(["b", "a"]), EOS]])
    encoded = model.encode(np.array([translator.source.ids(["a", "b", "a", "b"])]))
    for place in range(4):
        alone = encoded._replace(mask=encoded.mask & (np.arange(4) == place))
        state = model.start(alone, 3)
        for step, (before, word) in enumerate(zip([BOS, *target[0]], target[0], strict=False)):
            state, found, _ = model.step(state, np.array([before]), alone)
            likelihoods[step, place] = np.exp(found[0, word])
    joint = weights * likelihoods
    np.testing.assert_allclose(own, joint / joint.sum(axis=1, keepdims=True), rtol=1e-4)


@pytest.mark.parametrize(
    ("readouts", "of", "message"),
    [
        (["linear"], "viterbi", "only one model that sums over alignments"),
        (["marginal", "monotonic_hmm"], "viterbi", "only one model that sums over alignments"),
        (["linear", "marginal"], "posterior", "no common posterior: only some of them sum over"),
    ],
)
def test_models_without_common_alignments_have_none(readouts, of, message):
    with pytest.raises(InputError, match=message):
        of_readout(*readouts).align(["a b"], ["b"], of=of)
