"""What `report.html` holds; `test_page_in_browser` is on what it does."""

import base64
import dataclasses
import json
import re
import shutil
import zlib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from attn_jax import config
from attn_jax.drawing.document import RAW, STATIC, Limits, Room, document, packed
from attn_jax.drawing.viewer import MOST, measures, write_viewer
from attn_jax.edits import edit_distance, edits_of
from attn_jax.errors import InputError
from attn_jax.evaluation.significance import holm
from attn_jax.pairs import Weighed
from attn_jax.records import run_files
from attn_jax.reporting import tables
from attn_jax.reporting.cautions import cautions
from attn_jax.reporting.differences import differences, from_each
from attn_jax.reporting.report import report
from attn_jax.reporting.runs import Run, find_runs
from tests.reporting.test_report import SENTENCES, write_run


def inflated(text):
    return zlib.decompress(base64.b64decode(text), RAW)


def unpacked(text, shape):
    """Weights as `data.js` reads them."""
    codes = np.frombuffer(inflated(text["data"]), np.int8 if text["signed"] else np.uint8)
    roots = codes.astype(float) / (127 if text["signed"] else 255)
    return (text["peak"] * np.sign(roots) * roots**2).reshape(shape)


def data_of(page):
    """What a page holds, as `main.js` reads it."""
    (text,) = re.findall(r'id="data">([\w+/=]*)</script>', page)
    return json.loads(inflated(text))


@pytest.fixture
def root(tmp_path):
    write_run(tmp_path / "a", "last", 0, 40.0)
    write_run(tmp_path / "b", "additive", 0, 90.0, **{"model.heads": 2})
    return tmp_path


def written(root, **options):
    (one,) = data_of(report(root, **options).html.read_text("utf-8"))["sets"]
    return one


def test_weights_are_as_exact_as_is_said():
    generator = np.random.default_rng(0)
    weights = generator.dirichlet(np.full(50, 0.2), (2, 3, 7)).astype(np.float32)
    read = unpacked(packed(weights), weights.shape)
    assert np.abs(read - weights).max() <= 0.004
    small = weights < 0.01
    assert np.abs(read - weights)[small].max() <= 0.0004
    large = 5 * weights - 1  # of mixed heads, and larger than 1
    text = packed(large)
    assert text["signed"]
    assert text["peak"] == pytest.approx(np.abs(large).max())
    assert np.abs(unpacked(text, large.shape) - large).max() <= 2 * 0.004 * text["peak"]


def test_the_weights_in_the_page_are_those_of_the_run(root):
    (test,) = written(root)["splits"]
    best, last = test["systems"]
    assert [best["name"], last["name"]] == ["additive, heads=2", "last"]
    first, _, third = (test["sentences"][nth]["number"] - 1 for nth in range(3))
    assert {first, third} < {0, 1, 2}
    shown = best["sentences"][0]
    shape = len(shown["target"]), len(shown["source"])
    weights = np.load(root / "b" / "alignments.test.npz")[f"arr_{first}"]
    np.testing.assert_allclose(
        unpacked(shown["mean"], shape), weights.mean(axis=(0, 1)), atol=0.004
    )
    np.testing.assert_allclose(unpacked(shown["heads"], weights.shape), weights, atol=0.004)
    assert "heads" not in last["sentences"][0]  # it has only one


def test_errors_are_those_of_the_error_rate():
    said, reference = list("abcxz"), list("bcdefz")
    kept, wrong, missing = edits_of([*said, "</s>"], reference)
    assert len(wrong) + len(missing) == edit_distance(said, reference)
    assert [(said[one], reference[other]) for one, other in kept] == [(s, s) for s in "bcz"]
    assert wrong == [(0, None), (3, 2)]
    assert [place for place, _ in missing] == [4, 4]  # e and f, after d, for which x stands
    assert edits_of([], ["a"]) == ([], [], [(0, 0)])


def test_measures_of_a_sentence_by_hand():
    alignment = np.array([[1.0, 0, 0], [0.5, 0.5, 0]])
    assert measures(alignment) == {"entropy": 0.347, "coverage": 50.0}  # ln 2 / 2, and 1.5 / 3


