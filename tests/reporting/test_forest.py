"""Forest plots of final scores: their numbers, and whether they can be read."""

import itertools
import json

import numpy as np
import pytest
from scipy import stats

from attn_jax.drawing.alignments import SMALLEST
from attn_jax.drawing.style import ONE_COLUMN, SCREEN, TWO_COLUMNS
from attn_jax.records import strict_json
from attn_jax.reporting import forest
from attn_jax.reporting.comparisons import Comparison, compare
from attn_jax.reporting.forest import Score
from attn_jax.reporting.report_html import told_scores
from attn_jax.reporting.runs import find_runs
from attn_jax.reporting.tables import quality
from tests.reporting.test_paper import SENTENCES, widen
from tests.reporting.test_report import write_run

SEEDS = 80.0, 82.0, 87.0
STUDENT = 4.30265  # of two degrees of freedom, from a printed table of t, 0.975


@pytest.fixture
def root(tmp_path):
    """A system with three seeds, one with a single one, and two that do not vary."""
    for seed, exact in enumerate(SEEDS):
        write_run(tmp_path / f"a{seed}", "additive", seed, exact)
        widen(tmp_path / f"a{seed}", 50)
        file = tmp_path / f"a{seed}" / "evaluation.test.json"
        evaluation = json.loads(file.read_text())
        evaluation["metrics"]["exact_match"] = exact
        file.write_text(json.dumps(evaluation))
    others = [("dot", 0, 40), ("general", 0, 30), ("general", 1, 30), ("last", 0, 0)]
    for score, seed, hits in others:
        write_run(tmp_path / f"{score}{seed}", score, seed, 0.0)
        widen(tmp_path / f"{score}{seed}", hits)
    return tmp_path


def comparison_of(root) -> Comparison:
    (comparison,) = compare(find_runs(root)[0])
    return comparison


def test_the_interval_is_over_seeds_or_of_one_run_over_sentences(root):
    comparison = comparison_of(root)
    told = forest.scores(comparison)
    assert list(told) == ["additive", "dot", "general", "last"]
    several = told["additive"]
    half = STUDENT * np.std(SEEDS, ddof=1) / np.sqrt(3)
    assert several.seeds == list(SEEDS)
    assert several[1:] == pytest.approx((83, 83 - half, 83 + half), abs=1e-3)
    assert several.text == "83.0 (74.0 to 92.0)"
    assert quality(comparison)["95 % of exact %"][0] == "74.0 to 92.0"
    # Bootstrap samples of hits are of the binomial distribution.
    one = told["dot"]
    low, high = stats.binom.ppf((0.025, 0.975), SENTENCES, 40 / SENTENCES)
    assert one.single
    sentence = 100 / SENTENCES
    assert (one.low, one.high) == pytest.approx((low * sentence, high * sentence), abs=sentence)
    assert [told[name].text for name in ("general", "last")] == ["50.0", "0.0"]


def test_a_single_run_on_few_sentences_has_no_interval(tmp_path):
    write_run(tmp_path / "a", "additive", 0, 90.0)
    (told,) = forest.scores(comparison_of(tmp_path)).values()
    assert told.single
    assert np.isnan((told.low, told.high)).all()


def test_a_caption_says_of_what_the_intervals_are():
    several, one = Score([80.0, 82.0], 81.0, 70.0, 92.0), Score([80.0], 80.0, 75.0, 85.0)
    for told, says in (
        ([several], (True, False, False)),
        ([one], (False, True, False)),
        ([several, one, Score([1.0], 1.0, np.nan, np.nan)], (True, True, True)),
    ):
        caption = forest.about(dict(zip("abc", told, strict=False)))
        assert tuple(part in caption for part in ("(Student)", "(bootstrap)", "No line:")) == says
        assert "p-values" in caption


def test_an_axis_holds_all_that_is_drawn():
    low, high, ticks = forest.scale({"a": Score([97.0, 99.0], 98.0, 85.3, 100.0)})
    assert low < 85.3
    assert high == 100
    assert ticks == [85, 90, 95, 100]
    low, high, ticks = forest.scale({"a": Score([100.0], 100.0, np.nan, np.nan)})
    assert (low, high) == (99.5, 100)
    assert ticks[-1] == 100


def many(name):
    """Scores of forty systems."""
    means = np.linspace(30, 20, 40)
    return {
        name.format(nth): Score([mean - 0.3, mean + 0.3], mean, mean - 1, mean + 1)
        for nth, mean in enumerate(means)
    }


LONG = "scaled_dot(bias=true), window=local_predictive(sigma={0}), heads={0}"


@pytest.mark.parametrize(
    ("page", "name"), [(ONE_COLUMN, "system {}"), (TWO_COLUMNS, LONG), (SCREEN, LONG)]
)
def test_forty_systems_can_be_read(page, name):
    told = many(name)
    assert page == SCREEN or forest.is_legible(told, page)
    assert not forest.is_legible(many(LONG), ONE_COLUMN)
    figure = forest.draw(told, "bleu", page)
    figure.draw_without_rendering()
    (axes,) = figure.axes
    assert axes.get_xlabel() == "test BLEU"
    labels = axes.get_yticklabels()
    assert [text.get_text().replace("\n", " ") for text in labels] == list(told)
    assert [text.get_text() for text in axes.texts] == [score.text for score in told.values()]
    assert all(text.get_fontsize() >= SMALLEST for text in labels)
    boxes = [text.get_window_extent() for text in labels]
    assert all(one.y0 >= two.y1 - 1 for one, two in itertools.pairwise(boxes))
    assert figure.bbox.padded(1).containsx(min(box.x0 for box in boxes))
    assert axes.get_window_extent().width > figure.bbox.width / 4
    means = [line for line in axes.lines if line.get_marker() == "s"]
    assert [line.get_xdata()[0] for line in means] == [score.mean for score in told.values()]
    (reference,) = [line for line in axes.lines if line.get_marker() == "None"]
    assert reference.get_xdata()[0] == 30


def test_the_page_has_the_same_numbers(root):
    told = strict_json.plain(told_scores(comparison_of(root)))
    assert told["title"] == "Test exact match, %"
    assert [row["name"] for row in told["rows"]] == ["additive", "dot", "general", "last"]
    assert told["rows"][0]["text"] == "83.0 (74.0 to 92.0)"
    assert told["rows"][0]["high"] == pytest.approx(91.96, abs=0.01)
    assert told["rows"][3]["low"] is None
