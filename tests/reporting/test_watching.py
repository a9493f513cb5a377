"""The report on runs in training, and when it ends."""

import itertools
import json
from types import SimpleNamespace

import pytest

from attn_jax.errors import InputError, Terminated
from attn_jax.records import run_files, states
from attn_jax.reporting import watching
from attn_jax.reporting.report import report
from attn_jax.reporting.watching import watch
from tests.reporting.test_page import data_of
from tests.reporting.test_report import write_run


@pytest.fixture
def clock(monkeypatch):
    """What happens at each look, one after another; time passes only there."""
    seconds, events = itertools.count(), []

    def sleep(_):
        if events:
            events.pop(0)()

    time = SimpleNamespace(monotonic=lambda: 5 * next(seconds), sleep=sleep)
    monkeypatch.setattr(watching, "time", time)  # only there: the rest of Python needs the real one
    return events


def begin(folder):
    """As a run does when it is trained."""
    states.tell(folder, states.RUNNING)


def live(root):
    """What the page says of runs in training; None if it stays as it is."""
    return data_of((root / "report.html").read_text("utf-8")).get("live")


def test_the_page_follows_a_sweep_to_its_end(tmp_path, clock, capsys):
    said = []
    begin(tmp_path / "a")  # as a sweep does first
    (tmp_path / "sweep.log").touch()  # of the shell that has started it, and no run

    def train_a():
        assert not (tmp_path / "report.html").exists()
        write_run(tmp_path / "a", "last", 0, 40.0)

    def begin_b():
        said.append(live(tmp_path))
        begin(tmp_path / "b")

    def train_b():
        said.append(live(tmp_path))
        write_run(tmp_path / "b", "additive", 0, 90.0)

    def diverge_c():
        said.append(live(tmp_path))
        (tmp_path / "c").mkdir()
        (tmp_path / "c" / "flags.txt").touch()
        (tmp_path / "c" / "metrics.jsonl").write_text('{"step": 9, "valid_perplexity": null}\n')

    clock += [lambda: None] * 30 + [train_a, begin_b, train_b, diverge_c]  # long after a minute
    made = watch(tmp_path)
    assert clock == []
    told = [one["told"] for one in said]
    assert told == [
        "1 runs are evaluated, 0 in training",
        "1 runs are evaluated, 1 in training (b)",
        "2 runs are evaluated, 0 in training",
    ]
    assert live(tmp_path) is None  # it has ended
    assert list(made.comparisons[0].systems) == ["additive", "last"]
    assert capsys.readouterr().out.startswith("waiting: ")


def test_a_run_that_has_failed_in_a_sweep_is_not_waited_for(tmp_path, clock):
    write_run(tmp_path / "a", "last", 0, 40.0)
    begin(tmp_path / "b")

    def fail():
        states.tell(tmp_path / "b", states.FAILED, why="no space")

    def again():
        begin(tmp_path / "b")

    clock += [fail, lambda: None, again, fail]
    watch(tmp_path)
    assert clock == []


def test_a_trial_is_not_waited_for_once_it_is_finished(tmp_path, clock):
    write_run(tmp_path / "a", "last", 0, 40.0)
    trials = run_files.trials(tmp_path)
    begin(trials / "a,trial=1")
    (trials / "a,trial=1").mkdir(exist_ok=True)
    (trials / "a,trial=1" / "flags.txt").touch()

    def finish():
        assert live(tmp_path)["told"].endswith("1 in training (a,trial=1)")
        states.tell(trials / "a,trial=1", states.FINISHED)  # trials are not tested

    clock += [lambda: None] * 30 + [finish]
    watch(tmp_path)
    assert clock == []


def test_a_run_that_is_evaluated_anew_is_read_anew(tmp_path, clock):
    write_run(tmp_path / "a", "last", 0, 40.0)

    def again():
        file = tmp_path / "a" / "evaluation.test.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | {"parameters": 7}))

    def read():
        (one,) = data_of((tmp_path / "report.html").read_text("utf-8"))["sets"]
        assert one["comparison"]["tables"][1]["rows"][0][1] == "7"

    clock += [again, read]
    watch(tmp_path)
    assert clock == []


@pytest.mark.parametrize("how", [KeyboardInterrupt, Terminated])
def test_an_interrupt_leaves_a_page_that_stays(tmp_path, clock, how):
    write_run(tmp_path / "a", "last", 0, 40.0)
    begin(tmp_path / "b")  # it never ends

    def interrupt():
        assert live(tmp_path)["told"].endswith("1 in training (b)")
        raise how

    clock += [lambda: None] * 50 + [interrupt]
    if how is Terminated:
        with pytest.raises(Terminated):
            watch(tmp_path)
    else:
        assert watch(tmp_path).html == tmp_path / "report.html"
    assert live(tmp_path) is None


def test_what_no_report_can_be_made_of_is_refused(tmp_path, clock):
    with pytest.raises(InputError, match="there is no folder"):
        watch(tmp_path / "nowhere")
    with pytest.raises(InputError, match="holds no run that was evaluated"):
        watch(tmp_path)
    for name in "abcde":
        (tmp_path / name).mkdir()
        (tmp_path / name / "flags.txt").touch()
    with pytest.raises(InputError, match=r"holds no run .*/c: .*; and 2 more$"):
        report(tmp_path)
