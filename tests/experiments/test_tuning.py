"""Sweeps that tune each system with the same trials before they compare them."""

import json

import pytest

from attn_jax import Experiment, config, tuned_sweep
from attn_jax.errors import InputError
from attn_jax.records import run_files, states
from attn_jax.runs import tuning, validation
from attn_jax.runs.tuning import FRESH, Trials
from tests.experiments.programs import refused
from tests.stages import full

pytestmark = full

OPTIONS = {
    "data.name": "copy",
    "data.longest": 6,
    "train.metric": "exact_match",
    "seed": 2,
    "train.learning_rate": 0.1,
}
SEARCH = Trials(4, {"train.learning_rate": "log(1e-4,1e-2)"}, seeds=2)
SYSTEMS = ["model.score=additive", "model.score=dot"]


class Fake:
    """Runs that are only noted: they end with what `values` says, by their labels, or fail."""

    def __init__(self, values, is_better=lambda options: 0.0):
        self.values, self.of, self.works, self.done = values, is_better, [], {}
        self.untested = []  # by work

    def work(self, todo, jobs, executor):
        runs = {label: todo.plan.runs[label] for label in todo.wanted}
        todo.root.mkdir(parents=True, exist_ok=True)
        self.works.append((todo.root, runs))
        self.untested.append(todo.plan.untested)
        failures = []
        for label, options in runs.items():
            value = self.values.get(label, self.of(options))
            if value is None:
                failures.append(f"{label} failed: it diverged")
                states.tell(todo.root / label, states.FAILED, why="it diverged")
            elif value != "running":
                self.done[todo.root / label] = value
        if failures:
            raise InputError("; ".join(failures))
        return [todo.root / label for label in runs]


@pytest.fixture
def made(monkeypatch):
    """Has runs made by a `Fake`."""

    def made_by(fake):
        monkeypatch.setattr(tuning, "work", fake.work)
        monkeypatch.setattr(tuning, "is_trained", lambda folder, _: folder in fake.done)
        monkeypatch.setattr(tuning, "steps_done", lambda folder: 100)

        def read(folder):
            value = fake.done[folder]
            lines = [(10, value - 1, 2.0), (20, value, 3.0), (30, value, 1.0)]
            return [
                {
                    "step": step,
                    "metric": "exact_match",
                    "valid_exact_match": match,
                    "valid_perplexity": perplexity,
                }
                for step, match, perplexity in lines
            ]

        monkeypatch.setattr(validation.journal, "read", read)
        return fake

    return made_by


def sweep(root, **options):
    grid = {"model.score": ["additive", "dot"]}
    return tuned_sweep(OPTIONS, root, SEARCH, grid=grid, **options)


def test_every_system_has_the_same_trials_and_its_best_setting_is_trained_anew(
    tmp_path, made, capsys
):
    best = {"model.score=additive": 3, "model.score=dot": 1}
    fake = made(Fake({f"{label},trial={nth}": 5.0 for label, nth in best.items()}))
    root = tmp_path / "sweep"
    folders = sweep(root)
    assert "the search replaces train.learning_rate=0.1" in capsys.readouterr().out
    (first, trials), (second, runs) = fake.works
    assert (first, second) == (root / "trials", root)
    assert list(trials) == [f"{label},trial={nth}" for label in SYSTEMS for nth in (1, 2, 3, 4)]
    assert fake.untested == [trials.keys(), frozenset()]  # trials leave the test alone
    drawn = SEARCH.drawn(seed=2)
    for label in SYSTEMS:
        for nth, settings in enumerate(drawn, start=1):
            assert trials[f"{label},trial={nth}"].items() >= config.texts(settings).items()
    assert [folder.name for folder in folders] == [
        f"{label},seed={seed}" for label in SYSTEMS for seed in (2, 3)
    ]
    for label, nth in best.items():
        for seed in (2, 3):
            options = runs[f"{label},seed={seed}"]
            rate = str(drawn[nth - 1]["train.learning_rate"])
            assert (options["train.learning_rate"], options["seed"]) == (rate, str(seed))
    assert all(int(trial["seed"]) >= FRESH for trial in trials.values())
    told = json.loads(run_files.search(root).read_text())["systems"]["model.score=dot"]
    assert told["best"] == "model.score=dot,trial=1"
    assert told["runs"] == ["model.score=dot,seed=2", "model.score=dot,seed=3"]
    assert told["trials"]["model.score=dot,trial=2"] == {
        "steps": 100,
        "options": {"train.learning_rate": drawn[1]["train.learning_rate"]},
        "metric": "exact_match",
        "value": 0.0,
        "goodness": [0.0, -1.0],
    }


