"""Steps whose loss or gradient is not finite, and runs that diverge."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attn_jax.config import Train
from attn_jax.errors import InputError
from attn_jax.recipe.losses import Guided
from attn_jax.records import journal
from attn_jax.tokens import Batch
from attn_jax.training.loop import recipe_of
from attn_jax.training.running import skipped_in_a_row
from attn_jax.training.step import init_state, resume, train_step
from tests.training.test_loop import scripted, train
from tests.training.test_step import LINKS, SOURCE, TARGET, make

# Links with which the loss is NaN, and others with which only the norm of the gradient is infinite.
SPOILT = {"loss": np.nan, "gradient": 1e30}
GUIDED = {"losses": "guided", "steps": 8, "valid_every": 4}


@pytest.mark.parametrize("what", SPOILT)
def test_a_skipped_step_changes_nothing_but_its_number(what):
    recipe = recipe_of(Train(warmup_steps=0, average=0.9, losses=(Guided(),)))

    def step(state, links):
        return train_step(state, Batch(SOURCE, TARGET, links), jax.random.key(1), recipe=recipe)

    def twice(third):
        state, _ = step(init_state(make(), recipe), LINKS)
        state, loss = step(state, LINKS)
        assert jnp.isfinite(loss)
        return third(state)

    skipped, loss = twice(lambda state: step(state, jnp.full_like(LINKS, SPOILT[what])))
    left_out = twice(lambda state: resume(3, state.result, state.rest))
    assert jnp.isnan(loss)
    for _ in range(2):
        for one, other in zip(skipped.leaves, left_out.leaves, strict=True):
            np.testing.assert_array_equal(one, other)
        (skipped, _), (left_out, _) = step(skipped, LINKS), step(left_out, LINKS)


@pytest.mark.parametrize("what", SPOILT)
def test_a_rare_step_that_is_not_finite_is_skipped_and_counted(tmp_path, capsys, what):
    spoilt = dict.fromkeys((1, 3, 6), SPOILT[what])
    step, _, through, record = train(tmp_path / "a", spoilt=spoilt, **GUIDED)
    assert step == 8
    assert [line["skipped"] for line in record] == [2, 1]
    assert np.isfinite([line["train_loss"] for line in record]).all()
    told = capsys.readouterr().err
    assert "warning: 2 of the steps before step 4 were skipped" in told
    train(tmp_path / "b", spoilt=spoilt, **GUIDED | {"steps": 4})
    _, _, pieces, again = train(tmp_path / "b", spoilt=spoilt, **GUIDED)
    for name, leaf in through.items():
        np.testing.assert_array_equal(leaf, pieces[name])
    assert [line["train_loss"] for line in record] == [line["train_loss"] for line in again]


def test_so_many_skipped_steps_in_a_row_end_a_run_that_may_go_on_with_more(tmp_path):
    spoilt = dict.fromkeys((4, 5, 6), np.nan)  # step 4 is before the validation
    with pytest.raises(InputError, match="not finite in 3 steps in a row, up to step 6: start"):
        train(tmp_path, spoilt=spoilt, skip=2, **GUIDED)
    with pytest.raises(InputError, match="not finite in 3 steps in a row, up to step 6: start"):
        train(tmp_path, spoilt=spoilt, skip=2, **GUIDED)
    step, *_, record = train(tmp_path, spoilt=spoilt, skip=3, **GUIDED)
    assert (step, [line["skipped"] for line in record]) == (8, [1, 2])


def test_none_is_skipped_if_none_may_be(tmp_path):
    with pytest.raises(InputError, match="not finite in 1 steps in a row, up to step 3"):
        train(tmp_path, spoilt={3: np.nan}, skip=0, **GUIDED)


def test_a_loss_that_was_never_finite_is_no_matter_of_training(tmp_path):
    with pytest.raises(InputError, match="from the first step on, before any update: the model"):
        train(tmp_path, spoilt=dict.fromkeys(range(1, 9), np.nan), skip=2, **GUIDED)
    assert not (tmp_path / "metrics.jsonl").exists()
    with pytest.raises(InputError, match="after the first update"):
        skipped_in_a_row([1.0, np.nan, np.nan], first=1, skipped=0, most=1)
    with pytest.raises(InputError, match="in 3 steps in a row, up to step 9"):
        skipped_in_a_row([np.nan, 2.0], first=9, skipped=2, most=2)
    assert skipped_in_a_row([np.nan, 1.0, np.nan], first=9, skipped=1, most=2) == 1


def test_a_run_that_diverges_ends_with_a_sentence_and_keeps_its_best(tmp_path):
    for perplexities in ([3.0, np.inf], [np.inf]):  # the second time from the checkpoint on
        with pytest.raises(InputError, match=r"has diverged: at step 4 .* of step 2, is kept"):
            train(tmp_path, scripted(perplexities))
    text = (tmp_path / "metrics.jsonl").read_text()
    assert [
        json.loads(line, parse_constant=pytest.fail)["valid_perplexity"]
        for line in text.splitlines()
    ] == [3.0, None]
    assert journal.read(tmp_path)[-1]["valid_perplexity"] == np.inf
