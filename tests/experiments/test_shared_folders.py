"""Several processes at the folders of the same runs."""

from attn_jax.runs.folder import alone
from tests.experiments.programs import SMALL, works
from tests.stages import full

pytestmark = full


def test_a_sweep_leaves_runs_alone_that_other_processes_train(tmp_path):
    root = tmp_path / "sweep"
    sweep = ("sweep", f"--workdir={root}", *SMALL, "--grid.seed=0,1", "--jobs=1")
    root.mkdir()
    with alone(root / "seed=0"):
        told = works(*sweep).stdout
    assert f"left seed=0 alone: another process is training in {root}/seed=0\n" in told
    assert "finished seed=1 (1 of 2 done" in told
    assert "left to other processes, which are training them: seed=0\n" in told
    again = works(*sweep).stdout
    assert "2 runs, 1 of them finished" in again
    assert "finished seed=0 (2 of 2 done)" in again