def test_gold_links_are_of_tokens_that_are_right(root):
    (test,) = written(root)["splits"]
    by_number = {
        one["number"]: shown
        for one, shown in zip(test["sentences"], test["systems"][0]["sentences"], strict=True)
    }
    assert by_number[1]["links"] == [[0, 1], [1, 0]]
    assert by_number[1]["missed"] == 100
    assert by_number[2]["links"] == []  # its only token is wrong
    assert by_number[3]["links"] == [[0, 2]]
    assert by_number[3]["missing"] == [[1, 1], [1, 2]]


def with_pictures(folder, **changed):
    """Gives a run the weights of references and the lengths of values; returns all its arrays."""
    generator = np.random.default_rng(3)
    file = folder / "alignments.test.npz"
    arrays = dict(np.load(file))
    for nth, one in enumerate(SENTENCES):
        layers, heads, _, width = arrays[f"arr_{nth}"].shape
        shape = layers, heads, len(one["target"]) + 1
        arrays[f"reference_{nth}"] = generator.dirichlet(np.ones(width), shape)
        arrays[f"sizes_{nth}"] = generator.uniform(0.1, 4, (layers, heads, 1, width))
    np.savez(file, **arrays | changed)
    return arrays


def test_the_reference_has_weights_and_gold_links_where_a_run_has_kept_them(root):
    arrays = with_pictures(root / "b")
    (test,) = written(root)["splits"]
    best, last = test["systems"]
    assert all("forced" not in shown for shown in last["sentences"])
    for place, shown in zip(test["sentences"], best["sentences"], strict=True):
        nth = place["number"] - 1
        forced, weights = shown["forced"], arrays[f"reference_{nth}"]
        assert forced["target"] == [*SENTENCES[nth]["target"], "</s>"]
        assert forced["links"] == [list(link) for link in enumerate(SENTENCES[nth]["gold"])]
        mean = weights.mean(axis=(0, 1))
        missed = np.mean(mean[:-1].argmax(axis=1) != SENTENCES[nth]["gold"])
        assert forced["missed"] == shown["astray"] == pytest.approx(100 * missed, abs=0.1)
        np.testing.assert_allclose(unpacked(forced["mean"], mean.shape), mean, atol=0.004)
        np.testing.assert_allclose(unpacked(forced["heads"], weights.shape), weights, atol=0.004)
        products = arrays[f"arr_{nth}"] * arrays[f"sizes_{nth}"]
        sums = products.sum(axis=(1, 3), keepdims=True)
        weighed = sums[0, 0, :, 0] > 0  # a step of this run has no weights
        shares = (products / np.where(sums, sums, 1)).sum(axis=1).mean(axis=0)
        np.testing.assert_allclose(unpacked(shown["sized"], shares.shape), shares, atol=0.004)
        np.testing.assert_allclose(shares.sum(axis=1), weighed)


def test_the_posterior_is_shown_where_a_run_has_kept_it(root):
    arrays = dict(np.load(root / "a" / "alignments.test.npz"))
    posterior = {f"posterior_{nth}": arrays[f"arr_{nth}"][0, 0] ** 2 for nth in range(3)}
    np.savez(root / "a" / "alignments.test.npz", **arrays, **posterior)
    (test,) = written(root)["splits"]
    _, last = test["systems"]
    for place, shown in zip(test["sentences"], last["sentences"], strict=True):
        expected = posterior[f"posterior_{place['number'] - 1}"]
        read = unpacked(shown["posterior"], expected.shape)
        np.testing.assert_allclose(read, expected, atol=0.004)


def test_self_attention_is_between_the_words_of_a_text(root):
    generator = np.random.default_rng(4)
    file = root / "b" / "alignments.test.npz"
    arrays = dict(np.load(file))
    for nth, one in enumerate(SENTENCES):
        steps, words = arrays[f"arr_{nth}"].shape[2], len(one["source"])
        arrays[f"encoder_{nth}"] = generator.dirichlet(np.ones(words), (3, 4, words))
        arrays[f"decoder_{nth}"] = np.tri(steps) * generator.random((1, 1, steps, steps))
    np.savez(file, **arrays)
    (test,) = written(root)["splits"]
    best, last = test["systems"]
    assert not {"encoder", "decoder"} & last["sentences"][0].keys()
    for place, shown in zip(test["sentences"], best["sentences"], strict=True):
        nth = place["number"] - 1
        within, weights = shown["encoder"], arrays[f"encoder_{nth}"]
        assert within["source"] == within["target"] == shown["source"]
        assert within["shape"] == {"layers": 3, "heads": 4}
        np.testing.assert_allclose(unpacked(within["heads"], weights.shape), weights, atol=0.004)
        within, weights = shown["decoder"], arrays[f"decoder_{nth}"][0, 0]
        assert within["target"] == shown["target"]
        assert within["source"] == ["<s>", *shown["target"][:-1]]
        assert within["wrong"] == shown["wrong"]
        np.testing.assert_allclose(unpacked(within["mean"], weights.shape), weights, atol=0.004)
        assert "heads" not in within  # it has only one


