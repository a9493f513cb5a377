"""Which runs a sweep makes."""

from pathlib import Path

import pytest

from attn_jax import GATES, MIXING, NORMALIZERS, SCORES, VALUES, WINDOWS, config
from attn_jax.attention import Dot, LocalP, Sparsemax
from attn_jax.attention.catalogue import COMPOSITIONS, WRAPPERS
from attn_jax.cli.flag_files import PRESETS
from attn_jax.cli.sweep_flags import read_systems
from attn_jax.errors import InputError
from attn_jax.runs import plans
from attn_jax.runs.sweeping import planned_sweep
from attn_jax.settings.grammar import split


def test_systems_are_combined_with_the_grid(tmp_path):
    file = tmp_path / "systems.txt"
    file.write_text(
        "# a remark\n\n--model.score=dot --model.normalizer=sparsemax  # and another\n"
        '--model.window="local_p(half_width=2)"\n'
    )
    systems = read_systems(file)
    assert systems == [
        {"model.score": Dot(), "model.normalizer": Sparsemax()},
        {"model.window": LocalP(half_width=2)},
    ]
    planned = plans.plan(systems, {"seed": ["0", "1"]}, {"data.name": "copy"})
    assert list(planned) == [
        "model.score=dot,model.normalizer=sparsemax,seed=0",
        "model.score=dot,model.normalizer=sparsemax,seed=1",
        "model.window=local_p(half_width=2),seed=0",
        "model.window=local_p(half_width=2),seed=1",
    ]
    assert all(options["data.name"] == "copy" for options in planned.values())


def test_commas_in_brackets_do_not_part_values():
    text = "additive,location_aware(filters=3,width=5),dot"
    assert split(text) == ["additive", "location_aware(filters=3,width=5)", "dot"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "names no system"),
        ("--model.score", "line 1: '--model.score' is not --option=value"),
        ("model.score=dot", "is not --option=value"),
        ("--seed=0\n--model.scor=dot", "line 2: unknown option 'model.scor'"),
        ("--model.score='dot", "line 1: No closing quotation"),
    ],
)
def test_a_file_that_is_no_list_of_systems_is_refused(tmp_path, text, message):
    file = tmp_path / "systems.txt"
    file.write_text(text)
    with pytest.raises(InputError, match=message):
        read_systems(file)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        read_systems(tmp_path / "none.txt")


def test_an_option_of_the_grid_and_of_a_system_is_refused():
    with pytest.raises(InputError, match="seed is an option of the grid and of a system"):
        plans.plan([{"seed": "1"}], {"seed": ["1"]}, {})


@pytest.mark.parametrize(
    ("grid", "why"),
    [
        ({"model.score": None}, r"^grid\.model\.score needs a list of values, got None$"),
        ({"model.score": "dot,additive"}, "needs a list of values, got 'dot,additive'"),
        (["model.score"], "^a grid is a dictionary"),
        ({"model.score": []}, "has no values"),
    ],
)
def test_a_grid_has_lists_of_values(grid, why):
    with pytest.raises(InputError, match=why):
        plans.grid_of(grid)


def test_the_grid_replaces_what_is_fixed():
    planned = plans.plan([{}], {"seed": ["1", "2"]}, {"seed": "3", "data.name": "copy"})
    assert planned == {f"seed={seed}": {"seed": seed, "data.name": "copy"} for seed in ("1", "2")}


def test_what_systems_differ_in_cannot_be_fixed():
    with pytest.raises(InputError, match="seed cannot be 2 for all: the systems differ in it"):
        plans.plan([{"seed": "1"}, {"seed": "3"}], {}, {"seed": "2"})


def test_what_all_systems_agree_on_may_be_fixed_otherwise():
    systems = [{"seed": "1", "model.score": "dot"}, {"seed": "1", "model.score": "general"}]
    planned = plans.plan(systems, {}, {"seed": "2"})
    assert [options["seed"] for options in planned.values()] == ["2", "2"]


def test_a_name_too_long_for_a_folder_is_refused():
    with pytest.raises(InputError, match="is too long for the name of a folder"):
        plans.plan([{}], {"data.train": ["/" + "a" * 250]}, {})


def test_options_written_in_other_ways_are_the_same():
    with pytest.raises(InputError, match=r"the same options: model\.dropout=0\.10"):
        plans.plan([{}], {"model.dropout": ["0.1", "0.10"]}, {})


def test_equal_systems_are_refused():
    systems = [{"label": label, "model.score": "dot"} for label in "aab"]
    with pytest.raises(InputError, match=r"the same options: label=a model\.score=dot"):
        plans.plan(systems, {}, {})


def test_systems_without_a_label_are_called_by_what_differs():
    systems = [
        {"label": "a", "model.score": "dot"},
        {"model.score": "general"},
        {"model.score": "concat"},
    ]
    assert list(plans.plan(systems, {}, {})) == [
        "label=a",
        "model.score=general",
        "model.score=concat",
    ]


