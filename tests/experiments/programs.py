"""Calls of the programs as users make them, for tests."""

import atexit
import importlib
import io
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from attn_jax.cli import flags
from attn_jax.cli.program import run
from attn_jax.training import notice

# Flags of a tiny run. In a flag file, those that do not concern the run of a test are no error.
SMALL = [f"--flagfile={Path(__file__).with_name('small.flags')}"]

# Importing takes seconds. A server imports once what the programs need, and forks for each call;
# neither JAX's backend nor another thread has been started then.
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(
    [
        "attn_jax.__main__",
        "attn_jax.cli.compare",
        "attn_jax.cli.sweep",
        "attn_jax.cli.export",
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


def refused(name, *arguments, stdin="", **environment):
    """The one line with which a program must refuse its input.

    It is called in this process, unless variables of the environment are given.
    """
    done = program(name, *arguments, stdin=stdin, **environment) if environment else None
    done = done or _called(name, list(map(str, arguments)), stdin)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    (line,) = done.stderr.splitlines()
    return line


def _called(name, words, stdin):
    """A program as a function, after which what it sets in its process is as before."""
    called = importlib.import_module(f"attn_jax.cli.{name}")
    of_process = {"path": [*sys.path], "unraisablehook": sys.unraisablehook}
    given = io.TextIOWrapper(io.BytesIO(stdin.encode()))
    streams = {"stdin": given, "stdout": io.StringIO(), "stderr": io.StringIO()}
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    before = {*flags.FLAGS}
    with (
        mock.patch.multiple(sys, argv=["attn_jax", *words], **of_process, **streams),
        mock.patch.multiple(flags, _needed=[], _first=[]),
        mock.patch.object(notice, "_end", []),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("default")
        try:
            run(called)
            status = 0
        except SystemExit as ended:
            status = ended.code
        finally:
            for flag in {*flags.FLAGS} - before:
                delattr(flags.FLAGS, flag)
            for number, handler in handlers.items():
                signal.signal(number, handler)
    return Done(status, streams["stdout"].getvalue(), streams["stderr"].getvalue())
