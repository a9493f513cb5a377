"""Calls of the programs as users make them, for tests."""

import os
import subprocess
import sys

SMALL = [
    "--data.examples=300",
    "--data.held_out=20",
    "--data.longest=6",
    "--model.embedding_size=8",
    "--model.annotation_size=16",
    "--model.hidden_size=16",
    "--model.alignment_size=8",
    "--model.readout_size=8",
    "--train.steps=20",
    "--train.valid_every=10",
    "--train.buckets=1",
]


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
