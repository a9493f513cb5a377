"""Parts of the user's own whose modules hold arrays."""

import os
import re
import sys

import jax
import pytest

import attn_jax
from attn_jax import config
from attn_jax.data.datasets import open_corpus
from attn_jax.errors import InputError
from attn_jax.records import own_code, run_files
from attn_jax.runs.checks import check
from attn_jax.runs.folder import settle
from attn_jax.runs.training import train_alone
from tests.stages import full

pytestmark = full

CONSTANTS = """
import jax
import jax.numpy as jnp
from flax import nnx

ONE = jnp.array(1.0)
HEAD = jax.random.normal(jax.random.key(0), (10,))  # as many features as a query
HALF, FEATURES = (nnx.Linear(1, size, rngs=nnx.Rngs(0))(jnp.ones(1)) for size in (5, 10))
"""
PARTS = """
import dataclasses
import jax.numpy as jnp
from attn_jax import Normalizer, Score, Window
from attn_jax.models.decoders import Bahdanau
from attn_jax.models.encoders import RecurrentEncoder
from attn_jax.models.readouts import Maxout
from attn_jax.models.recurrent import Tanh
from held_constants import FEATURES, HALF, HEAD, ONE

HERE = jnp.array(1.0)

class Stretched(Score):
    def score(self, p, query, keys, past):
        return ONE * (keys @ (HEAD * query))

class Near(Window):
    def bias(self, p, query, past):
        return jnp.where(past.mask & (HEAD @ query > -100), HERE - 1, -jnp.inf)

    def gain(self, p, query, past):
        return HERE * jnp.ones(past.mask.shape)

class Shares(Normalizer):
    def weights(self, p, scores, mask, past):
        kept = jnp.exp(HERE * scores - jnp.abs(HEAD).sum()) * mask
        return kept / (kept.sum() + 1e-9)

class Cell(Tanh):
    def __call__(self, state, projected, hidden):
        return HERE * super().__call__(state, projected, hidden)

class Encoder(RecurrentEncoder):
    def __init__(self, config, *, rngs):
        super().__init__(dataclasses.replace(config, encoder="bidirectional"), rngs=rngs)

    def __call__(self, words, mask, rng=None):
        annotations, summary = super().__call__(words, mask, rng)
        return FEATURES * annotations, summary._replace(vector=HALF * summary.vector)

class Decoder(Bahdanau):
    def advance(self, source, state, inputs):
        state, (outputs, weights) = super().advance(source, state, inputs)
        return state, (outputs, HERE * weights)

class Readout(Maxout):
    def __call__(self, *inputs):
        return HERE * super().__call__(*inputs)
"""
SIZES = {
    "embedding_size": 5,
    "annotation_size": 10,
    "hidden_size": 10,
    "readout_size": 7,
}
OWN = {
    "encoder": "own_parts:Encoder",
    "cell": "own_parts:Cell",
    "decoder": "own_parts:Decoder",
    "readout": "own_parts:Readout",
    "score": "own_parts:Stretched",
    "window": "own_parts:Near",
    "normalizer": "own_parts:Shares",
}
SMALL = {f"model.{name}": value for name, value in SIZES.items()} | {
    "data.name": "copy",
    "data.examples": 100,
    "data.held_out": 10,
    "data.shortest": 2,
    "data.longest": 20,
    "train.steps": 3,
    "train.valid_every": 3,
    "train.buckets": 2,
}


def forget(*modules):
    """As in a new process: nothing is imported or traced."""
    for module in modules:
        sys.modules.pop(module, None)
    jax.clear_caches()


def test_modules_with_arrays_are_imported_before_anything_is_traced(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "held_constants.py").write_text(CONSTANTS)
    (tmp_path / "own_parts.py").write_text(PARTS)
    run = tmp_path / "run"
    forget("own_parts", "held_constants")
    experiment = settle(run, SMALL | {f"model.{kind}": part for kind, part in OWN.items()})
    check(experiment)
    run.mkdir()
    train_alone(run, experiment, open_corpus(experiment.data), {})

    forget("own_parts", "held_constants")
    translator = attn_jax.load(run)
    assert len(translator.translate(["a b c", "b " * 12])) == 2
    assert len(translator.translate(["a " * 20])) == 1  # of another shape, and so traced anew


SCALED = """
import jax
import jax.numpy as jnp
from attn_jax import Normalizer
SCALE = jnp.ones(5)
def score(query, keys):
    return keys @ (SCALE * query)
def window(query, mask):
    return jnp.where(SCALE @ query < 1e9, 0, -jnp.inf) * jnp.ones(mask.shape)
class OfContexts(Normalizer):
    reads = ("context",)
    def weights(self, p, scores, mask, past):
        return jax.nn.softmax(scores * (SCALE @ past.context), where=mask)
"""


