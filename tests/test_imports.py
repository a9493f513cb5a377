"""Importing the package changes nothing in the process that imports it."""

import subprocess
import sys

# Prints what differs after all modules were imported; what other packages do comes before.
CODE = """
import atexit, importlib, logging, os, pkgutil, signal, sys, threading, warnings
import babel.dates, flax.nnx, grain, jax, matplotlib, optax, orbax.checkpoint, requests, rich
import sacrebleu, scipy.stats, sentencepiece, tensorboardX, tensorflow_datasets
from absl import flags
from matplotlib import figure, font_manager, pyplot
from tensorflow_datasets.core import shuffle
from tensorflow_datasets.core.download import downloader

def state():
    loggers = {
        name: (one.level, one.propagate, one.disabled, *one.filters, *one.handlers)
        for name, one in {"": logging.root, **logging.root.manager.loggerDict}.items()
        if isinstance(one, logging.Logger)
    }
    return {
        "hooks": (sys.excepthook, sys.unraisablehook, sys.displayhook, threading.excepthook),
        "warnings": [*warnings.filters],
        "environment": {**os.environ},
        "options of JAX": {**jax.config.values},
        "signals": {number: signal.getsignal(number) for number in signal.valid_signals()},
        "paths": (os.getcwd(), *sys.path, *sys.meta_path, *sys.path_hooks),
        "done at exit": atexit._ncallbacks(),
        "flags": [*flags.FLAGS],
        "threads": threading.enumerate(),
        "style": {**matplotlib.rcParams},
        **{f"logger {name}": settings for name, settings in loggers.items()},
        **{
            f"{owner.__name__}.{name}": value
            for owner in (requests, requests.Session, downloader, shuffle)
            for name, value in vars(owner).items()
        }
    }

before = state()
package = importlib.import_module("attn_jax")
for module in pkgutil.walk_packages(package.__path__, "attn_jax."):
    importlib.import_module(module.name)
after = state()
print(*(name for name in before if before[name] != after[name]), sep="\\n")
if sys.modules["attn_jax.startup"]._jax_has_started():
    print("devices of JAX")
"""


def test_importing_every_module_changes_nothing():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
