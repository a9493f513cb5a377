"""How a process starts that trains or decodes: what makes its programs fast, the first ones too."""

import functools
import os
import warnings

import jax

from attn_jax.cache import use_compilation_cache
from attn_jax.errors import InputError

# Vectors of 512 bits, if the processor has them, instead of XLA's default of 256.
XLA_FLAGS = "--xla_cpu_prefer_vector_width=512"


def start() -> None:
    """Turns on the cache of compiled programs and the widest vectors of the processor.

    What the user has chosen, by variables of the environment or in JAX, stays as it is. `train`,
    `load` and the like call this. Call it yourself before you use JAX for anything else: XLA reads
    its flags once, when JAX starts.
    """
    use_compilation_cache()
    _use_wide_vectors()


def start_training() -> None:
    """Starts a process that trains, or that starts others that do: see `start`.

    Raises:
      InputError: JAX is configured for 64 bits.
    """
    if jax.config.jax_enable_x64:
        raise InputError("parameters are trained in float32: unset JAX_ENABLE_X64")
    start()


@functools.cache  # once for a process
def _use_wide_vectors() -> None:
    if "XLA_FLAGS" in os.environ:
        return
    if not _jax_has_started():
        os.environ["XLA_FLAGS"] = XLA_FLAGS
    elif jax.default_backend() == "cpu":
        advice = f"XLA_FLAGS={XLA_FLAGS}"
        warnings.warn(
            "JAX has started before attn_jax could choose the widest vectors of the processor, "
            f"without which training is slower: call attn_jax.start() first, or set {advice}",
            stacklevel=4,
        )


def _jax_has_started() -> bool:
    """Whether JAX has looked for devices; then it refuses to change their number."""
    kept = jax.config.jax_num_cpu_devices
    try:
        jax.config.update("jax_num_cpu_devices", 2 if kept == 1 else 1)
    except RuntimeError:
        return True
    jax.config.update("jax_num_cpu_devices", kept)
    return False
