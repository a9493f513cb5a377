"""Digests in JSON, by which a change of any bit is seen."""

import json
import math

import pytest

from attn_jax.errors import InputError
from attn_jax.records import journal
from attn_jax.records.seals import dumps, loads, opened, sealed

RECORD = {"step": 20, "valid_bleu": 31.25, "loss": 1e-07, "bad": math.inf, "of": {"a": [1, None]}}
FACTS = {"best": [-math.inf, 0.5], "best_step": 0}


def test_a_table_is_opened_as_it_was_sealed():
    assert loads(dumps(RECORD), "x") == RECORD
    assert opened(json.loads(json.dumps(sealed(FACTS))), "x") == FACTS


def test_what_is_no_table_or_was_written_by_hand_has_no_digest():
    assert opened({"step": 3}, "x") == {"step": 3}
    assert opened([3], "x") == [3]
    digest = sealed(FACTS)["digest"]
    with pytest.raises(InputError, match="x is damaged: it has changed: remove it"):
        opened(FACTS | {"digest": digest[:15]}, "x", ": remove it")


def test_no_bit_changes_in_silence():
    text, refused = dumps(RECORD).encode(), 0
    for place in range(len(text)):
        for bit in range(8):
            flipped = bytearray(text)
            flipped[place] ^= 1 << bit
            try:
                read = loads(flipped.decode(), "x")
            except (InputError, ValueError):
                refused += 1
            else:
                assert read == RECORD, flipped
    assert refused > 0.9 * 8 * len(text)


def test_a_journal_names_the_line_that_has_changed(tmp_path):
    file = tmp_path / "metrics.jsonl"
    for step in (2, 4, 6):
        journal.append(file, {"step": step, "loss": 0.5})
    assert [line["step"] for line in journal.read(file)] == [2, 4, 6]
    assert journal.read(file)[0] == {"step": 2, "loss": 0.5}
    lines = file.read_text().splitlines()
    lines[1] = lines[1].replace("0.5", "0.7")
    file.write_text("\n".join(lines) + "\n")
    with pytest.raises(InputError, match=r"metrics.jsonl: line 2 is damaged: it has changed"):
        journal.read(file)
