"""Programs: train, evaluate, translate, align, export, sweep, report, catalogue and bench."""

import logging
import signal
import sys

# While `python -m` imports a program, which takes seconds, an interrupt ends it without a
# traceback; afterwards, `program.run` handles interrupts. A shell may have told it to ignore them.
if sys.argv[0] == "-m" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

# Where no folder can be written to, Matplotlib warns that it will look for fonts in every process.
logging.getLogger("matplotlib").setLevel(logging.ERROR)
