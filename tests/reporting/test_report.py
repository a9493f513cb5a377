"""Tables, profiles and figures from the files of made-up runs."""

import csv
import dataclasses
import io
import json
import re

import numpy as np
import pandas as pd
import pytest

from attn_jax import config
from attn_jax.drawing.style import Picture, wrapped
from attn_jax.records import changes
from attn_jax.records.changes import Change
from attn_jax.reporting import curves, profiles, tables
from attn_jax.reporting.about import about, searches, unfinished
from attn_jax.reporting.comparisons import Comparison, all_runs, compare
from attn_jax.reporting.differences import differences, of_ranks, ranks
from attn_jax.reporting.printing import (
    escaped,
    markdown,
    mean_and_deviation,
    p_cell,
    print_evaluation,
    print_table,
    strips,
)
from attn_jax.reporting.profiles import Bin, by_length, by_position, length_bins
from attn_jax.reporting.report import Report, print_report, report
from attn_jax.reporting.report_md import of_quality, seeds_drawn, write_report
from attn_jax.reporting.runs import Run, find_runs, read_run
from attn_jax.reporting.systems import by_data, by_system, names_of
from attn_jax.reporting.telling import telling_sentences

SENTENCES = [
    {"source": ["a", "b"], "target": ["b", "a"], "hypothesis": ["b", "a"], "gold": [1, 0]},
    {"source": ["c"], "target": ["c"], "hypothesis": ["d"], "gold": [0]},
    {"source": ["a", "b", "c"], "target": ["c", "b", "a"], "hypothesis": ["c"], "gold": [2, 1, 0]},
]


for sentence in SENTENCES:
    sentence["source_text"] = " ".join(sentence["source"])
    sentence["text"] = " ".join(sentence["hypothesis"])
    sentence["text_tokens"] = sentence["hypothesis"]
    sentence["reference"] = " ".join(sentence["target"])
HEADS = [
    {"layer": 1, "head": 1, "sharpness": 70.0, "alignment_accuracy": 93.2, "alignment_shift": 0},
    {"layer": 1, "head": 2, "sharpness": 30.0, "alignment_accuracy": 12.6, "alignment_shift": -1},
]


def write_run(folder, score, seed, exact, level="symbol", **more):
    folder.mkdir(parents=True, exist_ok=True)
    options = {"model.score": score, "seed": seed, "data.target_level": level} | more
    recorded = config.texts(config.values(config.Experiment()) | config.given(options))
    lines = [f"--{name}={text}" for name, text in recorded.items()]
    (folder / "flags.txt").write_text("\n".join(lines))
    names = ("exact_match", "symbol_error_rate", "bleu", "alignment_accuracy")
    metrics = {"perplexity": 200 - exact, "alignment_shift": 1}
    evaluation = {
        "metrics": metrics | dict.fromkeys(names, exact),
        "step": 10,
        "parameters": 1234,
        "heads": HEADS,
        "sentences": 3,
        "signatures": {"bleu": "nrefs:1"},
        "search": {},
    }
    (folder / "data.txt").write_text(repr([v for k, v in options.items() if k[:5] == "data."]))
    (folder / "evaluation.test.json").write_text(json.dumps(evaluation))
    (folder / "predictions.test.jsonl").write_text("\n".join(map(json.dumps, SENTENCES)))
    record = {
        "steps_per_second": 2.0,
        "target_tokens_per_second": 30.0,
        "seconds": 7.0,
        "valid_perplexity": 3.0,
        "valid_exact_match": exact,
        "valid_bleu": exact,
    }
    journal = "\n".join(json.dumps({"step": step} | record) for step in (10, 20))
    (folder / "metrics.jsonl").write_text(journal)
    alignments = [np.eye(3)[:, :2], np.ones((2, 1)), np.full((2, 3), 1 / 3)]
    heads = 2 if "model.heads" in more else 1
    weights = [np.stack([one / (n + 1) for n in range(heads)])[None] for one in alignments]
    np.savez(folder / "alignments.test.npz", *weights)


@pytest.fixture
def root(tmp_path):
    write_run(tmp_path / "a", "last", 0, 40.0)
    write_run(tmp_path / "b", "additive", 0, 90.0)
    write_run(tmp_path / "c", "additive", 1, 94.0)
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "flags.txt").write_text("--seed=0")
    return tmp_path


def test_a_run_that_diverged_is_named(root):
    (root / "d" / "metrics.jsonl").write_text('{"step": 9, "valid_perplexity": null}\n')
    _, left_out = find_runs(root)
    told = "training has diverged: its validation perplexity at step 9 is not finite"
    assert left_out == {root / "d": told}


def test_auto_is_the_metric_that_the_journal_names(root):
    file = root / "a" / "metrics.jsonl"
    last = json.loads(file.read_text().splitlines()[-1])
    runs, _ = find_runs(root)
    assert [run.criterion for run in runs] == ["exact_match"] * 3
    file.write_text(json.dumps(last | {"step": 10, "metric": "bleu"}))
    assert read_run(root / "a").criterion == "bleu"


def test_a_page_with_its_figures(root):
    runs, left_out = find_runs(root)
    assert left_out == {root / "d": "not evaluated on a test split"}
    page = write_report(compare(runs), root).read_text()
    assert (
        "| additive | 92.00 ± 2.83 | 2 | 1 | – | 66.6 to 100.0 | 108.00 ± 2.83 | 92.00 ± 2.83 | "  # noqa: RUF001
        "92.00 ± 2.83 | +1 |" in page
    )
    assert "| last | 40.00 | 1 | 1 | 1.000 | – | 160.00 | 40.00 | 40.00 | +1 |" in page  # noqa: RUF001
    assert "3 test sentences are too few to tell systems apart (p cannot be below 0.25)" in page
    assert tables.ABOUT_P in page
    assert "Decoding: greedy." in page
    assert "Options of all systems: `--data.target_level=symbol`" in page
    assert "| additive | 1,234 | 20 ± 0 | – | 2.0 ± 0.0 | 30 ± 0 | 10 ± 0 |" in page  # noqa: RUF001
    pictures = {path.name for path in root.glob("*.png")}
    kinds = ("scores", "learning", "length", "position", "alignment", "steps", "beside")
    assert pictures == {f"reverse-{kind}.png" for kind in kinds}
    assert all(f"({name})" in page for name in pictures)


