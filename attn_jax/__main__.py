"""The console command `attn_jax`, whose first word names one of the programs in `attn_jax.cli`."""

import importlib
import os
import signal
import sys

# Read by Python and by the system as a process starts, so the command starts itself anew with them.
ENVIRONMENT = {
    # Python is not to look for its own modules in the current folder.
    "PYTHONSAFEPATH": "1",
    # Huge pages for large arrays, which each step allocates anew, if the system grants them.
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}
PROGRAMS = {
    "compare": "finds the best attention mechanism for your data, in the time that you give",
    "train": "trains one model and evaluates it",
    "sweep": "trains every combination of a grid of options",
    "watch": "shows how far a sweep is that runs elsewhere",
    "report": "tables and figures of trained models",
    "evaluate": "scores a trained model on a text",
    "translate": "translates lines",
    "align": "aligns translated text, scores the alignment and draws it",
    "page": "shows weights of any toolkit in a browser",
    "export": "writes decoding as one file, for JAX alone",
    "check": "checks a part of attention, or a loss, of your own",
    "main": "compares attention with no attention on two tasks: 3 to 12 minutes",
}


def usage() -> str:
    """How to use the command."""
    width = max(map(len, PROGRAMS))
    told = [f"  attn_jax {name.ljust(width)}  {does}" for name, does in PROGRAMS.items()]
    return "\n".join([*told, "", "attn_jax <program> --help lists the flags of a program"])


def main() -> None:
    """Runs a program in this process."""
    missing = {name: value for name, value in ENVIRONMENT.items() if name not in os.environ}
    if missing:
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], os.environ | missing)
    command, *words = sys.argv[1:] or ["help"]
    if command in ("help", "--help", "-h"):
        print(usage())
        return
    if command not in PROGRAMS:
        print(f"error: unknown program {command}\n{usage()}", file=sys.stderr)
        sys.exit(2)
    # While a program is imported, which takes seconds, an interrupt ends it without a traceback;
    # afterwards, `program.run` handles interrupts. A shell may have told it to ignore them.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.argv = ["attn_jax", *words]
    importlib.import_module("attn_jax.cli.program").run(
        importlib.import_module(f"attn_jax.cli.{command}")
    )


if __name__ == "__main__":
    main()
