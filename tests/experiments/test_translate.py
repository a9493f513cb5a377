"""How `translate` reads lines, and what it does with those that are too long."""

import itertools
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from attn_jax.cli.translate import fitting, n_best
from attn_jax.config import Data
from attn_jax.data.run_vocabularies import build_vocabulary
from attn_jax.data.vocabulary import copies
from attn_jax.errors import InputError
from tests.experiments.programs import SMALL, program, works
from tests.stages import full

pytestmark = full

LINES = ["am see", "", "ein  Haus am See", "am See , ja"]


def reader(level):
    texts = ["am see ein Haus See , ja"] * 2
    source, target = (build_vocabulary(each, texts, Data(subwords=60)) for each in (level, "word"))
    return SimpleNamespace(source=source, target=target, max_length=3)


def tokens(level, lines, too_long):
    return [sentence.tokens for sentence in fitting(reader(level), lines, too_long)]


def test_lines_that_fit_stay_as_they_are(capsys):
    first, second = fitting(reader("word"), ["a  b", "c"], "refuse")
    assert (first.text, first.tokens, second.text) == ("a  b", ["a", "b"], "c")
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
    assert tokens("word", LINES, too_long) == list(map(str.split, expected))
    said = f"warning: 2 of 4 lines have more than 3 tokens and are {told}\n"
    assert capsys.readouterr().err == said


def test_the_numbers_of_an_n_best_list_stand_at_both_ends_of_a_line():
    texts = ["a ||| 0.5 ||| b", "", " ||| "]
    hypotheses = [SimpleNamespace(text=t, log_probability=-2.0, score=-0.5) for t in texts]
    for text, line in zip(texts, n_best(7, hypotheses), strict=True):
        number, rest = line.split(" ||| ", 1)
        assert (number, *rest.rsplit(" ||| ", 2)) == ("7", text, "-2.0000", "-0.5000")


@pytest.mark.parametrize("level", ["character", "symbol", "subword"])
def test_what_is_cropped_fits_at_every_level(level):
    translator = reader(level)
    for sentence in fitting(translator, [*LINES, "Жук Haus"], "crop"):
        assert len(sentence.tokens) == len(sentence.words) <= 3
        whole = translator.source.cut(sentence.text)
        assert sentence.text in (*LINES, "Жук Haus")
        assert sentence.tokens == whole.tokens[:3]


@pytest.mark.parametrize(
    ("level", "offered"),
    [
        ("word", ["V;PST", "3", "SG"]),
        ("tag", ["V;PST", "V;PST", "3"]),
        ("subword", ["V;PST"] * 3),
    ],
)
def test_a_cropped_line_offers_its_own_words_to_copy(level, offered):
    """Tags are written otherwise than they are read, so that words would have other numbers."""
    translator = reader(level)
    (cropped,) = fitting(translator, ["V;PST 3 SG Haus am See"], "crop")
    assert copies(translator.source, reader("word").target, cropped) == offered


def test_the_lines_of_a_later_buffer_are_numbered_in_the_whole_text(capsys):
    fitting(reader("word"), LINES, "skip", before=2048)
    assert capsys.readouterr().err.endswith("are skipped: 2051, 2052\n")
    with pytest.raises(InputError, match=r"^line 2051 has 4 tokens"):
        fitting(reader("word"), LINES, "refuse", before=2048)


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "copy"
    works("train", f"--workdir={folder}", "--data.name=copy", "--data.max_length=9", *SMALL)
    return folder


def test_each_line_is_answered_before_the_next_is_written(workdir):
    command = [sys.executable, "-m", "attn_jax", "translate", f"--workdir={workdir}"]
    lines = ["1 2 3", "", "4 no", "1 " * 12, "5"]
    options = ["--n_best=2", "--beam_size=2", "--too_long=crop", "--min_length=1"]
    with subprocess.Popen(
        [*command, *options, "--buffer=1"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ,
    ) as running:
        answers = []
        for line, count in zip(lines, (2, 0, 3, 3, 2), strict=True):
            print(line, file=running.stdin, flush=True)
            answers.append([running.stdout.readline() for _ in range(count)])
        running.stdin.close()
        assert running.stdout.read() == ""
    assert running.returncode == 0
    assert answers[2].pop(0) == "unknown to the model: 'no'\n"
    assert answers[3].pop(0).startswith("warning: 1 of 1 lines have more than 9 tokens")
    whole = works("translate", f"--workdir={workdir}", *options, stdin="\n".join(lines))
    assert whole.stdout == "".join(itertools.chain(*answers))


def test_lines_before_the_buffer_of_a_long_one_are_translated(workdir):
    stdin = "1 2\n3\n4\n" + "1 " * 12
    done = program("translate", f"--workdir={workdir}", "--buffer=2", stdin=stdin)
    assert done.returncode == 2
    assert len(done.stdout.splitlines()) == 2
    assert "error: line 4 has 12 tokens" in done.stderr
    done = program("translate", f"--workdir={workdir}", "--buffer=0", stdin=stdin)
    assert done.returncode == 2
    assert "buffer" in done.stderr