def drawn(comparison):
    """The figures of quality by their kind."""
    return {one.kind: one.draw() for one in of_quality(comparison)}


def test_bands_are_the_range_over_seeds(root):
    (comparison,) = compare(find_runs(root)[0])
    page = write_report([comparison], root).read_text()
    bands = "(bands: lowest to highest over seeds)"
    assert f"*Learning curves, at the steps that all seeds reached {bands}*" in page
    for figure in drawn(comparison).values():
        assert figure._repr_png_().startswith(b"\x89PNG")  # what a notebook shows
    axes = drawn(comparison)["learning"].axes[0]
    (band,) = axes.collections  # the other system has one seed
    (path,) = band.get_paths()
    assert set(path.vertices[:, 1]) == {90.0, 94.0}
    write_run(root / "alone", "dot", 0, 50.0)
    (alone,) = compare(find_runs(root / "alone")[0])
    assert "bands" not in write_report([alone], root / "alone").read_text()


def test_a_change_of_options_is_a_line_in_figures_of_learning():
    axes = Picture().subplots()
    made = Change(30, {}, {"train.learning_rate": 1e-4}), Change(50, {}, {"train.optimizer": "sgd"})
    curves._mark_changes(axes, made, 0)
    assert [line.get_xdata()[0] for line in axes.lines] == [30, 50]
    told = [text.get_text() for text in axes.texts]
    assert told == ["train.learning_rate=0.0001", "train.optimizer=sgd"]


def test_a_run_whose_options_changed_is_another_system_that_tells_so(tmp_path):
    for name in ("a", "b"):
        write_run(tmp_path / name, "dot", 0, 50.0)
    write_run(tmp_path / "c", "dot", 0, 50.0, **{"train.learning_rate": 1e-4})
    change = Change(5, {"train.learning_rate": 0.0}, {"train.learning_rate": 1e-4})
    write_run(tmp_path / "b", "dot", 0, 50.0, **change.after)
    changes.record(tmp_path / "b", [change])
    runs, left_out = find_runs(tmp_path)
    assert not left_out
    (comparison,) = compare(runs)
    told = "train.learning_rate=0.0001 from step 5 on"
    assert set(comparison.systems) == {
        "train.learning_rate=0.0",
        f"train.learning_rate=0.0, {told}",
        "train.learning_rate=0.0001",
    }
    (alone,) = compare([run for run in runs if run.changes])
    assert f"Options that changed in the course of training: dot: {told}." in [
        *about(alone.systems, alone.profile)
    ]
    assert told in set(all_runs([comparison], tmp_path)["changes"])


def test_each_compared_run_is_a_row_of_a_frame_and_of_data(root):
    write_run(root / "e" / "f", "gmm", 7, 50.0, level="word", label="mine, 2")
    made = report(root)
    frame = made.frame
    assert list(frame.index) == ["b", "c", "a", "e/f"]
    placed = frame[["comparison", "system", "seed"]].to_numpy().tolist()
    assert placed == [
        ["reverse", "additive", 0],
        ["reverse", "additive", 1],
        ["reverse", "last", 0],
        ["reverse-2", "mine, 2", 7],
    ]
    second = frame.loc["c"]
    figures = {"rank": 1, "exact_match": 94.0, "perplexity": 106.0, "alignment_shift": 1}
    assert frame["p_vs_best"].fillna(-1).to_list() == [-1, -1, 1.0, -1]
    figures["sharpness"] = 50.0
    cost = {"parameters": 1234, "best_step": 10, "steps": 20, "steps_per_second": 2.0}
    options = {"model.score": "additive", "data.target_level": "symbol", "label": ""}
    assert second.to_dict().items() >= (figures | cost | options).items()
    assert not {"model.decoder", "heads", "signatures"} & set(frame)
    assert made.data == root / "runs.csv"
    read = pd.read_csv(made.data, index_col="folder", keep_default_na=False, na_values="")
    pd.testing.assert_frame_equal(read.fillna({"label": ""}), frame, check_dtype=False)


def test_runs_need_not_have_the_same_figures(root):
    file = root / "a" / "evaluation.test.json"
    evaluation = json.loads(file.read_text())
    del evaluation["metrics"]["alignment_accuracy"]
    file.write_text(json.dumps(evaluation))
    with report(root).data.open() as lines:
        known = {row["folder"]: row["alignment_accuracy"] for row in csv.DictReader(lines)}
    assert known == {"a": "", "b": "90.0", "c": "94.0"}


FILES = (
    "evaluation.test.json",
    "metrics.jsonl",
    "predictions.test.jsonl",
    "alignments.test.npz",
)


def test_runs_that_differ_in_the_seed_alone_are_one_system(root):
    systems = by_system(by_data(find_runs(root)[0])["reverse"])
    assert {label: [run.seed for run in runs] for label, runs in systems.items()} == {
        "additive": [0, 1],
        "last": [0],
    }
    assert sorted(telling_sentences(systems, 5)) == [0, 1, 2]


def test_runs_of_one_content_are_one_system_wherever_it_lies(tmp_path):
    for seed, (place, content) in enumerate([("/a", "one"), ("/b", "one"), ("/b", "two")]):
        folder = tmp_path / str(seed)
        write_run(folder, "dot", seed, 90.0, **{"data.name": "parallel", "data.train": place})
        (folder / "data.txt").write_text(content)
    systems = by_system(find_runs(tmp_path)[0])
    assert {label: [run.seed for run in runs] for label, runs in systems.items()} == {
        "data.train=/a": [0, 1],
        "data.train=/b": [2],
    }


def test_a_run_and_its_copy_are_one_seed(root):
    write_run(root / "z", "additive", 1, 94.0)
    runs, left_out = find_runs(root)
    assert left_out[root / "z"] == f"the same as {root / 'c'}"
    assert len(runs) == 3


