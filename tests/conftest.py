"""Set-up of all tests: checks array shapes, and neither reads nor writes the user's cache."""

import itertools
import os

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

TESTS = itertools.count(1)  # that have been run
# Tests are of what is computed; on a busy machine anything may be slow.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

with install_import_hook("attn_jax", "beartype.beartype"):
    from attn_jax.cache import use_compilation_cache


def pytest_addoption(parser):
    parser.addoption("--all", action="store_true", help="both stages; see tests/stages.py")


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
def cache(tmp_path_factory, worker_id):
    """One cache for the whole session, shared by its workers."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "cache"
    os.environ["ATTN_JAX_CACHE"] = str(folder)
    use_compilation_cache()
    return folder


@pytest.fixture(autouse=True)
def programs():
    """Drops compiled programs now and then: a process has room for only some thousands."""
    yield
    if next(TESTS) % 10 == 0:
        jax.clear_caches()


@pytest.fixture
def generator():
    """A NumPy generator."""
    return np.random.default_rng(7)