def test_other_splits_are_shown_where_they_were_evaluated(root):
    for name in ("evaluation.test.json", "predictions.test.jsonl", "alignments.test.npz"):
        for run in "ab":
            shutil.copy(root / run / name, root / run / name.replace("test", "validation"))
    test, validation = written(root)["splits"]
    assert validation == test | {"name": "validation"}
    (root / "a" / "alignments.validation.npz").unlink()
    _, validation = written(root)["splits"]
    assert [system["name"] for system in validation["systems"]] == ["additive, heads=2"]
    said = [one | {"reference": "other"} for one in SENTENCES]
    (root / "a" / "predictions.validation.jsonl").write_text("\n".join(map(json.dumps, said)))
    shutil.copy(root / "a" / "alignments.test.npz", root / "a" / "alignments.validation.npz")
    _, validation = written(root)["splits"]
    assert [system["name"] for system in validation["systems"]] == ["additive, heads=2"]


def test_a_page_holds_no_more_than_it_may(root):
    (test,) = written(root, page_sentences=1)["splits"]
    assert len(test["sentences"]) == 1
    (test,) = written(root, page_systems=0, baseline="last")["splits"]
    assert "heads" not in test["systems"][0]["sentences"][0]
    page = report(root, page_megabytes=0.00005)
    data = data_of(page.html.read_text("utf-8"))
    ((test,),) = (one["splits"] for one in data["sets"])
    means = [shown["mean"] for system in test["systems"] for shown in system["sentences"]]
    assert None in means
    assert 0 < sum(len(text["data"]) for text in means if text) <= 50
    assert re.search(r"\d+ arrays of weights were left out", data["notes"][1])


def test_what_comes_first_finds_room_and_nothing_after_what_found_none():
    room = Room(Limits(megabytes=0.00004))
    large, small = np.random.default_rng(0).random((20, 20)), np.ones((1, 1))
    assert room.take(small) is not None
    assert room.take(large) is None
    assert room.take(small) is None
    assert room.left_out == 2


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"page_sentences": 0}, "page_sentences must be at least 1, got 0"),
        ({"page_megabytes": float("nan")}, "page_megabytes must be at least 0, got nan"),
        (
            {"baseline": "dot"},
            "unknown system for baseline 'dot'",
        ),
    ],
)
def test_what_cannot_be_asked_of_a_page_is_refused_and_nothing_written(root, options, why):
    with pytest.raises(InputError, match=re.escape(why)):
        report(root, **options)
    assert not list(root.glob("report.*"))


def test_text_of_data_is_never_html():
    hostile = "</script><img src=x onerror=alert(1)>\u2028\ud800"
    page = document(hostile, {"title": hostile, "sets": []})
    assert "<img" not in page
    assert page.count("</script>") == 3
    assert data_of(page)["title"] == hostile.replace("\ud800", "?")


def test_nothing_of_a_page_is_fetched(root):
    """Neither by its own scripts, nor by the library, whose licence comes with it."""
    page = report(root).html.read_text("utf-8")
    assert "default-src 'none'" in page
    assert not re.search(r"(src|href)=[\"']?(http|//)", page)
    assert not re.search(r"@import|url\((?!data:)", page)
    assert "Leon Sorokin" in page
    for one in STATIC.iterdir():
        if one.name.endswith(".js") and "uPlot" not in one.name:
            assert not re.search(r"innerHTML|outerHTML|insertAdjacent|eval\(", one.read_text())


