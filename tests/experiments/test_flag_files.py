"""Flag files: what they may hold, and the file and line with which errors are told."""

import os
from functools import partial
from pathlib import Path

import pytest
from absl import flags as absl_flags

from attn_jax.cli import flags
from attn_jax.cli.flag_files import at_home, expanded
from attn_jax.errors import InputError


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def values(monkeypatch):
    """The flags of a program, defined apart from those of other tests."""
    own = absl_flags.FlagValues()
    monkeypatch.setattr(absl_flags, "DEFINE", partial(absl_flags.DEFINE, flag_values=own))
    monkeypatch.setattr(flags, "FLAGS", own)
    flags.define_experiment()
    return own


def test_lines_stand_in_the_place_of_their_file(folder):
    Path("outer.flags").write_bytes(
        b"\xef\xbb\xbf--seed=1\r\n\r\n# a comment\n  // another\n"
        b"--flagfile=inner.flags\n --label=a b\n"
    )
    Path("inner.flags").write_text("--seed=2")
    words = list(expanded(["--seed=0", "--flagfile", "outer.flags", "--train.steps", "3"]))
    assert words == [
        ("--seed=0", ""),
        ("--seed=1", "outer.flags, line 1"),
        ("--seed=2", "inner.flags, line 1"),
        ("--label=a b", "outer.flags, line 6"),
        ("--train.steps", ""),
        ("3", ""),
    ]
    assert [word.text for word in expanded(["--flagfile=inner.flags"] * 2)] == ["--seed=2"] * 2


def test_flags_of_files_and_of_the_command_line_override_those_before_them(folder, values):
    Path("own.flags").write_text("\ufeff--seed=1\n--label=file\n")
    flags.parse(["train", "--flagfile=own.flags", "--label", "mine", "--train.steps=7"])
    assert flags.given() == {"label": "mine", "seed": 1, "train.steps": 7}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--sead=1", "Unknown command line flag 'sead'. Did you mean: seed"),
        ("--seed=1e3", "seed must be of type int, got '1e3'"),
        ("--train.batch_size=0", "train.batch_size must be at least 1, got 0"),
        ("--train.clip_norm=nan", "train.clip_norm must be at least 1e-09, got nan"),
        ("--seed", "Missing value for flag --seed"),
        ("--seed 1", "Unknown command line flag 'seed 1'"),
        ("seed=1", "'seed=1' is not a flag: flags look like --name=value"),
        (
            "--flagfile=none.flags",
            "cannot read none.flags: No such file or directory; flag files name others from ",
        ),
        ("--flagfile=folder", "cannot read folder: Is a directory"),
        ("--flagfile=binary", "binary, line 2: not UTF-8"),
        ("--flagfile=", "--flagfile names no file"),
        ("--flagfile=./own.flags", "./own.flags includes itself"),
        ("--flagfile=around.flags", "around.flags, line 1: own.flags includes itself"),
    ],
)
def test_errors_name_the_file_and_the_line(folder, values, line, message):
    Path("folder").mkdir()
    Path("binary").write_bytes(b"--seed=1\n\xff\n")
    Path("around.flags").write_text("--flagfile=own.flags\n")
    Path("own.flags").write_text(f"# mine\n--label=a\n{line}\n")
    with pytest.raises(InputError) as error:
        flags.parse(["train", "--seed=1", "--flagfile=own.flags"])
    told = str(error.value)
    assert message in told
    assert told.startswith("around.flags, line 1: " if "around" in line else "own.flags, line 3: ")


def test_errors_of_systems_name_the_file_and_the_line(folder):
    Path("one.flags").write_text("--label=One\n--train.steps=many\n")
    with pytest.raises(InputError, match=r"^one\.flags, line 2: train\.steps must be of type in"):
        flags.options_of(["--flagfile=one.flags"])


def test_the_users_folder_is_needed_for_a_path_in_it(monkeypatch):
    monkeypatch.setenv("HOME", "/users/ada")
    assert at_home("--workdir=~/a=b") == "--workdir=/users/ada/a=b"
    assert at_home("--label=~a") == "--label=~a"
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # as without a home folder
    with pytest.raises(InputError, match="there is no home folder for ~/run: write out the path"):
        at_home("--workdir=~/run")
