"""The precision of products, and which one a device is fast in."""

import contextlib
import functools
from pathlib import Path

import jax

# Of the factors of products; all else is in the precision of the parameters.
PRECISIONS = {
    "float32": contextlib.nullcontext,
    "bfloat16": functools.partial(jax.default_matmul_precision, "BF16_BF16_F32"),
}

PROCESSOR = Path("/proc/cpuinfo")


def has_matrix_units(device: jax.Device) -> bool:
    """Whether a device has units for products in bfloat16; False where that is not known."""
    if device.platform == "cpu":
        return PROCESSOR.is_file() and "amx_bf16" in PROCESSOR.read_text()
    if device.platform == "gpu":
        return float(getattr(device, "compute_capability", 0)) >= 8
    return device.platform == "tpu"


def advice(compute: str, device: jax.Device) -> str | None:
    """What to say of a precision that is not the fast one of a device."""
    if has_matrix_units(device) == (compute == "bfloat16"):
        return None
    if compute == "bfloat16":
        return "no units for bfloat16 are known here: --train.compute=float32 may be faster"
    return (
        "there are units for bfloat16 here: --train.compute=bfloat16 is faster, small models aside"
    )
