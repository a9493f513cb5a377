"""Calls of the programs as users make them, for tests."""

import os
import subprocess
import sys
from pathlib import Path

# Flags of a tiny run. In a flag file, those that do not concern the run of a test are no error.
SMALL = [f"--flagfile={Path(__file__).with_name('small.flags')}"]


def program(name, *arguments, stdin="", **environment):
    """Runs a program with flags, input and variables of the environment."""
    return subprocess.run(
        [sys.executable, "-m", "attn_jax", name, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        text=True,
        env=os.environ | environment,
    )


def works(name, *arguments, **options):
    """Runs a program that must succeed."""
    done = program(name, *arguments, **options)
    assert done.returncode == 0, done.stderr
    return done


def refused(name, *arguments, **options):
    """The one line with which a program must refuse its input."""
    done = program(name, *arguments, **options)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    (line,) = done.stderr.splitlines()
    return line
