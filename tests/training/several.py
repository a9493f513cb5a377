"""One of several processes that train: `several ADDRESS PROCESSES PROCESS CALLS ANSWERS`.

`CALLS` is a list of options and folders, in JSON. For each, the file of answers gets the sentence
with which training was refused, or null.
"""

import json
import sys
from pathlib import Path

import jax

from attn_jax import train
from attn_jax.errors import InputError

address, count, number, calls, answers = sys.argv[1:]
jax.distributed.initialize(address, int(count), int(number))


def refusal(options, folder):
    try:
        train(options, folder)
    except InputError as error:
        return str(error)


Path(answers).write_text(json.dumps([refusal(*call) for call in json.loads(calls)]))
