"""What `translate` does with lines that are too long."""

from types import SimpleNamespace

import pytest

from attn_jax.config import Data
from attn_jax.data.vocabularies import build_vocabulary
from attn_jax.errors import InputError
from experiments.translate import fitting

LINES = ["am see", "", "ein  Haus am See", "am See , ja"]


def reader(level):
    texts = ["am see ein Haus See , ja"] * 2
    return SimpleNamespace(source=build_vocabulary(level, texts, Data(subwords=60)), max_length=3)


def texts(level, lines, too_long):
    return [sentence.text for sentence in fitting(reader(level), lines, too_long)]


def test_lines_that_fit_stay_as_they_are(capsys):
    assert texts("word", ["a  b", "c"], "refuse") == ["a  b", "c"]
    assert not capsys.readouterr().err


def test_a_long_line_is_refused_with_the_flag_that_helps():
    message = r"^line 3 has 4 tokens, more than the 3 .*, or give --too_long=crop or skip$"
    with pytest.raises(InputError, match=message):
        fitting(reader("word"), LINES, "refuse")


@pytest.mark.parametrize(
    ("too_long", "expected", "told"),
    [
        ("crop", ["am see", "", "ein Haus am", "am See ,"], "cropped to that many: 3, 4"),
        ("skip", ["am see", "", "", ""], "skipped: 3, 4"),
    ],
)
def test_long_lines_are_cropped_or_skipped_and_counted(capsys, too_long, expected, told):
    assert texts("word", LINES, too_long) == expected
    said = f"warning: 2 of 4 lines have more than 3 tokens and are {told}\n"
    assert capsys.readouterr().err == said


@pytest.mark.parametrize("level", ["character", "symbol", "subword"])
def test_what_is_cropped_fits_at_every_level(level):
    translator = reader(level)
    for sentence in fitting(translator, [*LINES, "Жук Haus"], "crop"):
        assert len(sentence.tokens) == len(sentence.words) <= 3
        assert sentence.text in (*LINES, translator.source.join(sentence.tokens))
