"""Data parallelism: a batch split over the devices of all processes, parameters copied to each."""

from collections.abc import Callable

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import PyTree

from attn_jax.config import Train
from attn_jax.errors import InputError
from attn_jax.training import processes

AXIS = "devices"


def make_mesh(config: Train) -> Mesh | None:
    """A mesh of the most devices that split each part of a batch evenly; None if only one does.

    Of several processes, it has as many devices of each, those of the first process first.

    Raises:
      InputError: the processes cannot split a batch evenly.
    """
    rows, parties = config.batch_size // config.microbatches, processes.count()
    every = [[d for d in jax.devices() if d.process_index == n] for n in range(parties)]
    fitting = [n for n in range(1, min(map(len, every)) + 1) if rows % (n * parties) == 0]
    if not fitting:
        parts = f" in train.microbatches={config.microbatches}" * (config.microbatches > 1)
        raise InputError(
            f"train.batch_size={config.batch_size}{parts} cannot be shared evenly by {parties} "
            "processes"
        )
    used = [device for own in every for device in own[: max(fitting)]]
    return Mesh(np.array(used), (AXIS,)) if len(used) > 1 else None


def summary(config: Train) -> str:
    """A phrase that describes the devices on which a run is trained."""
    mesh, devices, parties = make_mesh(config), jax.devices(), processes.count()
    kind = devices[0].device_kind
    if len(devices) == 1:
        return f"on one device: {kind}"
    count = mesh.size if mesh else 1
    pairs = config.batch_size // count
    where = f"{len(devices)} devices" + (f" of {parties} processes" if parties > 1 else "")
    told = f"on {count} of {where}: {kind}, {pairs} pairs of a batch on each"
    if count == len(devices):
        return told
    whole = "it" if config.microbatches == 1 else "its parts"
    return f"{told}; more do not divide {whole} evenly"


def data_parallel(function: Callable, mesh: Mesh) -> Callable:
    """Splits the batch of a function of a model and a batch over the devices of a mesh.

    The function returns sums over the rows of its batch, which are then summed over the devices.
    """

    def on_device(model: PyTree, batch: PyTree) -> PyTree:
        return jax.lax.psum(function(model, batch), AXIS)

    whole, rows = PartitionSpec(), PartitionSpec(AXIS)
    # JAX's check of which values vary over devices would need annotated carries in every scan.
    return jax.shard_map(
        on_device, mesh=mesh, in_specs=(whole, rows), out_specs=whole, check_vma=False
    )


def replicate(tree: PyTree, mesh: Mesh) -> PyTree:
    """Copies a tree, which all processes have, to each device of a mesh."""
    return jax.tree.map(lambda leaf: _spread(leaf, mesh, PartitionSpec()), tree)


def split(batch: PyTree, mesh: Mesh) -> PyTree:
    """Spreads the rows of a batch, of which each process has its share, over a mesh."""
    return jax.tree.map(lambda leaf: _spread(leaf, mesh, PartitionSpec(AXIS)), batch)


def _spread(leaf: jax.Array | np.ndarray, mesh: Mesh, how: PartitionSpec) -> jax.Array:
    return jax.make_array_from_process_local_data(NamedSharding(mesh, how), leaf)


def first_replica(tree: PyTree) -> PyTree:
    """The copy of a replicated tree on the first device of this process."""
    return jax.tree.map(lambda leaf: leaf.addressable_data(0), tree)
