"""A comparison: what it plans for its time, its two stages, and the program."""

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
from attn_jax.records import journal, run_files, states
from attn_jax.runs import agenda, comparing, executor, plans, sweeping, tuning
from attn_jax.runs.agenda import USED
from attn_jax.runs.checks import check
from attn_jax.runs.comparing import agenda_of, compare, read
from attn_jax.runs.defaults import (
    SOURCES,
    TABLE,
    Survey,
    level_of,
    paced,
    sizes_for,
    suited,
    survey,
    systems_for,
)
from attn_jax.runs.executor import Interrupted, Slot
from attn_jax.runs.measuring import Cost
from attn_jax.runs.plans import Plan
from tests.experiments.programs import SMALL, refused, works
from tests.reporting.test_page import data_of
from tests.stages import full

pytestmark = full

NAMES = ("none", "additive", "general")
THREE = [{"label": name, "model.score": name.replace("none", "last")} for name in NAMES]
DATA = {"data.name": "reverse"}
RATE, DROPOUT = "train.learning_rate", "model.dropout"


FAST = Cost(start=10.0, compilation=5.0, step=0.01, validation=1.0, evaluation=2.0)
RATES = (0.0015, 0.00075, 0.003)


@pytest.fixture
def measured(monkeypatch):
    """A step takes 10 ms, of `general` 20 ms, whatever the data; notes what is measured."""
    asked = []

    def measured(root, runs, places, seconds_left):
        for label in runs:
            if seconds_left() <= 0:
                return
            asked.append(label.split(",")[0])
            yield label, FAST._replace(step=0.02) if "general" in label else FAST

    found = {"train": 3600, "validation": 400, "test": 800}
    lengths = np.array([[5, 3], [7, 4], [30, 8]])
    told = Survey({}, found, lengths, ("character", "symbol"), ("lines are short", ""))
    monkeypatch.setattr(plans, "check", lambda experiment: None)
    monkeypatch.setattr(agenda, "check_all", lambda *_: None)
    monkeypatch.setattr(agenda, "measured", measured)
    monkeypatch.setattr(agenda, "survey", lambda given: told)
    monkeypatch.setattr(comparing, "slots", lambda jobs: [Slot([], {})] * (jobs or 2))
    return asked


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
        journal.append(folder, record)
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
    monkeypatch.setattr(tuning, "is_trained", is_trained)
    monkeypatch.setattr(sweeping, "is_finished", is_finished)
    monkeypatch.setattr(sweeping, "slots", lambda jobs: [Slot([], {})] * 2)
    monkeypatch.setattr(sweeping, "check_all", lambda *_: None)
    monkeypatch.setattr(sweeping, "check", lambda *_: None)
    monkeypatch.setattr(sweeping, "settle_planned", lambda folder, options: config.Experiment())
    monkeypatch.setattr(comparing, "report", lambda root: root)
    monkeypatch.setattr(comparing, "write_answer", lambda *parts: parts)
    return made, fails


def planned(root, hours, **more):
    return agenda_of(DATA | more, root, hours, THREE, 3, 0)


def steps_of(todo):
    return {run["train.steps"] for runs in todo.candidates.values() for run in runs.values()}


def test_what_fits_is_said_before_it_starts(measured, tmp_path, capsys):
    todo = planned(tmp_path / "x", 2)
    assert [len(runs) for runs in todo.candidates.values()] == [6, 6, 6]
    assert (todo.seeds, steps_of(todo)) == (3, {4000})
    told = capsys.readouterr().out
    assert told.splitlines() == todo.words
    for part in (
        "data: pairs of sentences, 3,600 for train, 400 for validation, 800 for test",
        "source: characters, since lines are short; a training sentence has 7 characters (median)",
        "target: symbols; a training sentence has 4 symbols (median), at most 8",
        "sizes, for 2,000 training pairs and more: ",
        "model.hidden_size=256",
        "its learning rate x 1, 0.5, 2; dropout 0.3, 0.1",
        "measuring 3 systems, 2 at a time",
        "general: a start takes 10 s, compilation 5 s, a step 20.0 ms, a validation 1.0",
        "time: 2.0 h, of which 0 s are over; 85% of the rest, 102.0 min, may be planned; 2 runs at",
        "stage 1: 3 systems x 6 settings of 4,000 steps: about 12.2 min",
        "stage 2: the test of the best, 3 seeds: about 4.3 min",
    ):
        assert part in told
    assert "left out" not in told
    assert [file.name for file in (tmp_path / "x").iterdir()] == ["measured.json"]


