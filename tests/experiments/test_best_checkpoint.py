"""The metric by which runs keep a checkpoint, and runs that diverge, as users meet them."""

import json

import pytest

from attn_jax.config import Data, Experiment, Train
from attn_jax.data.sentences import Example
from attn_jax.data.vocabulary import LEVELS
from attn_jax.records import journal
from attn_jax.records.progress import Criterion
from attn_jax.runs.validation import compared, criterion_of, ranked_by
from tests.experiments.programs import SMALL, program, works
from tests.stages import full

pytestmark = full

SENTENCES = [Example("ein Hund", "a dog"), Example("ja", "yes")] * 2 + [
    Example("eine Katze", "a cat")
]
WORDS = [Example("hand", "HH AE1 N D")]


@pytest.mark.parametrize(
    ("examples", "level", "metric"),
    [
        (SENTENCES, "subword", "bleu"),
        (SENTENCES, "character", "bleu"),
        (WORDS, "symbol", "exact_match"),
        ([Example("3. Mai 1998", "1998-05-03")], "character", "exact_match"),
    ],
)
def test_auto_is_the_metric_by_which_reports_rank(examples, level, metric):
    data = Data(target_level=level)
    cut = LEVELS["character"]([]).cut
    examples = [Example(cut(example.source), cut(example.target)) for example in examples]
    assert ranked_by(data, examples) == Criterion(metric, larger_is_better=True)
    assert criterion_of(Experiment(data=data), examples).metric == metric
    asked = Experiment(data=data, train=Train(metric="word_error_rate"))
    assert criterion_of(asked, examples) == Criterion("word_error_rate", larger_is_better=False)
    told = [criterion.metric for criterion in compared(asked, examples)]
    assert told == ["perplexity", metric, "word_error_rate"]


def test_a_run_by_auto_goes_on_by_auto(tmp_path):
    run = f"--workdir={tmp_path}"
    works("train", run, *SMALL)
    assert "--train.metric=auto\n" in (tmp_path / "flags.txt").read_text()
    works("train", run, *SMALL, "--train.metric=auto", "--train.steps=30", "--train.valid_every=5")
    records = journal.read(tmp_path)
    assert [record["step"] for record in records] == [10, 20, 25, 30]
    assert {record["metric"] for record in records} == {"exact_match"}
    fewer = works("train", run, "--train.steps=15")
    assert "the run has done 30 steps already, more than train.steps=15" in fewer.stdout
    assert "--train.steps=30\n" in (tmp_path / "flags.txt").read_text()


@pytest.mark.parametrize("rate", ["1e10", "1e3"])
def test_a_run_that_diverges_ends_with_status_2(tmp_path, rate):
    done = program("train", f"--workdir={tmp_path}", *SMALL, f"--train.learning_rate={rate}")
    assert done.returncode == 2
    *_, line = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert "--train.learning_rate" in line
    for file in tmp_path.glob("*.json*"):
        lines = file.suffix == ".jsonl"
        for text in file.read_text().splitlines() if lines else [file.read_text()]:
            json.loads(text, parse_constant=pytest.fail)
