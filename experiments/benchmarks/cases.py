"""The cases of the benchmark with their sides, in groups that are chosen by name."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

PRECISIONS = ("float32", "bfloat16")
SYSTEMS = ("rnnsearch", "luong", "transformer")
# Small models, all of whose layers have `size` features.
BASE = {
    "batch": 64,
    "source_length": 25,
    "target_length": 25,
    "vocabulary": 8000,
    "size": 256,
}
GROWTH = {
    "batch": (16, 32, 64, 128, 256),
    "source_length": (10, 25, 50, 100, 200),
    "target_length": (10, 25, 50, 100, 200),
    "vocabulary": (1000, 2000, 4000, 8000, 16000, 32000),
}


OPERATIONS = ("additive", "general", "dot", "sparsemax", "location_aware")
WITHOUT_PEERS = ("coverage", "gmm", "mocha")  # for comparing one version with another
LENGTHS = {64: 16, 128: 16, 256: 16, 512: 4, 1024: 2}  # sentence length to batch size


class Case(NamedTuple):
    """One task for all sides; the first side is this project's."""

    name: str
    units: int  # units of work in a repetition
    unit: str  # their name
    sides: dict[str, tuple[str, dict[str, Any]]]  # module and settings of each side


def step(name: str, settings: dict[str, Any], compiled: dict[str, bool]) -> Case:
    """A training step here and in PyTorch; `compiled` tells which peers compile it."""
    peers = {
        peer: ("peer_training", settings | {"compiled": whether})
        for peer, whether in compiled.items()
    }
    tokens = settings["batch"] * settings["target_length"]
    return Case(name, tokens, "target tokens", {"attn_jax": ("training", settings), **peers})


def training() -> Iterator[Case]:
    """Training steps of three systems, in both precisions."""
    for system in SYSTEMS:
        for precision in PRECISIONS:
            settings = {"system": system, **BASE, "precision": precision}
            peers = {"PyTorch": False, "PyTorch, compiled": True}
            yield step(f"{system}, {precision}", settings, peers)


def growth() -> Iterator[Case]:
    """Training steps of RNNsearch as one size grows."""
    for what, sizes in GROWTH.items():
        for size in sizes:
            settings = {"system": "rnnsearch", **BASE, what: size, "precision": "float32"}
            yield step(f"{what} {size}", settings, {"PyTorch": False})


def attention() -> Iterator[Case]:
    """Attention operations, forwards only and with derivatives."""
    for operation in (*OPERATIONS, *WITHOUT_PEERS):
        for length, batch in LENGTHS.items():
            for derivative in (False, True):
                settings = {
                    "operation": operation,
                    "batch": batch,
                    "source_length": length,
                    "target_length": length,
                    "size": BASE["size"],
                    "derivative": derivative,
                }
                modules = {"attn_jax": "attention"}
                if operation in OPERATIONS:
                    modules |= {"jnp": "plain_attention", "PyTorch": "peer_attention"}
                if operation == "additive":
                    modules["Keras"] = "peer_keras"
                sides = {name: (module, settings) for name, module in modules.items()}
                passes = "and derivative" if derivative else "forwards"
                name = f"{operation}, {length}, {passes}"
                yield Case(name, batch * length, "queries", sides)


GROUPS: dict[str, Callable[[], Iterator[Case]]] = {
    "training": training,
    "growth": growth,
    "attention": attention,
}