def test_what_is_measured_is_kept_for_the_next_call(measured, tmp_path):
    root = tmp_path / "x"
    with pytest.raises(InputError, match="too short"):
        planned(root, 0.01)
    assert len(measured) == 2  # with a fifth of the time over, no third is measured
    planned(root, 2)
    assert measured == [f"label={name}" for name in NAMES]
    planned(root, 2, **{"model.hidden_size": 32})  # of others, nothing is known
    assert len(measured) == 6
    run_files.measured(root).write_text("{")
    planned(root, 2)
    assert len(measured) == 9


def test_measuring_ends_after_a_fifth_of_the_time(measured, tmp_path, monkeypatch):
    clock = iter(range(0, 100_000, 120))  # two minutes for each look at it
    monkeypatch.setattr(comparing, "_clock", lambda hours: lambda: 3600 * hours - next(clock))
    todo = planned(tmp_path / "x", 0.5)
    assert len(measured) < 6
    assert "not measured, for want of time: general" in todo.words
    assert [*todo.candidates] == ["label=none", "label=additive"]


@pytest.mark.parametrize("hours", [0.001, 0.01, 0.015])
def test_a_refusal_names_hours_that_suffice(measured, tmp_path, hours):
    with pytest.raises(
        InputError, match=r"2,000 steps take about .*; hours=[0-9.]+ would do"
    ) as no:
        planned(tmp_path / "x", hours)
    enough = float(re.search(r"hours=(\S+)", str(no.value))[1])
    todo = planned(tmp_path / "x", enough)
    assert todo.seconds[0] + todo.seconds[todo.seeds] <= USED * 3600 * enough
    assert enough < 0.1


def test_if_the_first_systems_are_too_slow_the_two_fastest_are_compared(measured, tmp_path):
    systems = [THREE[2], *THREE[:2]]
    agenda_of(DATA, tmp_path, 2, systems, 3, 0)  # which measures all three
    todo = agenda_of(DATA, tmp_path, 0.024, systems, 3, 0)
    assert [*todo.candidates] == ["label=none", "label=additive"]
    assert "general" in todo.words[-1]


def test_what_does_not_fit_is_left_out_by_name(measured, tmp_path):
    todo = planned(tmp_path / "x", 0.17)
    assert {len(runs) for runs in todo.candidates.values()} == {2}
    (left_out,) = (line for line in todo.words if line.startswith("left out"))
    assert left_out == f"left out, for want of time: {RATE} x 2; {DROPOUT} 0.1"
    for hours, systems, seeds, least in [
        (0.12, 3, 2, 4000),
        (0.07, 3, 1, 4000),
        (0.05, 2, 1, 4000),
        (0.025, 2, 1, 2000),
    ]:
        short = planned(tmp_path / "x", hours)
        assert (len(short.candidates), short.seeds) == (systems, seeds)
        (steps,) = steps_of(short)
        assert least <= steps <= 4000  # which are given up last
        times = short.seconds[0] + short.seconds[short.seeds]
        assert times <= USED * 3600 * hours
    assert short.words[-1].endswith(f"general; {4000 - steps:,} of 4,000 steps")
    (run, *_) = short.candidates["label=none"].values()
    assert run["train.valid_every"] == steps // 12
    assert run["train.warmup_steps"] == steps // 10
    assert run["train.schedule"] == f"linear(until={steps})"


def test_what_is_given_is_not_chosen(measured, tmp_path):
    given = {"train.steps": 600, RATE: 0.004, "model.hidden_size": 32}
    todo = planned(tmp_path / "x", 2, **given)
    for runs in todo.candidates.values():
        assert len(runs) == 2  # dropouts
        for run in runs.values():
            assert {name: run[name] for name in given} == {n: str(v) for n, v in given.items()}
            assert run["train.valid_every"] == 50
    with pytest.raises(InputError, match=r"0\.005 h are too short: .* 600 steps"):
        planned(tmp_path / "x", 0.005, **given)


