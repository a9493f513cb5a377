"""The folder of a run."""

import os

import pytest

from attn_jax import config
from attn_jax.attention.scores import Additive
from attn_jax.errors import InputError
from attn_jax.records import journal, manifest, run_files
from attn_jax.runs.folder import alone, experiment_with, settle


def test_what_may_change_once_a_run_has_been_trained(tmp_path):
    given = {"label": "a", "seed": 1, "train.steps": 10, "train.patience": 2}
    run_files.flags(tmp_path).write_text("\n".join(config.lines(experiment_with(given))))
    assert settle(tmp_path, {"seed": 2}).seed == 2
    manifest.write(tmp_path, run_files.flags(tmp_path), run_files.flags(tmp_path).read_text())
    journal.append(tmp_path, {"step": 1})
    free = {"label": "b", "train.steps": 20, "train.patience": 0, "train.valid_every": 7}
    free |= {"train.keep": 3, "train.skip": 100}
    changed = settle(tmp_path, free)
    assert {name: config.values(changed)[name] for name in free} == free
    assert changed.seed == 1
    for other in ({"seed": 2}, {"train.clip_norm": 5}, {"train.metric": "bleu"}):
        with pytest.raises(InputError, match="holds a run with other flags"):
            settle(tmp_path, other)


def test_a_run_goes_on_with_the_same_units_alone(tmp_path):
    usual = ["--data.source_level=symbol", "--data.target_level=symbol"]
    lines = ["--model.score=additive(units=32)", *usual]
    run_files.flags(tmp_path).write_text("\n".join(lines))
    manifest.write(tmp_path, run_files.flags(tmp_path), run_files.flags(tmp_path).read_text())
    journal.append(tmp_path, {"step": 1})
    for given in ({}, {"model.score": "additive( units = 32 )"}):
        assert settle(tmp_path, given).model.score == Additive(units=32)
    for given in ({"model.score": "additive"}, {"model.score": "additive(units=33)"}):
        with pytest.raises(InputError, match=r"model\.score was 'additive\(units=32\)' and is now"):
            settle(tmp_path, given)


@pytest.mark.parametrize(
    ("make", "what"), [(os.mkfifo, "a file"), (os.symlink, "a link to nothing")]
)
def test_what_is_no_folder_cannot_hold_a_run(tmp_path, make, what):
    place = tmp_path / "place"
    make(*([tmp_path / "nothing"] if make is os.symlink else []), place)
    with pytest.raises(InputError, match=f"place is {what}, not the folder of a run"), alone(place):
        pass
