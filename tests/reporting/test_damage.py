"""Runs with damaged files are left out, with the name of the file; the others are reported."""

import copy
import json
import re

import numpy as np
import pytest

from attn_jax.errors import InputError
from attn_jax.reporting import runs as reading
from attn_jax.reporting.pages import compare, write_report
from attn_jax.reporting.runs import find_runs, read_run
from attn_jax.reporting.runs_csv import write_runs
from tests.reporting.test_report import SENTENCES, write_run

MISSING = object()
VALUES = (
    *(MISSING, None, True, "text", "\ud800", 0, -1, 1.5, 10**30, 10**400),
    *(float("inf"), float("-inf"), float("nan")),
    *([], [[]], ["a"], [0] * 9, [10**30], {}, {"a": {}}),
)


def damaged(value, path=()):
    """Copies of a JSON value, each with one value in it replaced, and the path of that."""
    names = value.keys() if isinstance(value, dict) else range(len(value))
    for name in names:
        for new in VALUES:
            other = copy.copy(value)
            if new is MISSING:
                del other[name]
            else:
                other[name] = new
            yield (*path, name), new, other
        if isinstance(value[name], dict | list):
            for place, new, part in damaged(value[name], (*path, name)):
                other = copy.copy(value)
                other[name] = part
                yield place, new, other


@pytest.mark.parametrize(
    ("name", "level"),
    [
        ("evaluation.test.json", "symbol"),
        ("evaluation.test.json", "word"),
        ("metrics.jsonl", "word"),
        ("predictions.test.jsonl", "symbol"),
    ],
)
def test_any_wrong_value_is_refused_or_harmless(tmp_path, name, level):
    """Whatever stands in place of any value, at any depth, or if it is missing."""
    write_run(tmp_path / "a", "dot", 0, 50.0, level=level)
    write_run(tmp_path / "b", "dot", 1, 60.0, level=level)
    whole, file = read_run(tmp_path / "b"), tmp_path / "a" / name
    lines = list(map(json.loads, file.read_text().splitlines() if "jsonl" in name else []))
    reasons, accepted = [], 0
    for _, _, content in damaged(lines or json.loads(file.read_text())):
        parts = content if lines else [content]
        file.write_text("\n".join(map(json.dumps, parts)) + "\n", "utf-8")
        try:
            run = read_run(tmp_path / "a")
        except InputError as error:
            reasons.append(str(error))
            continue
        accepted += 1
        comparisons = list(compare([run, whole]))
        write_runs(comparisons, tmp_path)
        for comparison in comparisons:
            "".join([comparison.quality.markdown(), comparison.cost.markdown()]).encode()
    # A text that is lost does not fit the evaluation, which is then named as well.
    assert not [why for why in reasons if str(tmp_path / "a") not in why]
    assert sum(str(file) in why for why in reasons) > 0.9 * len(reasons)
    assert len(reasons) > accepted > 0


@pytest.mark.parametrize(
    ("name", "old", "new", "told"),
    [
        ("predictions.test.jsonl", '"target"', '"goal"', "line 1 target is missing"),
        ("predictions.test.jsonl", "[2, 1, 0]", "[2, 1]", "line 3 gold must be a source position"),
        ("predictions.test.jsonl", "[2, 1, 0]", "[9, 1, 0]", "line 3 gold must be a source posit"),
        ("evaluation.test.json", '"heads"', '"head"', "heads is missing"),
        ("evaluation.test.json", '"signatures"', '"names"', "signatures is missing"),
        ("evaluation.test.json", '": 50.0,', '": "50",', "metrics must be a table, each"),
        ("evaluation.test.json", '"exact_match"', '"exact"', "metrics exact_match is missing"),
        (
            "evaluation.test.json",
            '"sentences": 3',
            '"sentences": 4',
            "is of 4 sentences, but 3 are",
        ),
        ("metrics.jsonl", "valid_exact_match", "exact", "line 1 valid_exact_match is missing"),
        ("metrics.jsonl", "steps_per_second", "speed", "line 1 steps_per_second is missing"),
        ("metrics.jsonl", '"step": 20', '"step": "20"', "line 2 is damaged: its step must be a"),
        (
            "metrics.jsonl",
            '"step": 20',
            '"step": 10',
            "line 2 step must be larger than that before",
        ),
        ("metrics.jsonl", '"step": 20', '"step": ' + "2" * 5000, "line 2 is damaged"),
        ("metrics.jsonl", '"step": 20', '"step": 20, "a": ' + "[" * 99999, "line 2 is damaged"),
        ("flags.txt", "--model.cell=gru", "--model.cells=gru", "unknown option 'model.cells'"),
        ("flags.txt", "bleu_tokenizer=13a", "bleu_tokenizer=14a", "BLEU tokenisation '14a'"),
        ("flags.txt", "model.score=dot", "model.score=do(t", "malformed score"),
        ("flags.txt", "train.metric=auto", "train.metric=luck", "unknown metric 'luck'"),
    ],
)
def test_a_run_with_one_wrong_value_is_left_out_by_name(tmp_path, name, old, new, told):
    write_run(tmp_path / "a", "dot", 0, 50.0)
    write_run(tmp_path / "b", "dot", 1, 60.0)
    file = tmp_path / "a" / name
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new) + "\n")
    (run,), left_out = find_runs(tmp_path)
    assert run.seed == 1
    why = left_out[tmp_path / "a"]
    assert told in why
    assert str(tmp_path / "a") in why