def hits(right, seed=0, count=40, name="", **measured):
    """A run of symbols of which the first sentences are right."""
    sentences = [
        {"text_tokens": [one if nth < right else "-"], "target": [one], "reference": one}
        for nth, one in enumerate(map(str, range(count)))
    ]
    sentences = [{"source": [], "text": "-"} | sentence for sentence in sentences]
    options = config.values(config.Experiment()) | {"data.target_level": "symbol", "seed": seed}
    metrics = {"exact_match": 100 * right / count, "symbol_error_rate": 100 - 100 * right / count}
    evaluation = {"metrics": metrics | measured, "heads": [{"sharpness": 1.0}]}
    folder = Path(f"{name}-{right}-{seed}")
    return Run(options, evaluation, [], sentences, {}, folder=folder)


def by_metric(systems):
    """The differences of systems by metric, [baselines, systems]."""

    def matrix(found, name):
        square = found.pivot(index="baseline", columns="system", values=name)
        return square.reindex(systems, columns=systems).to_numpy()

    names = "difference", "low", "high", "p", "holm"
    each = from_each(differences(systems)).groupby("metric", sort=False)
    return {
        metric: SimpleNamespace(**{name: matrix(found, name) for name in names})
        for metric, found in each
    }


def test_differences_are_between_all_systems_and_in_both_directions():
    systems = {"a": [hits(36), hits(38, 1)], "b": [hits(20), hits(18, 1)], "c": [hits(35)]}
    each = by_metric(systems)
    assert list(each) == ["exact_match", "symbol_error_rate"]
    found = each["exact_match"]
    np.testing.assert_allclose(found.difference[0], [np.nan, -45, -2.5])  # c has seed 0 alone
    np.testing.assert_allclose(found.difference, -found.difference.T)
    np.testing.assert_allclose(found.low, -found.high.T)
    assert found.low[0, 1] < -45 < found.high[0, 1] < 0
    np.testing.assert_allclose(found.p, found.p.T)
    for row in range(3):
        np.testing.assert_allclose(found.holm[row], holm(found.p[row]))
    # All sentences are of one symbol, so that errors are misses; but their p is of a bootstrap.
    errors = each["symbol_error_rate"]
    np.testing.assert_allclose(errors.difference, -found.difference)
    np.testing.assert_allclose(errors.low, -found.high)
    assert errors.p[0, 1] == pytest.approx(found.p[0, 1], abs=0.001)
    # One sentence differs: a sample has it once with probability (39/40)^39, else is as far off.
    assert found.p[0, 2] == 1
    assert errors.p[0, 2] == pytest.approx(1 - (39 / 40) ** 39, abs=0.02)
    small = {"a": [hits(3, count=5)], "b": [hits(1, count=5)]}
    few = by_metric(small)["exact_match"]
    assert np.isnan(few.low).all()
    assert few.p[0, 1] > 0.2


def test_perplexity_is_compared_where_evaluations_have_kept_what_it_counts():
    def run(right, log_probability, **kept):
        with np.errstate(over="ignore"):
            perplexity = float(np.exp(-log_probability / 2))  # of a token and the end
        run = hits(right, name=str(log_probability), perplexity=perplexity)
        sentences = [
            one | {"reference_log_probability": log_probability} | kept for one in run.sentences
        ]
        return dataclasses.replace(run, sentences=sentences)

    sure, unsure = run(36, -0.2), run(20, -2.0)
    found = by_metric({"a": [sure], "b": [unsure]})
    assert list(found) == ["exact_match", "perplexity", "symbol_error_rate"]
    expected = np.exp(1.0) - np.exp(0.1)
    assert found["perplexity"].difference[0, 1] == pytest.approx(expected)
    for other in (run(20, -2.0, reference_log_probability=-9.0), run(20, -2e3), hits(20)):
        assert "perplexity" not in by_metric({"a": [sure], "b": [other]})


def test_intervals_of_differences_hold_what_they_should(generator):
    """Those of 95 % of test sets hold the true difference, here of 20 points."""

    def run(right, name):
        sentences = [{"text_tokens": [int(r)], "target": [1], "reference": "1"} for r in right]
        sentences = [{"source": [], "text": "-"} | one for one in sentences]
        return dataclasses.replace(hits(0, name=name), sentences=sentences)

    held = 0
    for _ in range(150):
        first, second = (run(generator.random(200) < share, str(share)) for share in (0.5, 0.7))
        found = by_metric({"a": [first], "b": [second]})["exact_match"]
        held += found.low[0, 1] <= 20 <= found.high[0, 1]
    assert held / 150 == pytest.approx(0.95, abs=4 * np.sqrt(0.95 * 0.05 / 150))


