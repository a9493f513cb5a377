"""Runs that cannot be read are left out, with the name of the file; the others are reported."""

import json

import numpy as np
import pytest

from attn_jax.records import manifest
from attn_jax.reporting.comparisons import compare
from attn_jax.reporting.report_md import write_report
from attn_jax.reporting.runs import find_runs
from tests.reporting.test_report import SENTENCES, write_run


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("--model.cell=gru", "--model.cells=gru", "unknown option 'model.cells'"),
        ("bleu_tokenizer=13a", "bleu_tokenizer=14a", "BLEU tokenisation '14a'"),
        ("model.score=dot", "model.score=do(t", "malformed score"),
        ("train.metric=auto", "train.metric=luck", "unknown metric 'luck'"),
    ],
)
def test_a_run_with_an_option_of_no_meaning_here_is_left_out_by_name(tmp_path, old, new, told):
    """Such as one of a later version, or a tokenizer that is not installed."""
    write_run(tmp_path / "a", "dot", 0, 50.0)
    write_run(tmp_path / "b", "dot", 1, 60.0)
    file = tmp_path / "a" / "flags.txt"
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new) + "\n")
    (run,), left_out = find_runs(tmp_path)
    assert run.seed == 1
    why = left_out[tmp_path / "a"]
    assert told in why
    assert str(tmp_path / "a") in why


def test_a_run_that_may_not_be_read_is_left_out(tmp_path, monkeypatch):
    write_run(tmp_path / "a", "dot", 0, 50.0)
    write_run(tmp_path / "b", "dot", 1, 60.0)

    def read(workdir, *given):
        if workdir == tmp_path / "a":
            raise PermissionError(13, "Permission denied", str(workdir))
        return content(workdir, *given)

    content = manifest.content
    monkeypatch.setattr(manifest, "content", read)
    (run,), left_out = find_runs(tmp_path)
    assert run.seed == 1
    assert "Permission denied" in left_out[tmp_path / "a"]


def test_seeds_whose_gold_differs_are_reported(tmp_path):
    """Accuracy by position is drawn where all seeds have it."""
    for seed, gold in enumerate(([1, 0], [0, 0], None)):
        run = tmp_path / str(seed)
        write_run(run, "dot", seed, 50.0)
        said = [SENTENCES[0] | {"gold": gold}]
        (run / "predictions.test.jsonl").write_text(json.dumps(said[0]))
        np.savez(run / "alignments.test.npz", np.ones((1, 1, 3, 2)))
        evaluation = json.loads((run / "evaluation.test.json").read_text()) | {"sentences": 1}
        (run / "evaluation.test.json").write_text(json.dumps(evaluation))
    runs, left_out = find_runs(tmp_path)
    assert not left_out
    assert "Accuracy by source" not in write_report(compare(runs), tmp_path).read_text()
    assert "Accuracy by source" in write_report(compare(runs[:2]), tmp_path).read_text()