def test_runs_of_one_test_text_are_compared(root):
    """Whatever they were trained on; runs with another test text are not compared with them."""
    write_run(root / "e", "dot", 0, 50.0, **{"data.examples": 77})
    write_run(root / "f", "dot", 1, 50.0)
    file = root / "f" / "predictions.test.jsonl"
    file.write_text(file.read_text().replace('"reference": "c"', '"reference": "d"'))
    first, second = by_data(find_runs(root)[0]).values()
    assert [run.brief("model.score") for run in first] == [
        "last",
        "additive",
        "additive",
        "dot",
    ]
    assert [run.seed for run in second] == [1]


def test_pairs_of_other_languages_are_not_compared(tmp_path):
    for side in ("de", "fr"):
        sides = {"data.name": "set/of_tfds", "data.source": side, "data.target": "en"}
        write_run(tmp_path / side, "dot", 0, 50.0, **sides)
    assert list(by_data(find_runs(tmp_path)[0])) == ["set/of_tfds-de-en", "set/of_tfds-fr-en"]


def test_no_two_comparisons_have_the_same_name_or_files(tmp_path):
    for nth, test in enumerate(["a/test", "b/test", "c/test-2", "a test", "a-test"]):
        folder = tmp_path / str(nth)
        write_run(folder, "dot", 0, 50.0, **{"data.name": "parallel", "data.test": test})
        file = folder / "predictions.test.jsonl"
        file.write_text(file.read_text().replace('"reference": "c"', f'"reference": "{nth}"'))
    found = by_data(find_runs(tmp_path)[0])
    assert list(found) == ["test", "test-2", "test-2-2", "a test", "a-test-2"]
    page = write_report(compare(find_runs(tmp_path)[0]), tmp_path)
    assert page.read_text().count("\n## ") == 5
    assert len(list(tmp_path.glob("*-length.png"))) == 5


def test_equal_figures_have_no_interval():
    assert tables.interval_over_seeds([99.5, 99.5]) == tables.interval_over_seeds([99.5]) == "–"  # noqa: RUF001
    assert tables.interval_over_seeds([50.0, 51.0]) == "44.1 to 56.9"


def test_learning_curves_are_over_the_steps_that_all_runs_have(tmp_path):
    for seed, steps in enumerate([(10, 15, 20, 30), (10, 20, 30)]):
        write_run(tmp_path / str(seed), "dot", seed, 50.0)
        rates = {"steps_per_second": 1.0, "target_tokens_per_second": 9.0}
        lines = (
            rates | {"step": step, "valid_perplexity": step, "valid_exact_match": step}
            for step in steps
        )
        journal = "".join(json.dumps(line) + "\n" for line in lines)
        (tmp_path / str(seed) / "metrics.jsonl").write_text(journal)
    (comparison,) = compare(find_runs(tmp_path)[0])
    axes, _ = drawn(comparison)["learning"].axes
    np.testing.assert_array_equal(axes.lines[0].get_xydata(), [[10, 10], [20, 20], [30, 30]])


def test_a_label_may_have_any_signs(tmp_path, capsys):
    write_run(tmp_path / "a", "dot", 0, 50.0, label="[ours]")
    (comparison,) = compare(find_runs(tmp_path)[0])
    print_table("quality", tables.quality(comparison))
    assert "[ours]" in capsys.readouterr().out


def test_what_stands_behind_labels_is_told(tmp_path):
    write_run(tmp_path / "a", "general", 0, 50.0, label="One", **{"model.heads": 2})
    write_run(tmp_path / "b", "additive", 0, 60.0, label="Two")
    page = write_report(compare(find_runs(tmp_path)[0]), tmp_path).read_text()
    assert "\n\nTwo: only defaults\n\nOne: `--model.score=general --model.heads=2`\n\n" in page
    (alone,) = compare([read_run(tmp_path / "a")])
    assert not any(line.startswith("One: ") for line in about(alone.systems, alone.profile))


def test_labels_name_systems_where_they_tell_them_apart(tmp_path):
    write_run(tmp_path / "a", "dot", 0, 50.0, label="One")
    write_run(tmp_path / "b", "dot", 1, 50.0, label="One")
    write_run(tmp_path / "c", "general", 0, 60.0, label="Two")
    assert set(by_system(find_runs(tmp_path)[0])) == {"One", "Two"}
    write_run(tmp_path / "d", "gmm", 0, 60.0, label="Two")
    systems = by_system(find_runs(tmp_path)[0])
    assert set(systems) == {"One", "Two, general", "Two, gmm"}
    write_run(tmp_path / "e", "additive", 0, 60.0)
    assert set(by_system(find_runs(tmp_path)[0])) == {*systems, "additive"}
    write_run(tmp_path / "f", "dot", 0, 60.0, label="additive")
    assert len(by_system(find_runs(tmp_path)[0])) == 5


def test_runs_of_other_data_are_another_system(tmp_path):
    """Also if a text was changed under the same name, which no option shows."""
    for seed, content in [(0, "one"), (1, "one"), (0, "two")]:
        write_run(tmp_path / f"{content}{seed}", "dot", seed, 50.0)
        (tmp_path / f"{content}{seed}" / "data.txt").write_text(content + "\n")
    runs, left_out = find_runs(tmp_path)
    systems = by_system(runs)
    assert not left_out
    assert {name: len(own) for name, own in systems.items()} == {
        "dot, data=one": 2,
        "dot, data=two": 1,
    }


def test_runs_of_other_code_are_another_system(tmp_path):
    """Even with the same options, as when a user edits the code and takes another folder."""
    for seed, code in [(0, "first"), (1, "first"), (0, "second")]:
        folder = tmp_path / f"{code}{seed}"
        write_run(folder, "mine:own", seed, 50.0)
        (folder / "code").mkdir()
        (folder / "code" / "mine.py").write_text(code)
    runs, left_out = find_runs(tmp_path)
    systems = by_system(runs)
    assert not left_out
    assert sorted(len(own) for own in systems.values()) == [1, 2]
    assert all(name.startswith("mine:own, code=") for name in systems)
    write_run(tmp_path / "dot", "dot", 0, 50.0)
    comparisons = list(compare(find_runs(tmp_path)[0]))
    assert all(
        name == "dot" or name.startswith("score=mine:own, code=") for name in comparisons[0].systems
    )
    assert list(all_runs(comparisons, tmp_path))[-2:] == ["model.score", "code"]


