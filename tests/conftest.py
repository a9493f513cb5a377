"""Set-up of all tests. They do not read or write the user's cache, and keep their own programs."""

import contextlib
import itertools
import os
from pathlib import Path

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from jaxtyping import install_import_hook

os.environ["NPROC"] = "16"  # virtual devices on few cores can starve one another
# Tests compile a hundred times more than they compute. `test_xla_flags` runs some without this.
QUICK = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
if "OPTIMIZED" not in os.environ:
    os.environ["XLA_FLAGS"] = f"{QUICK} {os.environ.get('XLA_FLAGS', '')}"

# Compiled programs outlive a run of the tests: most of their time is compilation.
KEPT = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "attn_jax-tests/programs"
# What `--shapes` checks: the parts of attention. Functions of whole models and those of the library
# take arrays of NumPy too, which their annotations do not say.
PARTS = "scores position_scores compositions normalizers monotonic windows gates mixing"
SHAPED = [f"attn_jax.attention.{name}" for name in PARTS.split()]
TESTS = itertools.count(1)  # that have been run
# Tests are of what is computed; on a busy machine anything may be slow.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


def pytest_addoption(parser):
    parser.addoption("--all", action="store_true", help="both stages; see tests/stages.py")
    parser.addoption("--cold", action="store_true", help="compile all programs anew")
    parser.addoption("--shapes", action="store_true", help="check the shapes of arrays")


def pytest_configure(config):
    """Nothing of the package is imported before this."""
    if config.option.shapes:
        install_import_hook(SHAPED, "beartype.beartype")


def pytest_sessionfinish(session):
    """Removes programs that no test has read for a week."""
    from attn_jax.cache import remove_unused

    if not hasattr(session.config, "workerinput"):
        remove_unused(KEPT, days=7)


def pytest_collection_modifyitems(config, items):
    """Leaves out the second stage, unless it or some files are asked for.

    Slow tests may take as long as they need.
    """
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.timeout(0))
    some = config.args_source is not config.ArgsSource.TESTPATHS or config.option.keyword
    if config.option.all or some or config.option.markexpr != "not slow":
        return
    later = [item for item in items if item.get_closest_marker("full")]
    config.hook.pytest_deselected(items=later)
    items[:] = [item for item in items if not item.get_closest_marker("full")]


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory, worker_id, pytestconfig):
    """The cache of one session, shared by its workers; its programs are those of all sessions."""
    from attn_jax.cache import use_compilation_cache

    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "cache"
    folder.mkdir(exist_ok=True)
    if not pytestconfig.option.cold:
        KEPT.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):  # another worker was first
            (folder / "programs").symlink_to(KEPT)
    os.environ["ATTN_JAX_CACHE"] = str(folder)
    use_compilation_cache()
    return folder


@pytest.fixture(autouse=True)
def programs():
    """Drops loaded programs now and then: a process has room for only some thousands."""
    yield
    if next(TESTS) % 100 == 0:
        jax.clear_caches()


@pytest.fixture
def generator():
    """A NumPy generator."""
    return np.random.default_rng(7)
