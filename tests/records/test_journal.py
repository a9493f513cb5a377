"""The journal of a run, and what is said of a damaged one."""

import pytest

from attn_jax.errors import InputError
from attn_jax.records import journal


def test_a_last_line_that_was_not_completely_written_is_left_out(tmp_path):
    file = tmp_path / "metrics.jsonl"
    file.write_text('{"step": 2}\n{"step": 4}\n{"ste')
    assert journal.read(file) == [{"step": 2}, {"step": 4}]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('{"step": "4"}', "its step must be a whole number, got '4'"),
        ('{"step": 4.5}', "its step must be a whole number, got 4.5"),
        ('{"step": null}', "its step must be a whole number, got inf"),
        ('{"step": true}', "its step must be a whole number, got True"),
        ('{"step": 1e999}', "its step must be a whole number, got inf"),
        ('{"step": NaN}', "its step must be a whole number, got nan"),
        ('{"step": [4]}', "its step must be a whole number, got [4]"),
        ('{"step": 0}', "its step must be a whole number, got 0"),
        ('{"loss": 4}', "it has no step"),
        ("4", "it has no step"),
        ("[]", "it has no step"),
        ("null", "it has no step"),
        ('{"st', "JSONDecodeError"),
        ("", "JSONDecodeError"),
        ('{"step": ' + "4" * 5000 + "}", "ValueError"),
        ('{"step": ' + "[" * 99999, "RecursionError"),
    ],
)
def test_a_damaged_line_is_told_by_file_and_number(tmp_path, line, told):
    file = tmp_path / "metrics.jsonl"
    text = f'{{"step": 2}}\n{line}\n{{"step": 6}}\n'
    file.write_text(text)
    for use in (journal.read, lambda path: journal.truncate(path, 4)):
        with pytest.raises(InputError) as error:
            use(file)
        assert str(error.value).startswith(f"{file}: line 2 is damaged")
        assert told in str(error.value)
    assert file.read_text() == text


@pytest.mark.parametrize("content", [b"\xff\xfe\n", None])
def test_what_is_no_text_is_damaged(tmp_path, content):
    file = tmp_path / "metrics.jsonl"
    file.mkdir() if content is None else file.write_bytes(content)
    with pytest.raises(InputError, match=r"metrics\.jsonl is missing or damaged"):
        journal.read(file)
