"""Tables in LaTeX, figures in vectors, and pairs of systems, for a paper."""

import csv
import json
import re
import shutil
import subprocess

import numpy as np
import pytest
from matplotlib.figure import Figure

from attn_jax.drawing import alignments
from attn_jax.drawing.style import ONE_COLUMN, TWO_COLUMNS, save
from attn_jax.errors import InputError
from attn_jax.evaluation.significance import holm
from attn_jax.reporting.curves import draw, learning
from attn_jax.reporting.paper import HEAD
from attn_jax.reporting.printing import latex
from attn_jax.reporting.report import report
from attn_jax.reporting.runs import find_runs
from attn_jax.reporting.systems import by_system
from tests.reporting.test_report import write_run

SENTENCES = 60


def widen(folder, hits):
    """Gives a run of `write_run` more test sentences, the first of which it gets right."""
    sentences = []
    for number in range(SENTENCES):
        target = [*"abc"[: number % 3 + 1]]
        hypothesis = target if number < hits else ["d"]
        sentences.append(
            {
                "source": target[::-1],
                "target": target,
                "hypothesis": hypothesis,
                "text_tokens": hypothesis,
                "gold": list(range(len(target)))[::-1],
                "source_text": " ".join(target[::-1]),
                "reference": " ".join(target),
                "text": " ".join(hypothesis),
            }
        )
    (folder / "predictions.test.jsonl").write_text("\n".join(map(json.dumps, sentences)))
    shapes = [(len(one["hypothesis"]) + 1, len(one["source"])) for one in sentences]
    np.savez(folder / "alignments.test.npz", *(np.full((1, 1, *shape), 0.5) for shape in shapes))
    file = folder / "evaluation.test.json"
    evaluation = json.loads(file.read_text()) | {"sentences": SENTENCES}
    evaluation["heads"] = evaluation["heads"][:1]
    evaluation["metrics"]["exact_match"] = 100 * hits / SENTENCES
    file.write_text(json.dumps(evaluation))


@pytest.fixture
def root(tmp_path):
    for score, hits in {"additive": 58, "general": 57, "dot": 40, "last": 5}.items():
        for seed in (0, 1):
            folder = tmp_path / f"{score}-{seed}"
            write_run(folder, score, seed, 90.0)
            widen(folder, hits - seed)
    return tmp_path


def rows(text, label):
    """The cells of the rows of a table, heading included."""
    (table,) = (part for part in text.split(r"\begin{table") if rf"\label{{tab:{label}}}" in part)
    (inside,) = re.findall(r"\\toprule\n(.*)\\bottomrule", table, re.DOTALL)
    lines = inside.replace("\\midrule\n", "").splitlines()
    assert all(line.endswith(r" \\") for line in lines)
    return [line.removesuffix(r" \\").split(" & ") for line in lines]


def test_the_best_is_bold_and_differences_from_the_best_are_marked(root):
    page, _ = report(root, formats=["latex"]).paper
    text = page.read_text()
    assert text.startswith(HEAD)
    heading, *cells = rows(text, "reverse-quality")
    exact = {row[0]: row[heading.index(r"exact \%")] for row in cells}
    assert exact == {
        "additive": r"\textbf{95.83} $\pm$ 1.18$^{\dagger}$",
        "general": r"94.17 $\pm$ 1.18",
        "dot": r"65.83 $\pm$ 1.18$^{***}$",
        "last": r"7.50 $\pm$ 1.18$^{***}$",
    }
    equal = [row[heading.index("ppl")] for row in cells]
    assert equal == [r"\textbf{110.00} $\pm$ 0.00"] * 4
    assert not any("textbf" in row[heading.index("shift")] for row in cells)


def test_a_caption_says_how_significance_was_tested_and_what_runs_cost(root):
    text = report(root, formats=["latex"]).paper[0].read_text()
    (caption,) = re.findall(r"\\caption\{(reverse\. Quality.*)\}", text)
    for told in (
        r"60 test sentences; mean $\pm$ standard deviation over seeds 0, 1.",
        r"Exact match: * p $<$ 0.05, ** p $<$ 0.01, *** p $<$ 0.001",
        r"$\dagger$ additive (approximate randomisation, two-sided, 10,000 draws",
        "Holm-adjusted for 3 comparisons",
        "Budget of a run: 20 steps, 10 seconds.",
        "Decoding: greedy.",
    ):
        assert told in caption


def test_one_p_value_is_not_adjusted(root):
    for left_out in ("dot", "last"):
        for seed in (0, 1):
            shutil.rmtree(root / f"{left_out}-{seed}")
    text = report(root, formats=["latex"]).paper[0].read_text()
    assert "over the sentences of all shared seeds). Budget" in text
    assert "adjusted" not in text


def test_another_baseline_moves_the_marks(root):
    text = report(root, "dot", formats=["latex"]).paper[0].read_text()
    heading, *cells = rows(text, "reverse-quality")
    marks = {row[0]: re.findall(r"\^\{(.*)\}", row[heading.index(r"exact \%")]) for row in cells}
    assert marks == {"additive": ["***"], "general": ["***"], "dot": [r"\dagger"], "last": ["***"]}
    with pytest.raises(InputError, match=r"unknown system for baseline 'none'; allowed: additive"):
        report(root, "none", formats=["latex"])