def test_trials_may_fail_but_not_all_of_a_system(tmp_path, made, capsys):
    failed = "model.score=dot,trial=2"
    made(Fake({failed: None}))
    sweep(tmp_path / "one")
    assert f"not chosen: {failed} failed: it diverged" in capsys.readouterr().out
    told = json.loads(run_files.search(tmp_path / "one").read_text())
    assert "value" not in told["systems"]["model.score=dot"]["trials"][failed]
    made(Fake({f"model.score=dot,trial={nth}": None for nth in (1, 2, 3, 4)}))
    with pytest.raises(InputError, match=r"^all trials of model.score=dot have failed$"):
        sweep(tmp_path / "all")
    assert not run_files.search(tmp_path / "all").exists()


def test_nothing_is_chosen_before_all_trials_are_over(tmp_path, made):
    fake = made(Fake({"model.score=dot,trial=4": "running"}))
    with pytest.raises(InputError, match=r"^model.score=dot,trial=4 is not finished: "):
        sweep(tmp_path)
    assert len(fake.works) == 1


def test_what_keeps_trials_from_being_made_is_told(tmp_path, made, monkeypatch):
    fake = made(Fake({}))

    def work(*_):
        raise InputError("there is no Slurm here")

    monkeypatch.setattr(tuning, "work", work)
    with pytest.raises(InputError, match=r"^there is no Slurm here$"):
        sweep(tmp_path)
    assert fake.works == []


@pytest.mark.parametrize(
    ("options", "search", "why"),
    [
        ({}, Trials(1, {"model.score": "choice(dot,general)"}), "model.score is searched, and"),
        ({}, Trials(9, {"model.heads": "choice(1,3)"}), "trial="),
    ],
)
def test_what_cannot_be_searched_is_refused_before_the_first_trial(
    tmp_path, made, options, search, why
):
    fake = made(Fake({}))
    grid = {"model.score": ["additive", "dot"]}
    with pytest.raises(InputError) as raised:
        tuned_sweep(OPTIONS | options, tmp_path / "sweep", search, grid=grid)
    assert why in str(raised.value)
    assert fake.works == []
    assert not (tmp_path / "sweep").exists()


def test_the_best_setting_is_that_of_a_number_of_trials(tmp_path, made):
    fake = made(Fake({}))
    sweep(tmp_path)
    assert len(fake.works) == 2
    more = Trials(5, SEARCH.space, SEARCH.seeds)
    with pytest.raises(InputError, match=r"^model.score=additive has had 4 trials.*folder for 5$"):
        tuned_sweep(OPTIONS, tmp_path, more, grid={"model.score": ["additive"]})
    assert len(fake.works) == 2


def test_names_have_room_for_the_numbers_of_trials(tmp_path, made):
    systems = [{"label": f"{letter * 243}"} | {"model.score": "dot"} for letter in "ab"]
    systems[1]["model.score"] = "general"
    with pytest.raises(InputError, match="too long for the name of a folder"):
        tuned_sweep(OPTIONS, tmp_path / "sweep", SEARCH, systems=systems)
    assert not (tmp_path / "sweep").exists()


def test_a_run_as_an_experiment_is_searched_too(tmp_path, made, capsys):
    fake = made(Fake({}))
    tuned_sweep(Experiment(), tmp_path, SEARCH, grid={"model.score": ["dot"]})
    assert len(fake.works) == 2
    assert "the search replaces" not in capsys.readouterr().out


def test_a_search_chooses_for_all_seeds(tmp_path, made):
    made(Fake({}))
    with pytest.raises(InputError, match=r"give search\.seeds, not grid\.seed"):
        tuned_sweep({"data.name": "copy"}, tmp_path, SEARCH, grid={"seed": [0, 1]})


def test_flags_of_one_sweep_are_refused_with_a_search(tmp_path):
    line = refused("sweep", f"--workdir={tmp_path}", "--search.trials=2", "--list")
    assert line.startswith("error: --list is for one sweep, and --search.trials makes two")
