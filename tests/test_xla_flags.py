"""The numerical tests once more, with the programs that XLA makes for users."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

NUMERICAL = ["tests/attention", "tests/models", "tests/decoding", "tests/training"]
LAUNCHED = "--xla_cpu_prefer_vector_width=512"  # as in launch.sh


@pytest.mark.slow
@pytest.mark.parametrize("flags", ["", LAUNCHED], ids=["XLA's own", "launch.sh"])
def test_numerical_tests_pass_with_optimized_programs(flags):
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "auto", *NUMERICAL],
        cwd=Path(__file__).parents[1],
        env=os.environ | {"XLA_FLAGS": flags, "OPTIMIZED": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-5000:]
