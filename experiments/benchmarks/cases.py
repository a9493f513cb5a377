"""The cases that this project and its peers compute in turn, in groups that are chosen by name."""

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

# Small models, all of whose layers have `size` features.
BASE = {"batch": 64, "source_length": 25, "target_length": 25, "vocabulary": 8000, "size": 256}
GROWTH = {
    "batch": (16, 32, 64, 128, 256),
    "source_length": (10, 25, 50, 100, 200),
    "target_length": (10, 25, 50, 100, 200),
    "vocabulary": (1000, 2000, 4000, 8000, 16000, 32000),
}
LENGTHS = {64: 16, 128: 16, 256: 16, 512: 4, 1024: 2}  # sentence length to batch size


class Case(NamedTuple):
    """One task for all sides."""

    name: str
    units: int  # units of work in a repetition
    unit: str  # their name
    settings: dict[str, Any]
    sides: dict[str, tuple[str, str]]  # module and function of each; this project's is the first


def step(name: str, peers: tuple[str, ...], **settings: Any) -> Case:
    """A training step here and in PyTorch."""
    settings = BASE | settings
    sides = {"attn_jax": ("ours", "training")}
    known = {"PyTorch": "training", "PyTorch, compiled": "compiled_training"}
    sides |= {peer: ("peers", known[peer]) for peer in peers}
    tokens = settings["batch"] * settings["target_length"]
    return Case(name, tokens, "target tokens", settings, sides)


def training(**sizes: int) -> Iterator[Case]:
    """Training steps of three systems, in both precisions."""
    systems, precisions = ("rnnsearch", "luong", "transformer"), ("float32", "bfloat16")
    for system, precision in itertools.product(systems, precisions):
        peers = ("PyTorch", "PyTorch, compiled")
        yield step(f"{system}, {precision}", peers, system=system, precision=precision, **sizes)


def growth() -> Iterator[Case]:
    """Training steps of RNNsearch as one size grows."""
    for what, sizes in GROWTH.items():
        for size in sizes:
            settings = {what: size, "system": "rnnsearch", "precision": "float32"}
            yield step(f"{what} {size}", ("PyTorch",), **settings)


def attention() -> Iterator[Case]:
    """Attention operations, forwards only and with derivatives."""
    operations = ("additive", "general", "dot", "sparsemax", "location_aware")
    for operation, (length, batch), derivative in itertools.product(
        operations, LENGTHS.items(), (False, True)
    ):
        sides = {"attn_jax": ("ours", "attention"), "PyTorch": ("peers", "attention")}
        if operation == "additive":
            sides["Keras"] = ("peers", "keras_attention")
        settings = {
            "operation": operation,
            "batch": batch,
            "length": length,
            "size": BASE["size"],
            "derivative": derivative,
        }
        name = f"{operation}, {length}, {'and derivative' if derivative else 'forwards'}"
        yield Case(name, batch * length, "queries", settings, sides)


GROUPS: dict[str, Callable[[], Iterator[Case]]] = {
    "training": training,
    "large": partial(training, size=1024, batch=256),
    "growth": growth,
    "attention": attention,
}