def test_the_page_compares_with_the_baseline_that_is_asked_for(root):
    write_run(root / "c", "dot", 0, 50.0)
    told = written(root, baseline="last")["comparison"]
    assert told["systems"][told["baseline"]] == "last"
    quality, cost, length = told["tables"]
    assert tables.P not in quality["heading"]
    assert {"system", "parameters", "seconds"} < set(cost["heading"])
    assert length["heading"][1:] == ["1", "2", "3"]
    (by_match,) = told["differences"]
    assert (by_match["metric"], by_match["better"]) == ("exact %", "higher")
    assert by_match["difference"][0] == [None, 0, 0]  # all wrote the same


def test_whether_weights_matter_is_told_of_systems_that_measured_it(root):
    assert [table["title"] for table in written(root)["comparison"]["tables"]][2:] == ["Length"]
    file = root / "b" / "evaluation.test.json"
    measured = {"without_most": 1.5, "without_random": 0.25, "uniform": 3}
    told = {"explanations": measured | {"sentences": 3, "tokens": 1200}}
    file.write_text(json.dumps(json.loads(file.read_text()) | told))
    *_, table = written(root)["comparison"]["tables"]
    assert table["title"] == "Do the weights matter?"
    assert table["rows"] == [["additive, heads=2", "1,200", "1.500", "0.250", "3.000", *"––"]]  # noqa: RUF001
    assert sum("does not show" in note for note in table["notes"]) == 2
    assert "| additive, heads=2 | 1,200 | 1.500 |" in (root / "report.md").read_text()


def test_unfair_and_small_comparisons_are_told(root):
    report(root)
    assert "- Fewer than three seeds: " in (root / "report.md").read_text()

    def warned(**systems):
        return list(cautions(systems))

    (run, *_), _ = find_runs(root)
    options = run.options | {"train.steps": 20}
    run = dataclasses.replace(run, options=options)
    three = [dataclasses.replace(run, options=options | {"seed": seed}) for seed in range(3)]
    assert warned(one=three) == []
    (different, seeds, rate) = warned(one=three, other=[run])
    assert different.startswith("Different seeds: one: 0, 1, 2; other: 0. Two systems")
    assert seeds.startswith("Fewer than three seeds: other. How much")
    assert rate.startswith("All systems were trained with one learning rate")
    file = run_files.search(run.folder.parent)
    file.write_text(json.dumps({"space": {"train.learning_rate": "log(1e-4,1e-2)"}}))
    assert warned(one=three, other=[run]) == [different, seeds]
    file.unlink()
    larger = dataclasses.replace(run, evaluation=run.evaluation | {"parameters": 2468})
    slower = options | {"train.learning_rate": 0.5, "train.batch_size": 7}
    longer = [dataclasses.replace(larger, options=slower)] * 3
    longer = [
        dataclasses.replace(one, options=one.options | {"seed": seed})
        for seed, one in enumerate(longer)
    ]
    assert warned(one=three, other=longer) == [
        "Unequal parameters: from 1,234 (one) to 2,468 (other), 100 % more. What is better may be "
        "the size.",
        "Unequal training, train.batch_size: one: 64; other: 7.",
    ]
    many = {f"s{nth}": [run] for nth in range(5)} | {f"t{nth}": longer[:1] for nth in range(5)}
    seeds, _, budget = warned(**many)
    assert seeds.startswith(
        "Fewer than three seeds: s0, s1, s2, s3, s4, t0, t1, t2 and 2 more. How much"
    )
    assert budget == "Unequal training, train.batch_size: 2 values, such as 64 and 7."


def session(begun, ended, cores, **other):
    """A session of training, as it is recorded."""
    devices = {"backend": "cpu", "kind": "cpu", "count": 1}
    return {
        "host": "here",
        "cores": cores,
        "begun": begun,
        "ended": ended,
        "devices": devices,
    } | other