@pytest.mark.parametrize(
    ("systems", "names"),
    [
        ([{}, {"label": "additive"}], ["label=", "label=additive"]),
        (
            [{"label": "heads=2"}, {"model.heads": 2}, {"model.heads": 4}],
            ["heads=2, heads=1", "heads=2", "heads=4"],
        ),
        (
            [{"label": "x"}, {"label": "x", "model.heads": 2}, {"label": "x, heads=2"}],
            ["x, heads=1", "label=x, heads=2", "label=x, heads=2, heads=1"],
        ),
    ],
)
def test_no_name_is_that_of_two_systems(tmp_path, systems, names):
    for number, options in enumerate(systems):
        write_run(tmp_path / str(number), "additive", 0, 50.0, **options)
    assert names_of(find_runs(tmp_path)[0]) == names


@pytest.mark.parametrize("level", ["word", "character"])
def test_text_is_measured_by_bleu(tmp_path, level):
    write_run(tmp_path / "a", "dot", 0, 50.0, level=level)
    (comparison,) = compare(find_runs(tmp_path)[0])
    table = tables.length_table(comparison.profile)
    assert list(table) == ["BLEU by source tokens", "1", "2", "3"]
    assert table.to_numpy().tolist() == [["dot", "–", "–", "–"]]  # noqa: RUF001
    axes, _ = drawn(comparison)["learning"].axes
    assert axes.get_ylabel() == "validation BLEU"


def test_a_sign_that_cuts_lines_elsewhere_is_read(tmp_path):
    write_run(tmp_path / "a", "dot", 0, 50.0)
    said = [sentence | {"text": "a\u2028b"} for sentence in SENTENCES]
    lines = (json.dumps(sentence, ensure_ascii=False) + "\n" for sentence in said)
    (tmp_path / "a" / "predictions.test.jsonl").write_text("".join(lines), "utf-8")
    ((run,), _) = find_runs(tmp_path)
    assert run.sentences == said


def test_each_head_is_drawn_and_tabled(tmp_path):
    write_run(tmp_path / "a", "dot", 0, 50.0, **{"model.heads": 2})
    page = write_report(compare(find_runs(tmp_path)[0]), tmp_path).read_text()
    assert "| layer 1, head 2 | 30.0 | 12.6 | -1 |" in page
    assert tables.ABOUT_HEADS in page
    assert "(reverse-heads-1.png)" in page
    assert (tmp_path / "reverse-heads-1.png").is_file()


def test_systems_may_cut_the_source_into_other_tokens(tmp_path):
    """They are compared on the same sentences, each drawn in its own tokens."""
    write_run(tmp_path / "a", "dot", 0, 50.0)
    write_run(tmp_path / "b", "general", 0, 60.0, **{"data.source_level": "character"})
    said = [one | {"source": [*"abcdefgh", *one["source"]]} for one in SENTENCES]
    (tmp_path / "b" / "predictions.test.jsonl").write_text("\n".join(map(json.dumps, said)))
    shapes = [(1, 1, len(one["hypothesis"]) + 1, len(one["source"])) for one in said]
    weights = [np.full(shape, 0.1) for shape in shapes]
    np.savez(tmp_path / "b" / "alignments.test.npz", *weights)
    (comparison,) = compare(find_runs(tmp_path)[0])
    rows = tables.length_table(comparison.profile).to_numpy()
    assert rows[:, 1:].tolist() == [["0.0", "100.0", "0.0"]] * 2
    page = write_report([comparison], tmp_path).read_text()
    assert f"Lengths are in tokens of {next(iter(comparison.systems))}." in page


def without_alignment(evaluation):
    metrics = {k: v for k, v in evaluation["metrics"].items() if "alignment" not in k}
    return evaluation | {"metrics": metrics}


def test_what_is_known_of_some_systems_is_told_of_them(tmp_path):
    """Such as alignment figures, and the metric that chose the model."""
    write_run(tmp_path / "a", "dot", 0, 50.0)
    write_run(tmp_path / "b", "general", 0, 60.0, **{"train.metric": "bleu"})
    said = [one | {"gold": None} for one in SENTENCES]
    (tmp_path / "b" / "predictions.test.jsonl").write_text("\n".join(map(json.dumps, said)))
    file = tmp_path / "b" / "evaluation.test.json"
    known = without_alignment(json.loads(file.read_text()))
    file.write_text(json.dumps(known))
    (comparison,) = compare(find_runs(tmp_path)[0])
    quality = tables.quality(comparison)
    assert list(quality)[-2:] == ["aligned %", "shift"]
    assert quality["shift"].to_list() == ["", "+1"]
    page = write_report([comparison], tmp_path).read_text()
    assert "best validation bleu or exact match" in page
    assert "Accuracy by source position" in page


def test_without_gold_alignments_sharpness_is_told(tmp_path, capsys):
    for seed, first in enumerate((70.0, 80.0)):
        run = tmp_path / str(seed)
        write_run(run, "dot", seed, 50.0)
        said = [one | {"gold": None} for one in SENTENCES]
        (run / "predictions.test.jsonl").write_text("\n".join(map(json.dumps, said)))
        known = without_alignment(json.loads((run / "evaluation.test.json").read_text()))
        heads = [{"layer": 1, "head": 1 + n, "sharpness": s} for n, s in enumerate((first, 30.0))]
        (run / "evaluation.test.json").write_text(json.dumps(known | {"heads": heads}))
    (comparison,) = compare(find_runs(tmp_path)[0])
    assert tables.quality(comparison)["sharpness %"].to_list() == ["52.50 ± 3.54"]
    print_report(Report(tmp_path, [comparison], {}, tmp_path, tmp_path, tmp_path))
    for told in (capsys.readouterr().out, write_report([comparison], tmp_path).read_text()):
        assert tables.ABOUT_SHARPNESS in told
        assert tables.ABOUT_ALIGNMENT not in told


def test_where_alignments_are_known_sharpness_is_not_told(root):
    (comparison,) = compare(find_runs(root)[0])
    page = write_report([comparison], root).read_text()
    assert "sharpness %" not in tables.quality(comparison)
    assert tables.ABOUT_ALIGNMENT in page
    assert tables.ABOUT_SHARPNESS not in page


