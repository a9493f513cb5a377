"""A trained run, used through `load`: one small training serves all tests here."""

import shutil

import numpy as np
import pytest

import attn_jax
from attn_jax.errors import InputError
from attn_jax.tokens import UNK
from experiments import train

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
    "model.alignment_size": 16,
    "model.readout_size": 16,
    "train.steps": 300,
    "train.valid_every": 150,
    "train.learning_rate": 0.01,
    "train.buckets": 2,
}


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "reverse"
    train.train(folder, train.settle(folder, OPTIONS))
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
        (["1 " * 13], "source sentence 1 has 13 tokens, more than the 12 of --data.max_length"),
    ],
)
def test_refuses_sentences_that_are_empty_or_too_long(translator, sentences, message):
    with pytest.raises(InputError, match=message):
        translator.translate(sentences)


def test_refuses_targets_without_sources(translator):
    with pytest.raises(InputError, match="1 sources, but 2 targets"):
        translator.score(["1"], ["1", "2"])


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
    train.train(tmp_path / "next", train.settle(tmp_path / "next", options))
    before = translator.score(SENTENCES, SENTENCES)
    after = attn_jax.load(tmp_path / "next").score(SENTENCES, SENTENCES)
    # One step of warm-up moves each parameter by at most 0.0001.
    np.testing.assert_allclose(after, before, rtol=0.05)
    other = OPTIONS | {"train.initial": str(workdir), "model.score": "general"}
    with pytest.raises(InputError, match="does not fit this model"):
        train.train(tmp_path / "other", train.settle(tmp_path / "other", other))
    assert not (tmp_path / "other").exists()


def test_the_same_run_goes_on_and_another_is_refused(workdir):
    longer = train.settle(workdir, {"train.steps": 400})
    assert longer.train.steps == 400
    assert longer.data.symbols == 9
    message = (
        "other flags: --seed was 0 and is now 1; --model.score was 'additive' and is now 'dot'"
    )
    with pytest.raises(InputError, match=message):
        train.settle(workdir, {"seed": 1, "model.score": "dot"})
    with pytest.raises(InputError, match=r"train\.steps was 300 and is now 200"):
        train.settle(workdir, {"train.steps": 200})
