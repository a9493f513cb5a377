"""Several processes at the folders of the same runs."""

import fcntl

from attn_jax.runs.folder import alone
from tests.experiments.programs import SMALL, works
from tests.stages import full

pytestmark = full


def test_a_sweep_leaves_runs_alone_that_other_processes_train(tmp_path):
    root = tmp_path / "sweep"
    sweep = ("sweep", f"--workdir={root}", *SMALL, "--grid.seed=0,1,2", "--jobs=1")
    root.mkdir()
    log = root / "seed=1.log"
    with alone(root / "seed=0"), log.open("a+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # as another sweep does
        held.write("its line\n")
        held.flush()
        told = works(*sweep).stdout
        assert log.read_text() == "its line\n"
    alone_because = f"alone: another process is training in {root}/seed="
    assert f"left seed=0 {alone_because}0\n" in told
    assert f"left seed=1 {alone_because}1\n" in told
    assert "finished seed=2 (1 of 3 done, about " in told
    assert "left to other processes, which are training them: seed=0; seed=1\n" in told
    again = works(*sweep).stdout
    assert "3 runs, 1 of them finished" in again
    lines = [line.partition(" (")[0] for line in again.splitlines()]
    assert lines[2:5] == ["finished seed=0", "started seed=1", "finished seed=1"]