def test_one_range_of_lengths_is_not_told(tmp_path, capsys):
    write_run(tmp_path / "a", "dot", 0, 50.0)
    write_run(tmp_path / "b", "dot", 1, 50.0, **{"data.source_level": "character"})
    for run in ("a", "b"):
        said = [one | {"source": ["a", "b"], "gold": None} for one in SENTENCES]
        (tmp_path / run / "predictions.test.jsonl").write_text("\n".join(map(json.dumps, said)))
        weights = [np.ones((1, 1, len(one["hypothesis"]) + 1, 2)) for one in said]
        np.savez(tmp_path / run / "alignments.test.npz", *weights)
    (comparison,) = compare(find_runs(tmp_path)[0])
    page = write_report([comparison], tmp_path).read_text()
    print_report(Report(tmp_path, [comparison], {}, tmp_path, tmp_path, tmp_path))
    assert not (tmp_path / "reverse-length.png").exists()
    assert "length" not in page.lower()
    assert "source tokens" not in page + capsys.readouterr().out


def test_runs_that_were_interrupted_are_named(tmp_path):
    runs = [("dot", 20, 0), ("general", 30, 0), ("concat", 30, 1), ("cosine", 30, 2)]
    # Validations are at 10 and 20, of which the second is no better.
    for label, steps, patience in runs:
        options = {"train.steps": steps, "train.patience": patience, "train.valid_every": 10}
        write_run(tmp_path / label, label, 0, 50.0, label=label, **options)
    (comparison,) = compare(find_runs(tmp_path)[0])
    (told,) = unfinished(comparison.systems)
    assert told == "Not trained to the end: cosine, general."
    assert told in write_report([comparison], tmp_path).read_text()


def test_text_of_the_user_is_called_by_its_file_and_sides(tmp_path):
    own = {"data.name": "parallel", "data.test": "/a/my test", "data.source": "de"}
    write_run(tmp_path / "a", "dot", 0, 50.0, **own)
    (comparison,) = compare(find_runs(tmp_path)[0])
    assert comparison.name == "my test-de"
    assert "](my-test-de-length.png)" in write_report([comparison], tmp_path).read_text()


def test_a_narrow_terminal_leaves_figures_whole(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("COLUMNS", "40")
    table = pd.DataFrame({"system": ["normalizer=sparsemax, " * 4], "BLEU": ["12.34"]})
    print_table("quality", table, terminal := Terminal())
    assert "12.34" in terminal.getvalue()


@pytest.mark.parametrize("width", [30, 60, 80, 120])
def test_a_wide_table_is_split_and_keeps_names_and_figures(monkeypatch, width):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("COLUMNS", str(width))
    figures = [f"{nth}.00 ± {nth}.11" for nth in range(10, 24)]
    heading = ["system", *(f"figure {nth}" for nth in range(14))]
    table = pd.DataFrame([["one", *figures], ["two", *figures]], columns=heading)
    print_table("quality", table, terminal := Terminal())
    shown = re.sub(r"\x1b\[[\d;]*m", "", terminal.getvalue())
    assert max(map(len, shown.splitlines())) <= width
    for word in (*figures, *table):
        assert word in shown
    assert shown.count("one") == shown.count("two") == shown.count("system")


def test_other_decoding_makes_another_system(tmp_path):
    for seed in (1, 2):
        write_run(tmp_path / str(seed), "dot", seed, 50.0)
    file = tmp_path / "2" / "evaluation.test.json"
    evaluation = json.loads(file.read_text())
    file.write_text(json.dumps(evaluation | {"search": {"beam_size": 5}}))
    (comparison,) = compare(find_runs(tmp_path)[0])
    assert set(comparison.systems) == {"dot, search=greedy", "dot, search=beam_size=5"}


def test_the_first_run_of_a_system_has_the_lowest_seed(tmp_path):
    for folder, seed in (("a", 2), ("b", 0), ("c", 1)):
        write_run(tmp_path / folder, "dot", seed, 50.0)
    (comparison,) = compare(find_runs(tmp_path)[0])
    assert [run.seed for run in comparison.systems["dot"]] == [0, 1, 2]


def test_a_sentence_that_is_drawn_can_be_read():
    short, long = (
        {"source": ["a"] * length, "target": ["a"], "text_tokens": ["b"] * length}
        for length in (3, 200)
    )
    run = Run({}, {}, [], [long, short], dict.fromkeys(range(2), np.ones((1, 1, 1, 1))))
    assert telling_sentences({"a": [run]}, 2) == [1]
    assert telling_sentences({"a": [Run({}, {}, [], [long], {0: run.weights[0]})]}, 2) == [0]


def test_a_sentence_with_tokens_to_align_is_preferred():
    sentences = [
        {"source": ["a"], "target": ["a"] * length, "text_tokens": ["a"] * said}
        for length, said in ((2, 9), (5, 4), (6, 4), (4, 0))
    ]

    def drawn(sentences):
        runs = [
            Run({}, {}, [], own, dict.fromkeys(range(len(own)), np.ones((1, 1, 1, 1))))
            for own in (sentences, [one | {"text_tokens": one["target"]} for one in sentences])
        ]
        return telling_sentences({"a": runs[:1], "b": runs[1:]}, 1)

    assert drawn(sentences) == [2]
    assert drawn([sentences[0], sentences[3]]) == [0]


def test_an_infinite_figure_has_no_deviation():
    assert mean_and_deviation([np.inf, 3.0]) == "inf"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("b|c", r"b\|c"),
        ("<unk> *", r"\<unk> \*"),
        ("scaled_dot_x", "scaled_dot_x"),
        ("_", r"\_"),
        ("l&apos;", r"l\&apos;"),
    ],
)
def test_all_signs_of_a_cell_are_shown(text, shown):
    assert escaped(text) == shown


def test_columns_of_figures_are_aligned_to_the_right():
    figures = ["99.20 ± 0.10", "99.2 to 100.0", "+0, -1", "250,127", "inf", "–", ""]  # noqa: RUF001
    table = pd.DataFrame({"n": figures, "date": "2 May 1998"})
    assert markdown(table).splitlines()[1] == "| ---: | --- |"