def test_a_system_that_cannot_be_trained_is_left_out(measured, tmp_path, monkeypatch, capsys):
    def fails(root, runs, places, seconds_left):
        for label in runs:
            yield label, "there is not enough memory" if "general" in label else FAST

    with monkeypatch.context() as patch:
        patch.setattr(agenda, "measured", fails)
        todo = planned(tmp_path / "x", 2)
    assert [*todo.candidates] == ["label=none", "label=additive"]
    assert "  general is left out: there is not enough memory" in todo.words

    def check(experiment):
        if experiment.label == "additive":
            raise InputError("its options do not fit together")

    monkeypatch.setattr(plans, "check", check)
    two = "a comparison needs two systems that can be trained"
    capsys.readouterr()
    assert [*planned(tmp_path / "y", 2).candidates] == ["label=none", "label=general"]
    told = capsys.readouterr().out
    left_out = "  additive is left out: its options do not fit together"
    assert told.index(left_out) < told.index("measuring 2 systems")
    for systems in (THREE[:1], THREE[:2]):  # of two, one does not fit
        with pytest.raises(InputError, match=two):
            agenda_of(DATA, tmp_path, 2, systems, 3, 0)
    assert "measuring" not in capsys.readouterr().out
    monkeypatch.setattr(plans, "check", lambda experiment: None)
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
    best = [f"label={name},{RATE}=0.00075,{DROPOUT}=0.3" for name in NAMES]
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
    stopped = f"label=additive,{RATE}=0.003,{DROPOUT}=0.3,seed=0"
    fails[stopped] = Interrupted(f"{stopped} was interrupted")
    with pytest.raises(InputError, match="was interrupted"):
        compare(DATA, root, hours=2, systems=THREE)
    assert not any(tested for _, tested in made)
    fails.clear()
    monkeypatch.setattr(agenda, "measured", None)  # nothing is measured again
    before = list(made)
    compare(DATA, root, hours=2, systems=THREE)
    assert made[len(before)] == (stopped, False)
    assert len(made) == len({*made}) == 3 * 6 + 3 * 3
    later = f"label=none,{RATE}=0.00075,{DROPOUT}=0.3,seed=2"
    run_files.evaluation(root / later, "test").unlink()
    del made[:]
    compare(DATA, root, hours=2, systems=THREE)
    assert made == [(later, True)]


def test_a_system_without_a_label_gets_one(measured, tmp_path):
    systems = [{"model.score": "last"}, {"model.score": "dot", "model.heads": 2}]
    todo = agenda_of(DATA, tmp_path, 2, systems, 3, 0)
    assert [*todo.candidates] == ["label=last", "label=dot, heads=2"]


def test_a_setting_that_fails_is_not_chosen(made, tmp_path, capsys):
    made, fails = made
    best = f"{RATE}=0.00075,{DROPOUT}=0.3,seed=0"
    fails[f"label=additive,{best}"] = InputError("training has diverged")
    fails |= {
        f"label=general,{RATE}={rate},{DROPOUT}={dropout},seed=0": InputError("too large")
        for rate in RATES
        for dropout in (0.3, 0.1)
    }
    *_, words, chosen = compare(DATA, tmp_path / "x", hours=2, systems=THREE)
    assert words[-1] == "general is not in the answer: each of its settings failed"
    assert chosen == [f"label=none,{best}", f"label=additive,{best.replace('0.3', '0.1')}"]
    assert "failed: training has diverged" in capsys.readouterr().out


def test_a_seed_that_fails_is_missed_in_the_answer(made, tmp_path):
    _, fails = made
    fails[f"label=none,{RATE}=0.00075,{DROPOUT}=0.3,seed=1"] = InputError("seed 1 failed")

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
        names = ("embedding_size", "hidden_size", "annotation_size", "readout_size")
        cells = [str(sizes.options[f"model.{name}"]) for name in names]
        cells += [str(sizes.units), str(sizes.options["train.batch_size"]), f"{sizes.steps:,}"]
        assert f" | {' | '.join([*cells, ', '.join(map(str, sizes.dropouts))])} |" in page
        for system in systems_for(sizes):
            options = sizes.options | paced(system, sizes.steps) | system
            assert config.experiment(options).label == system["label"]


@pytest.mark.parametrize("nth", range(8))
def test_each_system_can_be_trained_at_each_size(nth):
    data = {"data.name": "reverse", DROPOUT: 0.1}
    tags = {"data.name": "parallel", "data.columns": "1,2,3", "model.sources": SOURCES}
    for sizes, more in ((TABLE[0], {}), (TABLE[-1], {}), (TABLE[0], tags)):
        system = systems_for(sizes)[nth]
        check(config.experiment(sizes.options | paced(system, 100) | data | more | system))


def small(root, *more):
    """The command line of a comparison of two systems with one setting, and two seeds."""
    systems = root.parent / "systems.txt"
    systems.write_text("--model.score=last\n--model.score=dot\n")
    flags = f"--workdir={root}", *SMALL, f"--systems={systems}", "--seeds=2", "--hours=10"
    return *flags, f"--{RATE}=0.01", f"--{DROPOUT}=0.1", *more


def test_a_whole_comparison_with_a_kill_in_between(tmp_path):
    root = tmp_path / "mine"
    told = works("compare", *small(root, "--dry_run")).stdout
    assert "stage 1: 2 systems x 1 setting of 20 steps" in told
    assert [file.name for file in root.iterdir()] == ["measured.json"]
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
    assert "stage 1: 2 systems" in done  # what was said at first is said again
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