@pytest.mark.parametrize(
    ("other", "shared"),
    [
        (session("2026-01-01T10:30", "2026-01-01T12:00", [1, 2]), True),
        (session("2026-01-01T10:30", "2026-01-01T12:00", [2, 3]), False),
        (session("2026-01-01T11:00", "2026-01-01T12:00", [1, 2]), False),
        (session("2026-01-01T10:30", "2026-01-01T12:00", [1, 2], host="there"), False),
        (session("2026-01-01T10:30", None, [1, 2]), False),  # killed
        (session("2026-01-01T10:30", "2026-01-01T12:00", []), False),  # not told by the system
        (
            session(
                "2026-01-01T10:30",
                "2026-01-01T12:00",
                [1, 2],
                devices={"backend": "gpu", "kind": "H100", "count": 1},
            ),
            False,
        ),
    ],
)
def test_runs_that_shared_cores_are_told(root, other, shared):
    (run, *_), _ = find_runs(root)
    earlier = session("2026-01-01T10:00", "2026-01-01T11:00", [0, 1])
    systems = {
        label: [dataclasses.replace(run, sessions=sessions)]
        for label, sessions in {"one": [earlier], "other": [other]}.items()
    }
    told = [text for text in cautions(systems) if text.startswith("Runs shared cores")]
    assert [text.partition(": ")[2].partition(".")[0] for text in told] == [
        "one and other"
    ] * shared


def test_curves_are_means_and_ranges_over_the_steps_that_all_seeds_reached(tmp_path):
    for seed, (steps, rate) in enumerate([((10, 15, 20), 2.0), ((10, 20), 4.0)]):
        write_run(tmp_path / str(seed), "dot", seed, 50.0)
        lines = (
            {
                "step": step,
                "valid_perplexity": step,
                "valid_exact_match": 50 + seed,
                "steps_per_second": rate,
                "target_tokens_per_second": 100 * rate,
            }
            for step in steps
        )
        journal = "".join(json.dumps(line) + "\n" for line in lines)
        (tmp_path / str(seed) / "metrics.jsonl").write_text(journal)
    match, perplexity, length, errors, position = written(tmp_path)["charts"]
    drawn = match["lines"]["dot"]
    assert drawn["x"] == [[10, 20], [1000, 2000], [3.75, 7.5]]  # 5 and 2.5 seconds, then as much
    assert (drawn["mean"], drawn["low"], drawn["high"]) == ([50.5] * 2, [50] * 2, [51] * 2)
    assert perplexity["log"]
    assert perplexity["lines"]["dot"]["mean"] == [10, 20]
    assert length["xs"][0]["ticks"] == ["1", "2", "3"]
    assert length["lines"]["dot"]["mean"] == [0, 100, 0]  # of the sentences of test_report
    assert errors["lines"]["dot"]["mean"] == [100, 0, 66.667]
    assert position["lines"]["dot"]["x"] == [[1, 2, 3]]
    # Right are both tokens of the first sentence, and of the third that from position 3.
    np.testing.assert_allclose(position["lines"]["dot"]["mean"], [100 / 3, 50, 100], rtol=1e-4)


def test_a_single_validation_is_no_curve(root):
    for run in "ab":
        file = root / run / "metrics.jsonl"
        file.write_text(file.read_text().splitlines()[0])
    titles = [chart["y"] for chart in written(root)["charts"]]
    assert titles[0].startswith("test exact match")


def test_a_page_of_its_own_says_what_it_leaves_out(tmp_path):
    generator = np.random.default_rng(0)
    shape = 1, 2, 3, 2
    pairs = [
        Weighed(
            ["a", "b"], ["A", "B", "</s>"], generator.dirichlet(np.ones(2), shape[:3]), {(0, 1)}
        )
        for _ in range(MOST + 1)
    ]
    texts = [(f"a b {nth}", f"A B {nth}") for nth in range(MOST + 1)]
    write_viewer(tmp_path / "a.html", texts, {"one": pairs, "other": pairs})
    data = data_of((tmp_path / "a.html").read_text("utf-8"))
    ((split,),) = (one["splits"] for one in data["sets"])
    assert len(split["sentences"]) == len(split["systems"][1]["sentences"]) == MOST
    assert data["notes"] == [f"The first {MOST} of {MOST + 1} pairs are in this page."]
    shown = split["systems"][0]["sentences"][7]
    assert shown["links"] == [[1, 0]]
    np.testing.assert_allclose(unpacked(shown["heads"], shape), pairs[7].weights, atol=0.004)
    assert "wrong" not in shown  # without a reference