def test_what_is_drawn_is_the_best_system_with_attention(root):
    write_run(root / "z", "mean()", 0, 99.0)
    page = write_report(compare(find_runs(root)[0]), root).read_text()
    assert "*What additive attends to as it writes each token (seed 0)*" in page
    write_run(root / "only" / "z", "mean", 0, 99.0)
    page = write_report(compare(find_runs(root / "only")[0]), root / "only").read_text()
    assert "*What mean attends to as it writes each token (seed 0)*" in page


def test_captions_say_what_is_cut_off(tmp_path):
    write_run(tmp_path / "a", "dot", 0, 50.0)
    write_run(tmp_path / "b", "mean", 0, 40.0)
    said = dict.fromkeys(("hypothesis", "text_tokens"), ["b"] * 99)
    endless = [sentence | said for sentence in SENTENCES]
    file = tmp_path / "a" / "predictions.test.jsonl"
    file.write_text("\n".join(map(json.dumps, endless)))
    weights = [np.ones((1, 2, 100, len(sentence["source"]))) for sentence in SENTENCES]
    np.savez(tmp_path / "a" / "alignments.test.npz", *weights)
    page = write_report(compare(find_runs(tmp_path)[0]), tmp_path).read_text()
    assert "as it writes each token (seed 0; the first 40 of 100 steps)*" in page
    assert "step by step (dot; the first 20 of 100 steps)*" in page
    # Twice as many as the reference has, which is one token and its end.
    assert "where tokens are missing (seed 0; at most the first 4 steps)*" in page
    assert "*Each layer and head of dot (seed 0; the first 40 of 100 steps), with its" in page


def test_what_systems_wrote_is_shown(root):
    page = write_report(compare(find_runs(root)[0]), root).read_text()
    assert (
        "| test sentence | 3 |\n| --- | --- |\n| source | a b c |\n| reference | c b a |\n"
        "| additive | c |\n| last | c |" in page
    )


@pytest.mark.parametrize(
    ("first", "second", "reference", "why"),
    [
        ("symbol", {"level": "word"}, "c", "BLEU measures sentences, exact match"),
        ("word", {"level": "word", "data.bleu_tokenizer": "char"}, "c", "their BLEU is of other"),
        ("symbol", {}, "d", "their test sentences are others"),
    ],
)
def test_why_systems_stand_apart_is_told(tmp_path, capsys, first, second, reference, why):
    write_run(tmp_path / "a", "dot", 0, 50.0, level=first)
    write_run(tmp_path / "b", "dot", 1, 50.0, **second)
    file = tmp_path / "b" / "predictions.test.jsonl"
    file.write_text(file.read_text().replace('"reference": "c"', f'"reference": "{reference}"'))
    usual, other = compare(find_runs(tmp_path)[0])
    assert usual.apart == ""
    assert other.apart.startswith(
        f"These systems are not compared with those of reverse, since {why}"
    )
    assert other.apart in write_report([other], tmp_path).read_text()
    print_report(Report(tmp_path, [other], {}, tmp_path, tmp_path, tmp_path))
    assert other.apart in capsys.readouterr().out


def test_options_of_one_name_are_told_apart(tmp_path):
    for room in ("train", "data"):
        write_run(tmp_path / room, "dot", 0, 50.0, **{f"{room}.max_length": 64})
    write_run(tmp_path / "usual", "dot", 0, 50.0)
    systems = by_system(find_runs(tmp_path)[0])
    assert set(systems) == {
        "data.max_length=512, train.max_length=100",
        "data.max_length=512, train.max_length=64",
        "data.max_length=64, train.max_length=100",
    }


def test_steps_to_learn_are_those_of_the_first_good_validation(tmp_path):
    for seed, exact in enumerate((99.0, 99.5, 98.9)):
        write_run(tmp_path / str(seed), "dot", seed, exact)
    runs, _ = find_runs(tmp_path)
    for of, told in ((runs[:2], "10 ± 0"), (runs, "–")):  # noqa: RUF001
        (comparison,) = compare(of)
        assert tables.cost(comparison)[tables.TO_LEARN].to_list() == [told]


def test_seconds_are_those_of_steps_at_their_rates(tmp_path):
    """Not those of compilation, whose results the second run of a sweep finds in the cache."""
    write_run(tmp_path / "a", "dot", 0, 50.0)
    run = read_run(tmp_path / "a")
    lines = [(100, 4.0, 60.0), (300, 2.0, 161.0), (310, 0.5, 182.0)]
    names = "step", "steps_per_second", "seconds"
    journal = [dict(zip(names, line, strict=True)) for line in lines]
    assert dataclasses.replace(run, journal=journal).seconds == 25 + 100 + 20


def test_several_options_are_told_where_they_are_not_the_default(tmp_path):
    for name, options in {
        "a": {"model.score": "dot"},
        "b": {"model.score": "dot", "model.normalizer": "sparsemax"},
        "c": {"model.score": "gmm"},
    }.items():
        write_run(tmp_path / name, "dot", 0, 50.0)
        lines = config.lines(config.experiment(options))
        (tmp_path / name / "flags.txt").write_text("\n".join(lines))
    systems = by_system(find_runs(tmp_path)[0])
    assert set(systems) == {"dot", "dot, normalizer=sparsemax", "gmm"}


def test_runs_whose_code_is_not_at_hand_are_reported(tmp_path):
    for seed in (0, 1):
        write_run(tmp_path / f"own{seed}", "not_here:Similar(sharpness=5.0)", seed, 50.0)
    write_run(tmp_path / "dot", "dot", 0, 60.0)
    comparisons = list(compare(find_runs(tmp_path)[0]))
    assert set(comparisons[0].systems) == {"dot", "not_here:Similar(sharpness=5.0)"}
    page = write_report(comparisons, tmp_path)
    assert "| not_here:Similar(sharpness=5.0) | 50.00 ± 0.00 | 2 |" in page.read_text()
    print_report(Report(tmp_path, comparisons, {}, page, page, page))


