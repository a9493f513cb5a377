"""The precision of matrix products, and which one is fast on a device."""

import contextlib
from pathlib import Path
from typing import Any

import jax

from attn_jax.errors import InputError
from attn_jax.kernels.factors import BFLOAT16
from attn_jax.settings.value import Value

Device = Any  # `jax.Device`, which type checkers take for a variable


class Precision(Value):
    """The precision of the factors of products; all else has that of the parameters."""

    def context(self) -> contextlib.AbstractContextManager:
        """The context in which a function is traced to have it."""
        raise NotImplementedError


class Float32(Precision):
    """What the device makes of float32: TF32 on a GPU, bfloat16 on a TPU."""

    def context(self) -> contextlib.AbstractContextManager:
        """JAX's own setting."""
        return contextlib.nullcontext()


class Bfloat16(Precision):
    """Factors in bfloat16, sums in float32."""

    def context(self) -> contextlib.AbstractContextManager:
        """JAX's setting for such products."""
        return jax.default_matmul_precision(BFLOAT16)


PRECISIONS: dict[str, type[Precision]] = {one.name: one for one in (Float32, Bfloat16)}

PROCESSOR = Path("/proc/cpuinfo")
INSTRUCTIONS = ("amx_bf16", "avx512_bf16")  # for products of bfloat16, as Linux names them


def multiplies_bfloat16(device: Device) -> bool:
    """Whether a device multiplies bfloat16 in hardware; False if that is not known."""
    if device.platform == "cpu":
        has = PROCESSOR.read_text().split() if PROCESSOR.is_file() else []
        return any(instruction in has for instruction in INSTRUCTIONS)
    if device.platform == "gpu":
        return (_capability(device) or 0) >= 8
    return device.platform == "tpu"


def _capability(device: Device) -> int | None:
    """The major compute capability of an NVIDIA GPU; None for other devices."""
    # Other GPUs have names instead, such as gfx90a.
    major = str(getattr(device, "compute_capability", "")).partition(".")[0]
    return int(major) if major.isdigit() else None


def check(compute: Precision, device: Device) -> None:
    """Raises InputError if bfloat16 is asked for on an NVIDIA GPU that does not multiply it."""
    known = _capability(device) is not None
    if compute == Bfloat16() and known and not multiplies_bfloat16(device):
        raise InputError(
            f"train.compute=bfloat16 needs a GPU of compute capability 8 or more: this one, "
            f"{device.device_kind}, has {device.compute_capability}"
        )


# Hidden units from which on bfloat16 is recommended. On two cores with AVX-512, 32 sentences of 16
# tokens, a step of RNNsearch took 0.64 times as long with 128, 0.76 with 64, 0.9 with 32.
LARGE = 128


def advice(compute: Precision, device: Device, hidden_size: int) -> str | None:
    """A recommendation if a precision is not the fast one of a device, else None."""
    if device.platform == "tpu":
        return None  # which rounds the factors of float32 products to bfloat16 anyway
    if multiplies_bfloat16(device) == (compute == Bfloat16()):
        return None
    if compute == Bfloat16():
        return "this device may not multiply bfloat16: train.compute=float32 may be faster"
    if hidden_size < LARGE:
        return None
    return "this device multiplies bfloat16: train.compute=bfloat16 may be faster"
