"""Data parallelism: a batch split over the devices of a machine, parameters copied to each."""

from collections.abc import Callable

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import PyTree

from attn_jax.config import Train

AXIS = "devices"


def make_mesh(config: Train) -> Mesh | None:
    """A mesh of the most devices that split each part of a batch evenly; None if only one does."""
    devices = jax.local_devices()
    rows = config.batch_size // config.microbatches
    count = max(n for n in range(1, len(devices) + 1) if rows % n == 0)
    return Mesh(np.array(devices[:count]), (AXIS,)) if count > 1 else None


def summary(config: Train) -> str:
    """A phrase that describes the devices on which a run is trained."""
    mesh, devices = make_mesh(config), jax.local_devices()
    kind = devices[0].device_kind
    if len(devices) == 1:
        return f"on one device: {kind}"
    count = mesh.size if mesh else 1
    pairs = config.batch_size // count
    told = f"on {count} of {len(devices)} devices: {kind}, {pairs} pairs of a batch on each"
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
    """Copies a tree to each device of a mesh."""
    return jax.device_put(tree, NamedSharding(mesh, PartitionSpec()))


def first_replica(tree: PyTree) -> PyTree:
    """The copy of a replicated tree on the first device."""
    return jax.tree.map(lambda leaf: leaf.addressable_data(0), tree)
