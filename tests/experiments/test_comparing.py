"""A comparison: what it plans for its time, its two stages, and the program."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from attn_jax import config
from attn_jax.errors import InputError
from attn_jax.records import run_files, states
from attn_jax.runs import candidates, comparing, executor, plans, proposing, sweeping
from attn_jax.runs.agenda import read
from attn_jax.runs.checks import check
from attn_jax.runs.comparing import agenda_of, compare
from attn_jax.runs.estimates import Estimate
from attn_jax.runs.executor import Interrupted
from attn_jax.runs.measuring import Pace
from attn_jax.runs.plans import Plan
from attn_jax.runs.sizes import LEARNING_RATES, SYSTEMS, TABLE, paced, sizes_for, suited
from attn_jax.runs.slots import Slot
from attn_jax.runs.surveying import SOURCES, Survey, level_of, survey
from tests.experiments.programs import SMALL, refused, works
from tests.reporting.test_page import data_of
from tests.stages import full

pytestmark = full

NAMES = ("none", "additive", "general")
THREE = [{"label": name, "model.score": name.replace("none", "last")} for name in NAMES]
DATA = {"data.name": "reverse"}
RATE, DROPOUT = "train.learning_rate", "model.dropout"


@pytest.fixture
def measured(monkeypatch):
    """A step takes 10 ms, of `general` 20 ms, whatever the data; a validation 1 s."""

    def estimates(todo, places):
        return {
            label: Estimate(1, Pace(0.02 if "general" in label else 0.01, 1.0, 0.0), 10.0, "")
            for label in todo.wanted
        }

    found = {"train": 3600, "validation": 400, "test": 800}
    lengths = np.array([[5, 3], [7, 4], [30, 8]])
    told = Survey({}, found, lengths, ("character", "symbol"), ("lines are short", ""))
    monkeypatch.setattr(proposing, "check", lambda experiment: None)
    monkeypatch.setattr(proposing, "check_all", lambda *_: None)
    monkeypatch.setattr(proposing, "estimates", estimates)
    monkeypatch.setattr(proposing, "survey", lambda given: told)
    monkeypatch.setattr(comparing, "slots", lambda jobs: [Slot([], {})] * (jobs or 2))


@pytest.fixture
def made(measured, monkeypatch):
    """Runs that are only noted, with the better a validation the lower the rate; some raise."""
    made, fails = [], {}

    def run_child(folder, options, flags, output, where):
        if isinstance(error := fails.get(folder.name), Interrupted):
            return 75
        if error:
            states.failed(folder, error)
            return 2
        is_tested = "--evaluate_on=" not in flags
        made.append((folder.name, is_tested))
        folder.mkdir(exist_ok=True)
        value = 90 - 10_000 * float(options[RATE]) + 10 * float(options[DROPOUT])
        record = {"step": 9, "metric": "bleu", "valid_bleu": value, "valid_perplexity": 2.0}
        run_files.journal(folder).write_text(json.dumps(record) + "\n")
        if is_tested:
            run_files.evaluation(folder, "test").write_text("{}")
        return 0

    def is_trained(folder, _):
        return run_files.journal(folder).is_file()

    def is_finished(folder, _, is_untested):
        return is_trained(folder, _) and (
            is_untested or run_files.evaluation(folder, "test").is_file()
        )

    monkeypatch.setattr(executor, "run_child", run_child)
    monkeypatch.setattr(candidates, "is_trained", is_trained)
    monkeypatch.setattr(sweeping, "is_finished", is_finished)
    monkeypatch.setattr(sweeping, "slots", lambda jobs: [Slot([], {})] * 2)
    monkeypatch.setattr(sweeping, "check_all", lambda *_: None)
    monkeypatch.setattr(sweeping, "check", lambda *_: None)
    monkeypatch.setattr(sweeping, "settle", lambda folder, options: config.Experiment())
    monkeypatch.setattr(comparing, "report", lambda root: root)
    monkeypatch.setattr(comparing, "write_answer", lambda *parts: parts)
    return made, fails


def planned(root, hours, **more):
    return agenda_of(DATA | more, root, hours, THREE, 3, 0)


def test_what_fits_is_said_before_it_starts(measured, tmp_path, capsys):
    todo = planned(tmp_path / "x", 2)
    assert todo.extent == (3, 6, 4000, 3)
    assert todo.grid == {RATE: [*LEARNING_RATES], DROPOUT: [0.3, 0.1]}
    told = capsys.readouterr().out
    assert told.splitlines() == todo.words
    for part in (
        "data: pairs of sentences, 3,600 for train, 400 for validation, 800 for test",
        "source: characters, since lines are short; a training sentence has 7 characters (median)",
        "target: symbols; a training sentence has 4 symbols (median), at most 8",
        "sizes, for 2,000 training pairs and more: ",
        "model.hidden_size=256",
        "train.learning_rate=0.001,0.002,0.0005 x model.dropout=0.3,0.1; of the best on validation,"
        " 3 seeds",
        "measuring 3 systems, 2 at a time",
        # 10 s, 4,000 steps of 20 ms, 12 or 13 validations of 1 s
        "general: 20.0 ms a step, a run of 4,000 steps 103 s, of which validations 13 s",
        "2 h, 2 runs at a time: 3 systems x 6 settings of 4,000 steps, then 3 seeds",
    ):
        assert part in told
    assert "left out" not in told
    assert not (tmp_path / "x").exists()


def test_what_does_not_fit_is_left_out_by_name(measured, tmp_path):
    todo = planned(tmp_path / "x", 0.16)
    assert todo.extent[:2] == (3, 2)
    (left_out,) = (line for line in todo.words if line.startswith("left out"))
    assert left_out == ("left out, for want of time: train.learning_rate=0.0005; model.dropout=0.1")
    short = planned(tmp_path / "y", 0.04)
    steps, seeds = short.options["train.steps"], short.seeds
    assert short.extent == (len(short.systems), 1, steps, seeds)
    assert 1000 <= steps < 4000
    assert short.options["train.valid_every"] == steps // 12
    assert short.options["train.warmup_steps"] == steps // 10
    assert f"{4000 - steps:,} of 4,000 steps" in short.words[-1]
    two = planned(tmp_path / "y", 0.025)
    assert two.systems == THREE[:2]
    assert two.words[-1].endswith("2 of 3 seeds; general")
    with pytest.raises(InputError, match=r"0\.01 h are too short: .* 1,000 steps take about"):
        planned(tmp_path / "z", 0.01)


def test_what_cannot_fit_is_not_measured(measured, tmp_path, monkeypatch):
    asked, estimates = [], proposing.estimates

    def recorded(todo, places):
        asked.extend(todo.wanted)
        return estimates(todo, places)

    monkeypatch.setattr(proposing, "estimates", recorded)
    four = [*THREE, {"label": "dot", "model.score": "dot"}]
    todo = agenda_of(DATA, tmp_path / "x", 0.035, four, 3, 1)
    assert todo.systems == four[:2]
    assert len(asked) == 3  # for the third there is no time any more
    assert todo.words[-1].endswith("; general; dot")


def test_what_is_given_is_not_chosen(measured, tmp_path):
    given = {"train.steps": 600, RATE: 0.004, "model.hidden_size": 32}
    todo = planned(tmp_path / "x", 2, **given)
    assert {name: todo.options[name] for name in given} == given
    assert todo.grid == {DROPOUT: [0.3, 0.1]}
    assert todo.options["train.valid_every"] == 50
    with pytest.raises(InputError, match=r"0\.01 h are too short: .* 600 steps"):
        planned(tmp_path / "x", 0.01, **given)


def test_a_system_that_cannot_be_trained_is_left_out(measured, tmp_path, monkeypatch, capsys):
    def estimates(todo, places):
        failed = Estimate(1, None, 0.0, "there is not enough memory")
        found = dict.fromkeys(todo.wanted, Estimate(1, Pace(0.01, 1.0, 0.0), 10.0, ""))
        return {label: failed if "general" in label else one for label, one in found.items()}

    monkeypatch.setattr(proposing, "estimates", estimates)
    todo = planned(tmp_path / "x", 2)
    assert todo.systems == THREE[:2]
    assert "  general is left out: there is not enough memory" in todo.words

    def check(experiment):
        if experiment.label == "additive":
            raise InputError("its options do not fit together")

    monkeypatch.setattr(proposing, "check", check)
    two = "a comparison needs two systems that can be trained"
    with pytest.raises(InputError, match=two):
        planned(tmp_path / "x", 2)
    told = capsys.readouterr().out
    left_out = "  additive is left out: its options do not fit together"
    assert told.index(left_out) < told.index("measuring 2 systems")
    for systems in ([], THREE[:1], THREE[:2]):  # of two, one does not fit
        with pytest.raises(InputError, match=two):
            agenda_of(DATA, tmp_path, 2, systems, 3, 0)
    assert "measuring" not in capsys.readouterr().out
    monkeypatch.setattr(proposing, "check", lambda experiment: None)
    with pytest.warns(UserWarning, match=r"^no run here uses model\.self_heads$"):
        planned(tmp_path / "x", 2, **{"model.self_heads": 2})
    for name in ("train.steps", "train.valid_every"):
        with pytest.raises(InputError, match=rf"general has {name}, which a comparison needs"):
            agenda_of(DATA, tmp_path, 2, [THREE[0], THREE[2] | {name: 5}], 3, 0)
    (tmp_path / "runs" / "one").mkdir(parents=True)
    (tmp_path / "runs" / "one" / "flags.txt").write_text("--seed=0\n")
    with pytest.raises(InputError, match="runs holds a run or a sweep: take another folder"):
        agenda_of(DATA, tmp_path / "runs", 2, THREE, 3, 0)


def test_settings_are_chosen_on_validation_and_only_the_best_are_tested(made, tmp_path, capsys):
    made, _ = made
    root = tmp_path / "x"
    found, page, words, chosen = compare(DATA, root, hours=2, systems=THREE)
    assert (found, page) == (root, root / "answer.md")
    assert words == read(root).words
    best = [f"label={name},{RATE}=0.0005,{DROPOUT}=0.3" for name in NAMES]
    assert chosen == [f"{name},seed=0" for name in best]
    search = [label for label, tested in made if not tested]
    assert len(search) == len({*search}) == 3 * 6
    assert all(label.endswith(",seed=0") for label in search)
    tested = [label for label, is_tested in made if is_tested]
    assert sorted(tested) == sorted(f"{name},seed={seed}" for name in best for seed in range(3))
    assert {label for label, _ in made[: len(search)]} == {*search}  # before any is tested
    plan = plans.read(root)
    assert plan.untested == {*search} - {*tested}
    assert f"the best on validation: {chosen[0]}" in capsys.readouterr().out
    made.clear()
    compare(DATA, root, hours=2, systems=THREE)
    assert made == []


def test_a_comparison_goes_on_where_it_was_stopped(made, tmp_path, monkeypatch):
    made, fails = made
    root = tmp_path / "x"
    stopped = f"label=additive,{RATE}=0.002,{DROPOUT}=0.3,seed=0"
    fails[stopped] = Interrupted(f"{stopped} was interrupted")
    with pytest.raises(InputError, match="was interrupted"):
        compare(DATA, root, hours=2, systems=THREE)
    assert not any(tested for _, tested in made)
    fails.clear()
    monkeypatch.setattr(proposing, "estimates", None)  # nothing is measured again
    before = list(made)
    compare(DATA, root, hours=2, systems=THREE)
    assert made[len(before)] == (stopped, False)
    assert len(made) == len({*made}) == 3 * 6 + 3 * 3
    later = f"label=none,{RATE}=0.0005,{DROPOUT}=0.3,seed=2"
    run_files.evaluation(root / later, "test").unlink()
    del made[:]
    compare(DATA, root, hours=2, systems=THREE)
    assert made == [(later, True)]


def test_a_system_without_a_label_gets_one(measured, tmp_path):
    systems = [{"model.score": "last"}, {"model.score": "dot", "model.heads": 2}]
    labels = [one["label"] for one in agenda_of(DATA, tmp_path, 2, systems, 3, 0).systems]
    assert labels == ["last", "dot, heads=2"]


def test_a_setting_that_fails_is_not_chosen(made, tmp_path, capsys):
    made, fails = made
    best = f"{RATE}=0.0005,{DROPOUT}=0.3,seed=0"
    fails[f"label=additive,{best}"] = InputError("training has diverged")
    fails |= {
        f"label=general,{RATE}={rate},{DROPOUT}={dropout},seed=0": InputError("too large")
        for rate in LEARNING_RATES
        for dropout in (0.3, 0.1)
    }
    *_, words, chosen = compare(DATA, tmp_path / "x", hours=2, systems=THREE)
    assert words[-1] == "general is not in the answer: each of its settings failed"
    assert chosen == [f"label=none,{best}", f"label=additive,{best.replace('0.3', '0.1')}"]
    assert "failed: training has diverged" in capsys.readouterr().out


def test_a_seed_that_fails_is_missed_in_the_answer(made, tmp_path):
    _, fails = made
    fails[f"label=none,{RATE}=0.0005,{DROPOUT}=0.3,seed=1"] = InputError("seed 1 failed")

    class Page:
        page = "answer.md"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparing, "write_answer", lambda *_: Page)
        with pytest.raises(InputError, match=r"seed 1 failed \(see .*\); answer\.md is the"):
            compare(DATA, tmp_path / "x", hours=2, systems=THREE)


def test_fewer_seeds_are_made_if_runs_are_slower_than_measured(made, tmp_path, monkeypatch, capsys):
    made, _ = made
    monkeypatch.setattr(comparing, "_clock", lambda hours: lambda: 3600 * hours - 370 * len(made))
    compare(DATA, tmp_path / "x", hours=2, systems=THREE)
    assert len([label for label, is_tested in made if is_tested]) == 3
    assert "times as long as was measured: 1 instead of 3 seeds" in capsys.readouterr().out


def test_another_command_is_refused(made, tmp_path):
    root = tmp_path / "x"
    compare(DATA, root, hours="2", systems=THREE)
    for change, told in [
        ({"hours": 3}, "holds a comparison with other hours (2.0; now 3.0)"),
        ({"systems": THREE[:2]}, "other systems (none, additive, general; now none, additive)"),
        (
            {"options": DATA | {DROPOUT: 0.2}},
            f"(data.name=reverse; now data.name=reverse {DROPOUT}",
        ),
    ]:
        call = {"options": DATA, "hours": 2, "systems": THREE} | change
        with pytest.raises(InputError) as refusal:
            compare(call.pop("options"), root, **call)
        assert told in str(refusal.value)
    run_files.comparison(root).write_text("{")
    with pytest.raises(InputError, match=r"comparison\.json is missing or damaged"):
        compare(DATA, root, hours=2, systems=THREE)
    run_files.comparison(root).unlink()
    with pytest.raises(InputError, match="holds a run or a sweep"):
        compare(DATA, root, hours=2, systems=THREE)
    for wrong in ({"hours": 0}, {"hours": float("nan")}, {"seeds": 0}, {"seeds": "3"}):
        with pytest.raises(InputError, match="needs some hours and at least one seed"):
            compare(DATA, tmp_path / "y", systems=THREE, **wrong)
    with pytest.raises(InputError, match=r"hours must be a number, got 'two'"):
        compare(DATA, tmp_path / "y", systems=THREE, hours="two")
    with pytest.raises(InputError, match="leave out seed=3"):
        compare(DATA | {"seed": 3}, tmp_path / "y", systems=THREE)
    assert not (tmp_path / "y").exists()


def test_a_plan_knows_which_runs_are_not_tested(tmp_path):
    plan = Plan({"a": {"seed": 0}, "b": {"seed": 1}}, frozenset({"a", "b"}))
    plans.add(tmp_path, plan)
    assert plans.read(tmp_path) == plan
    more = plan.with_more(Plan({"b": {"seed": 1}, "c": {"seed": 2}}))
    assert more.untested == {"a"}
    text = run_files.plan(tmp_path).read_text()
    run_files.plan(tmp_path).write_text(text.replace('"b"\n', '"c"\n'))
    with pytest.raises(InputError, match="damaged"):
        plans.read(tmp_path)


@pytest.mark.parametrize(
    ("lines", "level", "why"),
    [
        (["manger", "aller"], "character", "100% of lines are one word (at least 90%)"),
        (
            ["m e n S e", "a l e"] * 9,
            "symbol",
            "there are 6 different words, each used 12 times (at most 200, at least 5 times)",
        ),
        (
            [f"the word {n} is not {n + 1000}" for n in range(300)],
            "subword",
            "the median line has 24 characters, the median number of words is 6, and there are 604",
        ),
        (["New York"] + ["Paris"] * 9, "character", "90% of lines are one word (at least 90%)"),
        (  # forms of which some have two words, many or few
            [f"{n}aeth" if n % 3 else f"i {n}af" for n in range(1000, 2000)],
            "character",
            "the median line has 8 characters (below 40), the median number of words is 1 (below",
        ),
        (
            [f"{n}aeth" if n % 3 else f"i {n}af" for n in range(90)],
            "character",
            "the median line has 6",
        ),
    ],
)
def test_tokens_are_chosen_for_the_lines(lines, level, why):
    found, told = level_of(lines)
    assert found == level
    assert told.startswith(why)


def test_the_data_are_looked_at(tmp_path):
    for split, count in (("train", 30), ("valid", 4), ("test", 5)):
        lines = (f"{'ab' * (1 + n % 4)}\tx y {'z ' * n}".strip() + "\tN;PL" for n in range(count))
        (tmp_path / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    files = {f"data.{n}": str(tmp_path / f"{n}.tsv") for n in ("train", "valid", "test")}
    given = {"data.directory": str(tmp_path / "cache"), "data.columns": "1,2", **files}
    given["data.name"] = "parallel"
    found = survey(given)
    assert found.pairs == {"train": 30, "validation": 4, "test": 5}
    assert found.options == {"data.source_level": "character", "data.target_level": "symbol"}
    assert found.lengths.max(axis=0).tolist() == [8, 31]
    assert "source: characters, since 100% of lines are one word" in "\n".join(found.told())
    assert survey(given | {"data.target_level": "word"}).levels == ("character", "word")
    found = survey(given | {"data.columns": "1,2,3"})
    assert found.options["model.sources"] == "concatenated"
    assert "two sources: model.sources=concatenated for all systems" in found.told()
    given_too = survey(given | {"data.columns": "1,2,3", "model.sources": "flat"})
    assert "model.sources" not in given_too.options
    del given["data.test"]
    with pytest.raises(InputError, match=r"decided on a test split: give data\.test"):
        survey(given)


def test_sizes_grow_with_the_data():
    limits = (1, 1999, 2000, 14_999, 15_000, 59_999, 60_000, 10**6)
    assert [sizes_for(pairs) for pairs in limits] == [each for each in TABLE for _ in range(2)]
    told = [suited(sizes) for sizes in TABLE[:2]]
    assert told == ["fewer than 2,000 training pairs", "2,000 training pairs and more"]
    page = (Path(__file__).parents[2] / "docs" / "comparing.md").read_text("utf-8")
    for sizes in TABLE:
        names = ("model.embedding_size", "model.hidden_size", "train.batch_size")
        cells = [*(str(sizes.options[name]) for name in names), f"{sizes.steps:,}"]
        assert f" | {' | '.join([*cells, ', '.join(map(str, sizes.dropouts))])} | " in page
        for system in SYSTEMS:
            options = sizes.options | paced(sizes.steps) | system
            assert config.experiment(options).label == system["label"]


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system["label"])
def test_each_system_can_be_trained_at_each_size(system):
    data = {"data.name": "reverse", "train.steps": 100, DROPOUT: 0.1}
    tags = {"data.name": "parallel", "data.columns": "1,2,3", "model.sources": SOURCES}
    for more in (TABLE[0].options, TABLE[-1].options, TABLE[0].options | tags):
        check(config.experiment(data | system | more))


def small(root, *more):
    """The command line of a comparison of two systems with one setting, and two seeds."""
    systems = root.parent / "systems.txt"
    systems.write_text("--model.score=last\n--model.score=dot\n")
    flags = f"--workdir={root}", *SMALL, f"--systems={systems}", "--seeds=2", "--hours=10"
    return *flags, f"--{RATE}=0.01", f"--{DROPOUT}=0.1", *more


def test_a_whole_comparison_with_a_kill_in_between(tmp_path):
    root = tmp_path / "mine"
    told = works("compare", *small(root, "--dry_run")).stdout
    assert "2 systems x 1 setting of 20 steps, then 2 seeds" in told
    assert not root.exists()
    command = [sys.executable, "-m", "attn_jax", "compare", *small(root)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    while not list(root.glob("*/metrics.jsonl")):
        assert process.poll() is None
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 75
    process.stdout.close()
    assert not list(root.glob("*/evaluation.test.json"))
    done = works("compare", *small(root)).stdout
    assert "measuring" in done  # what was said at first is said again
    told = re.compile(r"do not differ significantly|is the best\.")
    assert told.search(done)
    page = (root / "answer.md").read_text()
    assert page.startswith("# Which attention mechanism is best for these data?")
    assert told.search(page)
    (shown,) = data_of((root / "report.html").read_text("utf-8"))["sets"]
    assert {*shown["comparison"]["systems"]} == {"dot", "last"}
    assert told.search(shown["comparison"]["answer"][0])
    assert len(list(root.glob("*/evaluation.test.json"))) == 4
    assert "other seeds (2; now 3)" in refused("compare", *small(root), "--seeds=3")


def test_a_run_is_evaluated_on_the_splits_that_are_asked_for(tmp_path):
    folder = tmp_path / "run"
    told = works("train", f"--workdir={folder}", *SMALL, "--evaluate_on=").stdout
    assert "not asked for: the run is not evaluated on a test" in told
    assert not list(folder.glob("evaluation.*"))
    works("train", f"--workdir={folder}", *SMALL, "--evaluate_on=validation,test")
    assert {file.name for file in folder.glob("evaluation.*")} == {
        "evaluation.test.json",
        "evaluation.validation.json",
    }
    assert "unknown split 'tset'" in refused("train", f"--workdir={folder}", "--evaluate_on=tset")