def test_a_module_that_a_function_imports_when_it_is_called_is_named(tmp_path, monkeypatch):
    (tmp_path / "late_constant.py").write_text("import jax.numpy as jnp\n\nTWO = jnp.array(2.0)\n")
    (tmp_path / "late_score.py").write_text(
        "def score(query, keys):\n    import late_constant\n\n"
        "    return late_constant.TWO * (keys @ query)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    options = SMALL | {"model.score": "late_score:score"}
    with pytest.raises(InputError, match="late_constant must be imported at the top of your mod"):
        check(config.experiment(options))


@pytest.mark.parametrize(
    ("part", "name"), [("score", "score"), ("window", "window"), ("normalizer", "OfContexts")]
)
def test_an_array_in_a_part_fits_the_queries_of_the_run(tmp_path, monkeypatch, part, name):
    """Without heads, a query has the size of a state; with four, that of a head."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "scaling.py").write_text(SCALED)
    own = {f"model.{part}": f"scaling:{name}"}
    transformer = {"encoder": "transformer", "decoder": "transformer", "heads": 4}
    transformer |= {"embedding_size": 20, "annotation_size": 20, "hidden_size": 20}
    one_head = {"hidden_size": 5, "annotation_size": 10}
    for sizes in (transformer, one_head | {"projection": "linear", "head_size": 5}):
        check(config.experiment({f"model.{k}": v for k, v in sizes.items()} | own))
    with pytest.raises(
        InputError, match=rf"model\.{part}=scaling:{name} fails with .*\(scaling\.py, line "
    ):
        check(config.experiment(SMALL | own))


PLACED = """
import jax
import jax.numpy as jnp
def needs_five(scores, mask):
    least = jax.lax.top_k(jnp.where(mask, scores, -jnp.inf), 5)[0][-1]
    return jax.nn.softmax(scores, where=mask & (scores >= least))
def up_to_ten(query, keys):
    return keys @ query + jnp.zeros(10)[: len(keys)]
"""


def test_sentences_too_short_or_long_for_a_part_are_found_before_training(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "placed.py").write_text(PLACED)
    for longest, part, name in ((4, "normalizer", "needs_five"), (12, "score", "up_to_ten")):
        run = tmp_path / name
        options = {f"model.{part}": f"placed:{name}", "data.longest": longest}
        experiment = settle(run, SMALL | options)
        check(experiment)
        with pytest.raises(InputError, match=rf"placed:{name} fails with .*\(placed\.py, line "):
            train_alone(run, experiment, open_corpus(experiment.data), {})
        assert not run.exists()


SIMILAR = """
from attn_jax import Score

class Similar(Score):
    sharpness: float = 10.0

    def score(self, p, query, keys, past):
        return self.sharpness * (keys @ query)
"""


def test_a_run_is_of_no_use_without_its_code_which_is_told(tmp_path, monkeypatch):
    place = tmp_path / "place"
    place.mkdir()
    (place / "similar_of_place.py").write_text(SIMILAR)
    run = tmp_path / "run"
    run.mkdir()
    with monkeypatch.context() as here:
        here.syspath_prepend(place)
        options = {"model.score": "similar_of_place:Similar"}
        experiment = settle(tmp_path / "new", SMALL | options)
        assert str(experiment.model.score) == "similar_of_place:Similar(sharpness=10.0)"
        train_alone(run, experiment, open_corpus(experiment.data), {})
        attn_jax.load(run)
    forget("similar_of_place")
    told = (
        "cannot use 'similar_of_place:Similar' as a score: No module named 'similar_of_place'; "
        "Python looks for it on PYTHONPATH, and last in the current folder"
    )
    for use in (attn_jax.load, lambda run: settle(run, {})):
        with pytest.raises(InputError) as error:
            use(run)
        assert str(error.value) == told
    options = config.recorded(run_files.flags(run))
    assert str(options["model.score"]) == "similar_of_place:Similar(sharpness=10.0)"


@pytest.mark.parametrize(
    "edited",
    [
        SIMILAR.replace("10.0", "20.0"),
        SIMILAR.replace("sharpness", "width"),
        SIMILAR.replace("    sharpness", "    width: int = 3\n    sharpness"),
        SIMILAR.replace("class", "klass"),
    ],
    ids=["default", "renamed", "more", "failing"],
)
def test_edited_code_is_named_whatever_becomes_of_its_settings(tmp_path, monkeypatch, edited):
    monkeypatch.syspath_prepend(tmp_path)
    file, run = tmp_path / "similar_edited.py", tmp_path / "run"
    forget("similar_edited")
    own_code._read.clear()  # as in a new process
    file.write_text(SIMILAR)
    run.mkdir()
    experiment = settle(tmp_path / "new", SMALL | {"model.score": "similar_edited:Similar"})
    train_alone(run, experiment, open_corpus(experiment.data), {})
    forget("similar_edited")
    own_code._read.clear()
    file.write_text(edited)
    os.utime(file, (0, 0))  # another time than that of the compiled module
    named = re.escape(f"{file} is not the code that the run in {run} was trained with")
    with pytest.raises(InputError, match=named):
        settle(run, {"train.steps": 4})
    if edited == SIMILAR.replace("10.0", "20.0"):  # all settings are recorded: it may be the same
        with pytest.warns(UserWarning, match=named):
            assert attn_jax.load(run).models[0].decoder.attention.mechanism.score.sharpness == 10
    elif "width: int" in edited:
        with pytest.warns(UserWarning, match=named):
            attn_jax.load(run)
    else:
        with pytest.raises(InputError, match=named):
            attn_jax.load(run)


LOSSES = """
import jax.numpy as jnp
from attn_jax import Loss
ONE = jnp.array(1.0)

class Overused(Loss):
    most: float = 2.0

    def loss(self, seen):
        return ONE * jnp.maximum(seen.weights.sum(axis=0) - self.most, 0).sum()

class Padded(Loss):
    def loss(self, seen):
        return jnp.square(1 - seen.weights.sum(axis=0)).sum()

class Fails(Loss):
    def loss(self, seen):
        return seen.wieghts.sum()
"""


def test_a_loss_of_ones_own_is_trained_with_kept_and_compared(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    forget("own_losses")
    own_code._read.clear()
    (tmp_path / "own_losses.py").write_text(LOSSES)
    run = tmp_path / "run"
    run.mkdir()
    losses = {"train.losses": "entropy(weight=0.1)+own_losses:Overused(most=1)"}
    experiment = settle(tmp_path / "new", SMALL | losses)
    check(experiment)
    train_alone(run, experiment, open_corpus(experiment.data), {})
    assert (run / "code" / "own_losses.py").read_text() == LOSSES
    recorded = config.recorded(run_files.flags(run))["train.losses"]
    assert config.text_of(recorded) == (
        "entropy(weight=0.1,head=all)+own_losses:Overused(weight=1.0,head=all,most=1.0)"
    )
    assert settle(run, losses) == experiment
    with pytest.raises(InputError, match=r"train.losses was .*Overused.* and is now 'none'"):
        settle(run, {"train.losses": "none"})
    (tmp_path / "own_losses.py").write_text(LOSSES.replace("ONE *", "2 *"))
    own_code._read.clear()
    with pytest.raises(InputError, match=r"own_losses.py is not the code that the run in"):
        settle(run, {"train.steps": 4})


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("Padded", "Padded.*: the loss changes by .* when the pair is padded"),
        ("Fails", r"train.losses=.*:Fails.* fails with AttributeError: .*own_faults.py, line 18"),
    ],
)
def test_a_loss_of_ones_own_is_checked_before_training(tmp_path, monkeypatch, name, told):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_faults.py").write_text(LOSSES)
    with pytest.raises(InputError, match=told):
        check(config.experiment(SMALL | {"train.losses": f"own_faults:{name}"}))


def test_a_control_has_no_weights_for_a_loss():
    options = SMALL | {"model.score": "last", "train.losses": "diagonal(width=0.1)+entropy"}
    told = "no weights that could be trained: leave out train.losses=diagonal.width=0.1.+entropy"
    with pytest.raises(InputError, match=told):
        check(config.experiment(options))


def test_a_finished_run_and_what_lies_beside_its_copies_stay_as_they_are(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    text = "def score(query, keys):\n    return keys @ query\n"
    (tmp_path / "kept_score.py").write_text(text)
    run = tmp_path / "run"
    run.mkdir()
    experiment = settle(tmp_path / "new", SMALL | {"model.score": "kept_score:score"})
    train_alone(run, experiment, open_corpus(experiment.data), {})
    copy, helper = run / "code" / "kept_score.py", run / "code" / "helper.py"
    assert copy.read_text() == text
    helper.write_text("WIDTH = 3")
    copy.unlink()
    copy.symlink_to(tmp_path / "kept_score.py")
    train_alone(run, experiment, open_corpus(experiment.data), {})
    assert copy.is_symlink()
    assert helper.read_text() == "WIDTH = 3"
    longer = settle(run, {"train.steps": 4})
    with pytest.raises(InputError, match=r"kept_score\.py is a link: remove it"):
        train_alone(run, longer, open_corpus(longer.data), {})
    copy.unlink()
    train_alone(run, longer, open_corpus(longer.data), {})
    assert copy.read_text() == text
    assert helper.is_file()
    copy.unlink()  # what the parameters belong to can no longer be known
    for use in (attn_jax.load, lambda run: settle(run, {"train.steps": 6})):
        with pytest.raises(InputError, match=r"kept_score\.py is missing"):
            use(run)
