"""Calls of the programs as users make them, for tests."""

import atexit
import multiprocessing
import os
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import NamedTuple

# Flags of a tiny run. In a flag file, those that do not concern the run of a test are no error.
SMALL = [f"--flagfile={Path(__file__).with_name('small.flags')}"]

# Importing takes seconds. A server imports once what the programs need, and forks for each call;
# neither JAX's backend nor another thread has been started then.
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(
    [
        "attn_jax.__main__",
        "attn_jax.runs.comparing",
        "attn_jax.runs.tuning",
        "attn_jax.translation.exporting",
        "experiments.command.flags",
        __name__,
    ]
)


class Done(NamedTuple):
    """How a program has ended, as `subprocess.run` says it."""

    returncode: int
    stdout: str
    stderr: str


def program(name, *arguments, stdin="", **environment):
    """Runs a program with flags, input and variables of the environment."""
    words = [name, *map(str, arguments)]
    if environment:  # which JAX and Python read as they start
        return subprocess.run(
            [sys.executable, "-m", "attn_jax", *words],
            input=stdin,
            capture_output=True,
            text=True,
            env=os.environ | environment,
        )
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, each) for each in ("in", "out", "err")]
        files[0].write_text(stdin)
        process = SERVER.Process(target=_main, args=(words, files, dict(os.environ), os.getcwd()))
        process.start()
        process.join()
        return Done(process.exitcode, files[1].read_text(), files[2].read_text())


def _main(words, files, environment, folder):
    """The command in a process that the server has forked."""
    for number, (file, mode) in enumerate(zip(files, ("r", "w", "w"), strict=True)):
        with file.open(mode) as opened:
            os.dup2(opened.fileno(), number)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    from attn_jax import __main__ as command

    os.environ.update(command.ENVIRONMENT)
    sys.argv = ["attn_jax", *words]
    try:
        command.main()
    except Exception:  # a program that fails shows a traceback, and ends with status 1
        traceback.print_exc()
        sys.exit(1)
    finally:
        atexit._run_exitfuncs()  # of the program; a forked process would leave them out


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
