"""The arrays of a checkpoint: their names, a digest to detect damage, and how they are read."""

import asyncio
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import jax
import numpy as np
import orbax.checkpoint as ocp


def named_leaves(tree: Any) -> dict[str, Any]:
    """The leaves of a pytree by their paths, which are the names under which they are stored."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}


def digest(leaves: dict[str, Any]) -> str:
    """SHA-256 of names, types, shapes and bytes, since Orbax does not detect a flipped bit."""
    sha = hashlib.sha256()
    for name, leaf in sorted(leaves.items()):
        array = np.asarray(leaf)
        sha.update(f"{name} {array.dtype} {array.shape}".encode())
        sha.update(array.tobytes())
    return sha.hexdigest()


def shapes(leaves: dict[str, Any]) -> dict[str, str]:
    """The type and shape of each array as text, which is stored beside the arrays."""
    return {name: f"{leaf.dtype}{list(leaf.shape)}" for name, leaf in leaves.items()}


def abstract(shape: str) -> jax.ShapeDtypeStruct:
    """The type and shape that `shapes` gave as a text such as `float32[2, 3]`."""
    dtype, bracket, sizes = shape.partition("[")
    return jax.ShapeDtypeStruct(json.loads(bracket + sizes), dtype)


class _Patient(ocp.type_handlers.ArrayHandler):
    """Reads arrays, and waits for all reads to end even if one fails.

    Orbax closes its event loop at the first error; each read that ended later would print another.
    """

    async def deserialize(
        self,
        infos: Sequence[ocp.type_handlers.ParamInfo],
        args: Sequence[ocp.type_handlers.RestoreArgs] | None = None,
    ) -> Sequence[jax.Array]:
        others = asyncio.all_tasks()
        try:
            return await super().deserialize(infos, args)
        finally:
            await asyncio.gather(*asyncio.all_tasks() - others, return_exceptions=True)


def read_arrays(folder: Path, like: dict[str, Any]) -> dict[str, jax.Array]:
    """Reads arrays from a folder, with the names, types and shapes of those in `like`."""
    target = {
        name: jax.ShapeDtypeStruct(np.shape(leaf), leaf.dtype, sharding=_one_device())
        for name, leaf in like.items()
    }
    handlers = ocp.type_handlers.create_type_handler_registry((jax.Array, _Patient()))
    how = ocp.args.PyTreeRestore(target, ocp.checkpoint_utils.construct_restore_args(target))
    handler = ocp.PyTreeCheckpointHandler(type_handler_registry=handlers)
    # It takes paths of any kind, though its types name another.
    return handler.restore(cast(Any, folder), args=how)


def _one_device() -> jax.sharding.Sharding:
    # Given explicitly, so that a checkpoint from other devices can be read in this process.
    return jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
