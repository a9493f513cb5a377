"""The user's cache: where it is, what works without it, and who keeps compiled programs in it."""

import os
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from jax.experimental.compilation_cache import compilation_cache

from attn_jax.cache import cache_directory, remove_unused, use_compilation_cache
from attn_jax.config import Data
from attn_jax.data.datasets import open_corpus
from attn_jax.errors import InputError
from attn_jax.runs.measuring import COMPILED, SAVED, compilations
from tests.experiments.programs import SMALL, works
from tests.stages import full

pytestmark = full

NOWHERE = Path("/dev/null")  # no user, however privileged, can make a folder in it


@pytest.fixture
def homeless(monkeypatch):
    """A user without any entry in the system's list of users, as in many containers."""
    for name in ("ATTN_JAX_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)

    def unknown(uid):
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    monkeypatch.setattr("pwd.getpwuid", unknown)


@pytest.fixture
def unset():
    """JAX before any cache was chosen."""
    before = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", None)
    compilation_cache.reset_cache()
    yield
    jax.config.update("jax_compilation_cache_dir", before)
    compilation_cache.reset_cache()


def test_a_variable_names_the_cache_or_else_the_home_folder(homeless, monkeypatch):
    monkeypatch.setenv("HOME", "/users/ada")
    assert cache_directory() == (Path("/users/ada/.cache/attn_jax"), "the home folder")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert cache_directory() == (Path("/caches/attn_jax"), "XDG_CACHE_HOME")
    monkeypatch.setenv("ATTN_JAX_CACHE", "/mine")
    assert cache_directory() == (Path("/mine"), "ATTN_JAX_CACHE")


def test_without_a_home_folder_data_need_a_place_that_is_named(homeless, tmp_path):
    with pytest.raises(InputError, match=r"no home folder .* set ATTN_JAX_CACHE to a"):
        open_corpus(Data())
    assert open_corpus(Data(directory=str(tmp_path), examples=5, held_out=5)).splits


@pytest.mark.parametrize(
    ("variable", "below", "named"),
    [
        ("ATTN_JAX_CACHE", "", "ATTN_JAX_CACHE"),
        ("XDG_CACHE_HOME", "attn_jax/", "XDG_CACHE_HOME"),
        ("HOME", ".cache/attn_jax/", "the home folder"),
    ],
)
def test_a_place_for_data_that_cannot_be_written_to_is_told(
    homeless, monkeypatch, variable, below, named
):
    monkeypatch.setenv(variable, str(NOWHERE))
    place = rf"{NOWHERE}/{below}data/sequences \(Not a directory\), a place named by {named}: set "
    with pytest.raises(InputError, match=place):
        open_corpus(Data())
    with pytest.raises(InputError, match=r"a place named by data\.directory"):
        open_corpus(Data(directory=str(NOWHERE)))


def test_programs_are_compiled_without_a_cache_where_none_can_be_kept(
    homeless, unset, monkeypatch, tmp_path
):
    use_compilation_cache()
    assert jax.config.jax_compilation_cache_dir is None
    monkeypatch.setenv("ATTN_JAX_CACHE", str(NOWHERE))
    use_compilation_cache()
    assert jax.config.jax_compilation_cache_dir is None
    monkeypatch.setenv("ATTN_JAX_CACHE", str(tmp_path / "new"))
    use_compilation_cache()
    assert jax.config.jax_compilation_cache_dir == str(tmp_path / "new" / "programs")


@pytest.mark.parametrize("chosen", ["/elsewhere", ""])  # empty: the user wants none
def test_a_cache_that_the_user_has_chosen_stays(unset, monkeypatch, tmp_path, chosen):
    monkeypatch.setenv("ATTN_JAX_CACHE", str(tmp_path))
    jax.config.update("jax_compilation_cache_dir", chosen)
    use_compilation_cache()
    assert jax.config.jax_compilation_cache_dir == chosen
    assert not list(tmp_path.iterdir())


def test_a_cache_that_is_removed_meanwhile_is_no_reason_for_a_warning(unset, monkeypatch, tmp_path):
    monkeypatch.setenv("ATTN_JAX_CACHE", str(tmp_path))
    use_compilation_cache()
    kept = tmp_path / "programs"
    jax.jit(lambda x: x + 41)(1)
    assert list(kept.iterdir())
    shutil.rmtree(kept)
    jax.jit(lambda x: x + 42)(1)  # tests turn warnings into errors


def test_programs_that_nothing_has_used_for_long_are_removed_once_a_day(tmp_path):
    now, day = time.time(), 24 * 3600
    times = {
        "read": (now, now - 40 * day),
        "written": (now - 40 * day, now),
        "old": (now - 31 * day,) * 2,
    }
    for name, of_file in times.items():
        (tmp_path / name).touch()
        os.utime(tmp_path / name, of_file)
    (tmp_path / "folder").mkdir()  # such as that of XLA for GPUs
    os.utime(tmp_path / "folder", times["old"])
    remove_unused(tmp_path, days=30)
    assert {path.name for path in tmp_path.iterdir()} == {"read", "written", "folder", ".looked"}
    os.utime(tmp_path / "read", times["old"])
    remove_unused(tmp_path, days=30)
    assert (tmp_path / "read").exists()
    os.utime(tmp_path / ".looked", times["old"])
    remove_unused(tmp_path, days=30)
    assert not (tmp_path / "read").exists()


def test_only_the_user_can_write_where_programs_are(unset, monkeypatch, tmp_path):
    monkeypatch.setenv("ATTN_JAX_CACHE", str(tmp_path / "new"))
    use_compilation_cache()
    assert stat.S_IMODE((tmp_path / "new" / "programs").stat().st_mode) == 0o700


USE = """
import sys
import jax
jax.numpy.arange(7).sum().block_until_ready()  # compiled before the cache is chosen
import attn_jax
attn_jax.load(sys.argv[1]).translate(["1 2 3"])
"""


def test_a_run_is_used_with_and_without_a_cache(cache, tmp_path):
    run, kept = tmp_path / "run", tmp_path / "kept"
    works("train", f"--workdir={run}", *SMALL)
    told = works("translate", f"--workdir={run}", stdin="1 2\n", ATTN_JAX_CACHE=str(NOWHERE))
    assert told.stderr == ""

    def programs_after_use():
        command = [sys.executable, "-c", USE, str(run)]
        environment = os.environ | {"ATTN_JAX_CACHE": str(kept)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        return {path.name for path in (kept / "programs").iterdir()}

    first = programs_after_use()
    assert any("decode" in name or "search" in name for name in first), first
    assert programs_after_use() == first


def test_of_a_program_in_the_cache_it_is_known_how_long_its_compilation_takes():
    with compilations() as seconds:
        jax.monitoring.record_event_duration_secs(COMPILED, 1.0)
        jax.monitoring.record_event_duration_secs(SAVED, 4.0)
        jax.monitoring.record_event_duration_secs("/another", 9.0)
    jax.monitoring.record_event_duration_secs(COMPILED, 1.0)
    assert seconds == {COMPILED: 1.0, SAVED: 4.0}
    jax.clear_caches()
    with compilations() as seconds:  # these are the names of JAX's events
        jax.jit(lambda x: jnp.sin(x) @ x.T + 4251)(jnp.ones((3, 5)))
    assert seconds[COMPILED] > 0
