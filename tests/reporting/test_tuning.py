"""What a report tells of the search for the setting of each system."""

import json
from types import SimpleNamespace

import pytest

from attn_jax.errors import InputError
from attn_jax.records import run_files
from attn_jax.reporting.runs import find_runs
from attn_jax.reporting.tuning import tuning


def trials(values, steps=100):
    """Trials as a search tells them; those without a value have failed."""
    told = {}
    for number, value in enumerate(values, start=1):
        ended = {} if value is None else {"metric": "bleu", "value": value}
        told[f"trial={number}"] = {"steps": steps, "options": {}, **ended}
    return told


def systems(root, **found):
    """Systems with one run each, of which some were tuned, and the file of the search."""
    told = {
        name: {"trials": of, "best": "", "runs": [f"{name},seed=0"]} for name, of in found.items()
    }
    run_files.search(root).write_text(json.dumps({"space": {}, "systems": told}))
    labels = [*found, *(["plain"] if len(found) == 1 else [])]
    return {
        label: [SimpleNamespace(folder=root / f"{label},seed=0", trained=True)] for label in labels
    }


def test_it_tells_what_each_system_got_and_the_expected_best(tmp_path):
    found = systems(tmp_path, additive=trials([1, 2, 3]), dot=trials([4, 4, 4]))
    table, (about,) = tuning(found)
    heading = ["system", "trials", "steps", "best of 1", "best of 2", "best of 3"]
    assert list(table) == heading
    assert table.to_numpy().tolist() == [
        ["additive", "3", "300", "2.00", "2.44", "2.67"],
        ["dot", "3", "300", "4.00", "4.00", "4.00"],
    ]
    assert "expected best validation BLEU of n trials" in about


def test_it_says_where_systems_did_not_get_the_same(tmp_path):
    table, notes = tuning(
        systems(tmp_path, additive=trials([1, None, 3]), dot=trials([4, 4, 4], 90))
    )
    assert table.iloc[0, :3].to_list() == ["additive", "3 (1 failed)", "300"]
    assert [note.partition(". ")[0] for note in notes[1:]] == [
        "Unequal tuning, trials that have ended: from 2 (additive) to 3 (dot)",
        "Unequal tuning, steps: from 270 (dot) to 300 (additive)",
    ]


def test_a_system_that_was_not_tuned_is_told_beside_one_that_was(tmp_path):
    table, notes = tuning(systems(tmp_path, additive=trials([1, 2])))
    assert table.iloc[1].to_list() == ["plain", "0", "0", "–", "–"]  # noqa: RUF001
    assert notes[1].startswith("Unequal tuning, trials that have ended: from 0 (plain)")


def test_nothing_is_told_where_nothing_was_tuned(tmp_path):
    of = systems(tmp_path, additive=trials([1]))
    run_files.search(tmp_path).unlink()
    assert tuning(of) is None


@pytest.mark.parametrize("text", ["{", "{}", '{"systems": {"a": {"runs": ["additive,seed=0"]}}}'])
def test_a_damaged_file_is_told(tmp_path, text):
    of = systems(tmp_path, additive=trials([1]))
    run_files.search(tmp_path).write_text(text)
    with pytest.raises(InputError, match=r"search\.json is missing or damaged"):
        tuning(of)


def test_trials_are_not_compared(tmp_path):
    for folder in ("trials/a", "b"):
        run_files.flags(tmp_path / folder).parent.mkdir(parents=True)
        run_files.flags(tmp_path / folder).write_text("--seed=1\n")
    assert set(find_runs(tmp_path)[1]) == {tmp_path / "trials/a", tmp_path / "b"}
    run_files.search(tmp_path).write_text("{}")
    assert set(find_runs(tmp_path)[1]) == {tmp_path / "b"}
