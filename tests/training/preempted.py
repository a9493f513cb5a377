"""Training where JAX is distributed, over one process, which gets SIGTERM; prints how it ended."""

import os
import signal
import socket
import sys
from pathlib import Path

import jax

from attn_jax.errors import Paused
from tests.training.test_loop import train

with socket.socket() as free:
    free.bind(("localhost", 0))
    address = f"localhost:{free.getsockname()[1]}"
jax.distributed.initialize(address, num_processes=1, process_id=0)
workdir = Path(sys.argv[1])


def validation(model):
    os.kill(os.getpid(), signal.SIGTERM)
    return {"perplexity": 1.0}


try:
    train(workdir, validation, steps=20000, valid_every=4, buckets=1)
except Paused as paused:
    print(paused)