def test_profiles_by_hand(root):
    (run, *_), _ = find_runs(root)
    worse = dataclasses.replace(run, sentences=[one | {"text_tokens": []} for one in run.sentences])
    profile = by_length({"one": [run, worse], "other": [worse]})
    assert profile.ranges == ["1", "2", "3"]
    exact, errors = profile.figures["exact match, %"], profile.figures["symbol error rate, %"]
    np.testing.assert_allclose(exact["one"], [[0, 100, 0], [0, 0, 0]])
    np.testing.assert_allclose(errors["one"], [[100, 0, 200 / 3], [100, 100, 100]])
    np.testing.assert_allclose(errors["other"], [[100, 100, 100]])
    pooled = profiles.measured(run, [run.sentences[0], run.sentences[2]])
    assert pooled == {"exact match, %": 50.0, "symbol error rate, %": 40.0}
    shifted = {"text_tokens": ["x", "a", "b"], "target": ["a", "b"], "gold": [0, 1]}
    assert by_position([shifted]) == {0: 100, 1: 100}  # one error, as the error rate counts
    assert by_position(SENTENCES) == {0: pytest.approx(100 / 3), 1: 50.0, 2: 100.0}
    assert length_bins(SENTENCES, 3) == [Bin("1", [1]), Bin("2", [0]), Bin("3", [2])]
    assert length_bins(SENTENCES * 3, 1) == [Bin("1–3", list(range(9)))]  # noqa: RUF001


@pytest.mark.parametrize(("tokenizer", "text"), [("none", "a b c d"), ("char", "abcd")])
def test_sentences_without_four_words_have_no_bleu(root, tokenizer, text):
    (run, *_), _ = find_runs(root)
    options = {"data.target_level": "word", "data.bleu_tokenizer": tokenizer}
    run = dataclasses.replace(run, options=run.options | options)
    long = {"text": text, "reference": text, "source": ["a"] * 4}
    long |= {name: ["a", "b", "c", "d"] for name in ("target", "text_tokens")}
    profile = by_length({"one": [dataclasses.replace(run, sentences=[*run.sentences, long])]})
    np.testing.assert_allclose(profile.figures["BLEU"]["one"], [[np.nan] * 3 + [100]])
    rows = tables.length_table(profile).to_numpy().tolist()
    assert rows == [["one", "–", "–", "–", "100.0"]]  # noqa: RUF001


def test_the_error_rate_of_text_is_that_of_words(root):
    """As in the table of quality; so systems that cut text into other tokens can be compared."""
    (run, *_), _ = find_runs(root)
    said = {"text": "the cat sat", "reference": "the cat sat down", "source": ["a"]}
    systems = {}
    for cut in (str.split, list):
        tokens = {"text_tokens": cut(said["text"]), "target": cut(said["reference"])}
        options = run.options | {"data.target_level": "word"}
        systems[str(cut)] = [dataclasses.replace(run, options=options, sentences=[said | tokens])]
    figures = by_length(systems).figures
    assert list(figures) == ["BLEU", "word error rate, %"]
    assert [values.tolist() for values in figures["word error rate, %"].values()] == [[[25.0]]] * 2


def test_the_same_options_may_cut_text_into_other_tokens(root):
    (run, *_), _ = find_runs(root)
    warning = "The systems cut text into different tokens"

    def warned(other):
        systems = {"one": [run], "other": [dataclasses.replace(run, sentences=other)]}
        return any(line.startswith(warning) for line in about(systems, by_length(systems)))

    assert not warned(run.sentences)
    cut_otherwise = [one | {"target": ["".join(one["target"])]} for one in run.sentences]
    assert warned(cut_otherwise)
    # Nor are metrics of tokens drawn on one axis.
    systems = {"one": [run], "other": [dataclasses.replace(run, sentences=cut_otherwise)]}
    comparison = Comparison("reverse", "", systems)
    assert list(comparison.profile.figures) == ["exact match, %"]
    figures = drawn(comparison)
    for kind in ("length", "learning"):
        (axes,) = figures[kind].axes
        assert "exact match" in axes.get_ylabel()


def made_up(sentences, seed=0, level="symbol", **metrics):
    """A run with some test sentences and metrics."""
    options = {"data.target_level": level, "seed": seed, "data.bleu_tokenizer": "none"}
    options = config.values(config.Experiment()) | options
    evaluation = {"metrics": metrics, "heads": [{"sharpness": 1.0}]}
    return Run(options, evaluation, [], sentences, {})


def ranked(systems):
    """The ranks of systems."""
    return list(ranks(differences(systems), systems).values())


def p_values(systems):
    """Those of the differences from the best system."""
    found = of_ranks(differences(systems), systems)
    return found.loc[found["first"] == next(iter(systems)), "p"].to_list()


def test_systems_that_do_not_differ_share_a_rank():
    def run(right, seed=0):
        sentences = [
            {"text_tokens": [one if nth < right else "-"], "target": [one], "reference": one}
            for nth, one in enumerate(map(str, range(40)))
        ]
        return made_up(sentences, seed, exact_match=2.5 * right)

    systems = {"a": [run(36)], "b": [run(35)], "c": [run(20, 1), run(20)]}
    assert ranked(systems) == [1, 1, 3]
    assert ranked(systems | {"d": [run(19)]}) == [1, 1, 3, 3]
    # The third differs from the first and not from the second.
    close = {"a": [run(30)], "b": [run(26)], "c": [run(22)]}
    assert ranked(close) == [1, 1, 1]
    # All n sentences in which two systems differ fall to one of them with probability 2 / 2^n.
    expected = [2 / 2**4, 2 / 2**8]
    np.testing.assert_allclose(p_values(close), expected, rtol=0.3)
    assert p_values({"a": [run(30)]}) == []
    # Better on average, but not in the seed that both have.
    assert ranked({"a": [run(10), run(40, 1)], "b": [run(30), run(18, 2)]}) == [1, 1]


def test_more_seeds_tell_more(generator):
    """96 and 92 % of 400 sentences differ in two of three single seeds, and in six together."""

    def system(share, seeds):
        def run(seed):
            right = generator.random(400) < share
            sentences = [
                {"text_tokens": [int(one)], "target": [1], "reference": "1"} for one in right
            ]
            return made_up(sentences, seed, exact_match=100 * right.mean())

        return [run(seed) for seed in seeds]

    def told(seeds):
        good, worse = system(0.96, range(seeds)), system(0.92, range(seeds))
        one, other = system(0.95, range(seeds)), system(0.95, range(seeds))
        return ranked({"a": good, "b": worse}) == [1, 2], ranked({"a": one, "b": other}) == [1, 2]

    apart, alike = zip(*(told(seeds=6) for _ in range(20)), strict=True)
    assert sum(apart) > 16
    assert sum(alike) < 3


