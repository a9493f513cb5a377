"""The folder of a run."""

import os

import pytest

from attn_jax import config, run_files
from attn_jax.errors import InputError
from experiments.folder import alone, experiment_with, settle


def test_what_may_change_once_a_run_has_been_trained(tmp_path):
    given = {"label": "a", "seed": 1, "train.steps": 10, "train.patience": 2}
    run_files.flags(tmp_path).write_text("\n".join(config.lines(experiment_with(given))))
    assert settle(tmp_path, {"seed": 2}).seed == 2
    run_files.journal(tmp_path).write_text("{}\n")
    changed = settle(tmp_path, {"label": "b", "train.steps": 20, "train.patience": 0})
    assert (changed.label, changed.train.steps, changed.train.patience) == ("b", 20, 0)
    assert changed.seed == 1
    for other in ({"seed": 2}, {"train.steps": 5}):
        with pytest.raises(InputError, match="holds a run with other flags"):
            settle(tmp_path, other)


@pytest.mark.parametrize(
    ("make", "what"), [(os.mkfifo, "a file"), (os.symlink, "a link to nothing")]
)
def test_what_is_no_folder_cannot_hold_a_run(tmp_path, make, what):
    place = tmp_path / "place"
    make(*([tmp_path / "nothing"] if make is os.symlink else []), place)
    with pytest.raises(InputError, match=f"place is {what}, not the folder of a run"), alone(place):
        pass