def test_folders_say_what_varies_alone():
    systems = [
        {"data.train": "/a/long/path", "model.score": "dot"},
        {"data.train": "/a/long/path", "model.score": "general", "model.heads": "2"},
    ]
    planned = plans.plan(systems, {"seed": ["0"]}, {})
    assert list(planned) == ["model.score=dot,seed=0", "model.score=general,model.heads=2,seed=0"]


def test_two_systems_of_one_label_are_refused():
    systems = [{"label": "a/b", "model.score": "dot"}, {"label": "a-b", "model.score": "gmm"}]
    with pytest.raises(InputError, match="two systems are called 'label=a-b': give each its own"):
        plans.plan(systems, {}, {})


def test_systems_with_labels_come_from_flag_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("base.flags").write_text("# of all\n--data.name=parallel\n--data.train=text\n")
    Path("one.flags").write_text("--flagfile=base.flags\n--label=One\n--model.score=dot\n")
    Path("systems.txt").write_text("--flagfile=one.flags\n--label=Two --data.name=copy\n")
    systems = read_systems(Path("systems.txt"))
    assert systems[0] == {
        "data.name": "parallel",
        "data.train": str(tmp_path / "text"),
        "label": "One",
        "model.score": Dot(),
    }
    planned = plans.plan(systems, {"train.steps": ["1"]}, {})
    assert list(planned) == ["label=One,train.steps=1", "label=Two,train.steps=1"]
    Path("systems.txt").write_text("--flagfile=none.flags\n")
    with pytest.raises(InputError, match=r"systems.txt, line 1: .*none\.flags"):
        read_systems(Path("systems.txt"))


def test_combinations_that_make_no_sense_are_left_out(tmp_path):
    varied = {"model.score": ["dot", "gmm"], "model.normalizer": ["softmax", "monotonic"]}
    planned = plans.plan([{}], varied, {})
    wanted, left_out = plans.possible(tmp_path, planned)
    plans.check_used(planned, varied, left_out)
    assert list(wanted) == [
        "model.score=dot,model.normalizer=softmax",
        "model.score=dot,model.normalizer=monotonic",
        "model.score=gmm,model.normalizer=softmax",
    ]
    assert wanted["model.score=gmm,model.normalizer=softmax"].model.score == SCORES["gmm"]()
    (label,) = left_out
    assert label == "model.score=gmm,model.normalizer=monotonic"
    assert "already moves monotonically" in left_out[label]


@pytest.mark.parametrize(
    ("systems", "varied", "reason"),
    [
        # A value that is wrong is in no run.
        ([{}], {"model.score": ["dot", "dott"], "seed": ["0", "1"]}, "unknown score 'dott'"),
        # A system of a file is wanted as it is, although each of its options is possible.
        (
            [
                {"model.score": "gmm", "model.normalizer": "softmax"},
                {"model.score": "dot", "model.normalizer": "monotonic"},
                {"model.score": "gmm", "model.normalizer": "monotonic"},
            ],
            {"seed": ["0", "1"]},
            "already moves monotonically",
        ),
    ],
)
def test_a_value_or_system_that_fits_with_nothing_is_refused(tmp_path, systems, varied, reason):
    def check():
        planned = plans.plan(systems, varied, {})
        plans.check_used(planned, varied, plans.possible(tmp_path, planned)[1])

    with pytest.raises(InputError, match=reason):
        check()


def test_the_preset_names_every_mechanism():
    """So that the measurements in docs/mechanisms.md leave none out."""
    named = {
        (option, config.brief(value).partition("(")[0])
        for system in read_systems(PRESETS / "mechanisms.txt")
        for option, value in system.items()
    }
    composed = {*COMPOSITIONS} - {"pair", "projected"}
    assert {name for option, name in named if option == "model.score"} == {*SCORES} | composed
    implied = {"softmax", "exponential"}  # by the scores above
    normalizers = {n for o, n in named if o == "model.normalizer"}
    assert normalizers | implied == {*NORMALIZERS, *WRAPPERS}
    assert {n for o, n in named if o == "model.window"} | {"full"} == {*WINDOWS}
    assert {n for o, n in named if o == "model.values"} | {"annotations"} == {*VALUES}
    assert {n for o, n in named if o == "model.gate"} | {"none"} == {*GATES}
    assert {n for o, n in named if o == "model.mixing"} | {"none"} == {*MIXING}


def test_text_that_cannot_be_used_is_told_before_a_run_starts(tmp_path):
    (tmp_path / "train").write_text("a b\tc\nd\n")
    (tmp_path / "valid").write_text("a\tb\n")
    options = {f"data.{split}": tmp_path / split for split in ("train", "valid")}
    options |= {"data.name": "parallel", "data.test": tmp_path / "valid"}
    with pytest.raises(InputError, match=r"^seed=0: .*train, line 2: expected two columns"):
        planned_sweep(options, tmp_path / "sweep", {"seed": [0, 1]}, [])
    assert not (tmp_path / "sweep").exists()