WEIGHTS = [np.ones((1, 1, len(one["hypothesis"]) + 1, len(one["source"]))) for one in SENTENCES]


@pytest.mark.parametrize(
    "weights",
    [
        [],
        [*WEIGHTS, WEIGHTS[0]],
        WEIGHTS[::-1],
        [one[0] for one in WEIGHTS],
        [one[:, :, :, :-1] for one in WEIGHTS],
        [WEIGHTS[0], *(np.repeat(one, 2, axis=1) for one in WEIGHTS[1:])],
        [one[:, :0] for one in WEIGHTS],
        [one.astype(int) for one in WEIGHTS],
        [one.astype(str) for one in WEIGHTS],
        [one.astype(object) for one in WEIGHTS],
    ],
)
def test_weights_of_other_sentences_are_refused(tmp_path, weights):
    write_run(tmp_path / "a", "dot", 0, 50.0)
    file = tmp_path / "a" / "alignments.test.npz"
    np.savez(file, *WEIGHTS[:2])  # not of all sentences
    assert len(read_run(tmp_path / "a").weights) == 2
    np.savez(file, *weights)
    with pytest.raises(InputError, match=re.escape(str(file))):
        read_run(tmp_path / "a")


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\n", b"[]", b'"a"', b"1e999", b"null", None])
@pytest.mark.parametrize(
    "name",
    [
        "flags.txt",
        "evaluation.test.json",
        "metrics.jsonl",
        "predictions.test.jsonl",
        "alignments.test.npz",
    ],
)
def test_a_file_of_other_content_or_a_folder_leaves_only_its_run_out(tmp_path, name, content):
    write_run(tmp_path / "a", "dot", 0, 50.0)
    write_run(tmp_path / "b", "dot", 1, 60.0)
    file = tmp_path / "a" / name
    file.unlink()
    if content is None:
        file.mkdir()
    else:
        file.write_bytes(content)
    (run,), left_out = find_runs(tmp_path)
    assert run.seed == 1
    assert list(left_out) == [tmp_path / "a"]
    if not file.is_dir():
        assert str(file) in left_out[tmp_path / "a"]


def test_a_run_that_may_not_be_read_is_left_out(tmp_path, monkeypatch):
    write_run(tmp_path / "a", "dot", 0, 50.0)
    write_run(tmp_path / "b", "dot", 1, 60.0)

    def read(path):
        if path.parent == tmp_path / "a":
            raise PermissionError(13, "Permission denied", str(path))
        return journal(path)

    journal = reading.read
    monkeypatch.setattr(reading, "read", read)
    (run,), left_out = find_runs(tmp_path)
    assert run.seed == 1
    assert "Permission denied" in left_out[tmp_path / "a"]


def test_seeds_whose_gold_differs_are_reported(tmp_path):
    """As after damage: accuracy by position is drawn where all seeds have it."""
    for seed, gold in enumerate(([1, 0], [0, 0], None)):
        run = tmp_path / str(seed)
        write_run(run, "dot", seed, 50.0)
        said = [SENTENCES[0] | {"gold": gold}]
        (run / "predictions.test.jsonl").write_text(json.dumps(said[0]))
        np.savez(run / "alignments.test.npz", WEIGHTS[0])
        evaluation = json.loads((run / "evaluation.test.json").read_text()) | {"sentences": 1}
        (run / "evaluation.test.json").write_text(json.dumps(evaluation))
    runs, left_out = find_runs(tmp_path)
    assert not left_out
    assert "Accuracy by source" not in write_report(compare(runs), tmp_path).read_text()
    assert "Accuracy by source" in write_report(compare(runs[:2]), tmp_path).read_text()