def test_text_is_ranked_by_bleu():
    words = ["the", "cat", "sat", "on", "a", "mat", "and", "ate", "its", "old", "hat", "there"]
    references = [" ".join(np.random.default_rng(n).permutation(words)) for n in range(40)]

    def run(texts, bleu):
        sentences = [{"reference": r, "text": t} for r, t in zip(references, texts, strict=True)]
        return made_up(sentences, level="word", bleu=bleu)

    good, worse = references, [r.replace("cat", "dog") for r in references]
    systems = {"a": [run(good, 100.0)], "b": [run(worse, 80.0)], "c": [run(worse, 70.0)]}
    # Of each system against the best, whatever their ranks.
    assert max(p_values(systems)) < 0.01
    assert ranked(systems) == [1, 2, 2]
    assert ranked({"a": [run(good, 100.0)], "b": [run(worse, 80.0)]}) == [1, 2]
    assert ranked({"a": [run(worse, 80.0)], "b": [run(worse, 80.0)]}) == [1, 1]


def test_a_test_set_too_small_for_p_values_is_told(tmp_path, capsys):
    for score, bleu in (("dot", 50.0), ("general", 10.0)):
        write_run(tmp_path / score, score, 0, bleu, level="word")
    (comparison,) = compare(find_runs(tmp_path)[0])
    assert comparison.runs["rank"].to_list() == [1, 1]
    assert comparison.runs["p_vs_best"].isna().all()
    assert tables.P not in tables.quality(comparison)
    told = (
        "3 test sentences are too few to tell systems apart (a p-value of BLEU needs at least 20)"
    )
    assert told in write_report([comparison], tmp_path).read_text()
    print_report(Report(tmp_path, [comparison], {}, tmp_path, tmp_path, tmp_path))
    assert told in capsys.readouterr().out


@pytest.mark.parametrize(
    ("p", "cell"),
    [(np.nan, "–"), (0.0004, "<0.001"), (0.001, "0.001"), (1.0, "1.000")],  # noqa: RUF001
)
def test_small_p_values_are_not_zero(p, cell):
    assert p_cell(p) == cell


def test_each_way_of_decoding_is_told(tmp_path):
    for score, search in (("dot", {}), ("general", {"beam_size": 5}), ("gmm", {})):
        write_run(tmp_path / score, score, 0, 50.0)
        file = tmp_path / score / "evaluation.test.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | {"search": search}))
    told = searches(by_system(find_runs(tmp_path)[0]))
    assert told == "Decoding: dot, gmm: greedy; general: beam_size=5."


def test_mean_and_deviation():
    assert mean_and_deviation([1.0, 3.0]) == "2.00 ± 1.41"
    assert mean_and_deviation([1.0]) == "1.00"


@pytest.mark.parametrize(
    ("label", "lines"),
    [
        ("dot", ["dot"]),
        ("dot, heads=2, train.steps=400", ["dot, heads=2,", "train.steps=400"]),
        ("normalizer=own:softplus_norm", ["normalizer=own:", "softplus_norm"]),
        ("own:lowrank(fatigue=0.1), x", ["own:lowrank", "(fatigue=0.1), x"]),
        ("a" * 20, ["a" * 16, "a" * 4]),
    ],
)
def test_labels_are_cut_where_options_end(label, lines):
    assert wrapped(label, 16).splitlines() == lines


def test_the_seed_of_each_run_that_is_drawn_is_told(tmp_path):
    for score, seed in (("dot", 3), ("dot", 4), ("general", 5)):
        write_run(tmp_path / str(seed), score, seed, 90.0 - seed, **{"model.heads": 2})
    page = write_report(compare(find_runs(tmp_path)[0]), tmp_path).read_text()
    assert "*What dot attends to as it writes each token (seed 3)*" in page
    assert "where tokens are missing (dot: seed 3; general: seed 5)*" in page
    assert "*Each layer and head of general (seed 5), with its alignment accuracy*" in page
    write_run(tmp_path / "6", "gmm", 3, 1.0)
    (runs, *_) = by_data([read_run(tmp_path / name) for name in "36"]).values()
    assert seeds_drawn(by_system(runs)) == "seed 3"


@pytest.mark.parametrize("of_sentences", [True, False])
def test_bleu_is_printed_of_sentences_alone(capsys, of_sentences):
    names = ("exact_match", "bleu", "chrf", *(("ter",) if of_sentences else ()))
    figures = {"sentences": 3, "parameters": 4, "search": {}, "metrics": dict.fromkeys(names, 1.0)}
    print_evaluation("test", figures | {"signatures": {"bleu": "a:1", "chrf": "b:2"}}, "step 1")
    printed = capsys.readouterr().out
    assert ("bleu" in printed) == ("bleu: a:1" in printed) == of_sentences
    assert "chrf: b:2" in printed


def test_control_characters_do_not_end_a_row():
    page = escaped("cr\rmid\x1bdle\u2028end")
    assert page == "cr\ufffdmid\ufffddle\ufffdend"


def test_two_sources_are_apart_and_prices_are_no_mathematics():
    page = escaped("$5 or $6\tV;PST")
    assert page == "\\$5 or \\$6\N{EM SPACE}V;PST"


def test_strips_shade_each_weight():
    alignment = np.array([[0.05, 0.95], [0.2, 0.4], [0.6, 0.35]])
    assert strips(alignment, ["ein", "mann"], ["a", "man", "</s>"]) == [
        "a    | █| mann 0.95",
        "man  |░▒| mann 0.40",
        "</s> |▓▒| ein 0.60",
    ]
    wide = strips(alignment, ["ein", "mann"], ["一", "男人", "</s>"])  # two columns for each sign
    assert wide[:2] == ["一   | █| mann 0.95", "男人 |░▒| mann 0.40"]