def test_too_few_sentences_mark_nothing(tmp_path):
    write_run(tmp_path / "a", "additive", 0, 90.0)
    write_run(tmp_path / "b", "last", 0, 40.0)
    text = report(tmp_path, formats=["latex"]).paper[0].read_text()
    assert "No difference is marked: 3 test sentences are too few" in text
    assert not re.search(r"\^\{\*", text)


def test_each_pair_is_a_row_of_data(root):
    _, path = report(root, formats=["latex"]).paper
    with path.open() as file:
        pairs = {(row["first"], row["second"]): row for row in csv.DictReader(file)}
    assert len(pairs) == 6
    pair = pairs["additive", "dot"]
    assert (pair["metric"], pair["seeds"]) == ("exact_match", "2")
    assert float(pair["difference"]) == pytest.approx(30, abs=0.01)
    adjusted = holm([float(row["p"]) for row in pairs.values()])
    assert [float(row["p_holm"]) for row in pairs.values()] == pytest.approx(adjusted)
    assert float(pairs["additive", "general"]["p_holm"]) > 0.05 > float(pair["p_holm"])


def test_p_values_are_adjusted_as_holm_did():
    """An example of Wright 1992, Biometrics 48: 0.01, 0.04, 0.03, 0.005 of four tests."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.4, np.nan, 0.9]) == pytest.approx([0.8, np.nan, 0.9], nan_ok=True)


def test_figures_are_vectors_of_one_and_two_columns(root):
    paper = report(root, formats=["pdf", "svg"]).paper
    kinds = ("scores", "length", "learning", "position", "alignment", "steps")
    widths = ("one-column", "two-columns")
    names = {
        f"reverse-{kind}-{width}.{end}"
        for kind in kinds
        for width in widths
        for end in ("pdf", "svg")
    }
    names |= {"reverse-beside-two-columns.pdf", "reverse-beside-two-columns.svg"}
    assert {path.name for path in paper} == names
    for path in paper:
        limit = 72 * (ONE_COLUMN if "one-column" in path.name else TWO_COLUMNS).width
        if path.suffix == ".pdf":
            content = path.read_bytes()
            (width,) = re.findall(rb"/MediaBox \[ ?0 0 ([\d.]+)", content)
            assert b"/Type3" not in content
            assert b"/FontFile2" in content  # an embedded TrueType font
        else:
            (width,) = re.findall(r'<svg [^>]*width="([\d.]+)pt"', path.read_text()[:2000])
        assert 72 < float(width) <= limit + 0.1, path.name


def test_the_same_figure_is_the_same_file(tmp_path):
    weights = np.ones((1, 1))
    for name in ("one", "two"):
        for kind in ("pdf", "svg"):
            figure = alignments.heat_map(weights, ["a"], ["b"], "title", ONE_COLUMN)
            save(figure, tmp_path / f"{name}.{kind}")
    for kind in ("pdf", "svg"):
        assert (tmp_path / f"one.{kind}").read_bytes() == (tmp_path / f"two.{kind}").read_bytes()


def test_tokens_that_could_not_be_read_are_not_drawn_for_a_narrow_column():
    assert alignments.is_legible(ONE_COLUMN, ["a"] * 12, ["b"])
    assert not alignments.is_legible(ONE_COLUMN, ["a"] * 40, ["b"])
    assert alignments.is_legible(TWO_COLUMNS, ["a"] * 35, ["b"])


@pytest.mark.parametrize("page", [ONE_COLUMN, TWO_COLUMNS])
def test_a_figure_has_a_title_and_its_texts_do_not_overlap(root, page):
    """Title, axes and legend each have a place of their own."""
    charts = list(learning(by_system(find_runs(root)[0])))
    figure = draw("Learning curves", charts, page)
    assert isinstance(figure, Figure)
    figure.draw_without_rendering()
    assert figure.get_suptitle() == "Learning curves"
    (legend,) = figure.legends
    boxes = [axes.get_tightbbox() for axes in figure.axes]
    boxes += [legend.get_window_extent(), figure._suptitle.get_window_extent()]
    for nth, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:nth])
        assert figure.bbox.padded(1).containsx(box.x0)
        assert figure.bbox.padded(1).containsx(box.x1)


def test_a_text_shows_all_its_signs():
    assert latex("50 % of a_b & {c} # $5 ~ ^ \\ <|>") == (
        r"50 \% of a\_b \& \{c\} \# \$5 \textasciitilde{} \textasciicircum{} \textbackslash{} "
        r"$<$$|$$>$"
    )


def test_an_unknown_format_is_refused(root):
    with pytest.raises(InputError, match=r"unknown format 'pdg' \(did you mean pdf\?\)"):
        report(root, formats=["pdg"])


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="pdflatex is not installed")
def test_the_tables_and_figures_compile(root):
    report(root, formats=["latex", "pdf"])
    folder = root / "paper"
    (folder / "paper.tex").write_text(
        r"\documentclass[twocolumn]{article}\usepackage[T1]{fontenc}\usepackage{booktabs,graphicx}"
        r"\begin{document}\input{report}\end{document}"
    )
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-2000:]
    assert (folder / "paper.pdf").is_file()
