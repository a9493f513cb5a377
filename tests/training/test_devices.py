"""Training on several devices, in a process that has them."""

import os
import subprocess
import sys
from pathlib import Path

from attn_jax.config import Train
from attn_jax.training.devices import make_mesh, summary
from tests.stages import full

pytestmark = full


def test_one_device_shares_with_none():
    assert make_mesh(Train()) is None
    assert summary(Train()) == "on one device: cpu"


def test_four_devices():
    """All tests of `four_devices.py`."""
    file = Path(__file__).with_name("four_devices.py")
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n0", str(file)],
        env=os.environ | flags,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
