"""Where PyTorch computes: on a GPU where it finds one, unless `bench` hides it."""

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

if DEVICE == "cuda":
    # Products of float32 rounded to TF32, as those of JAX are.
    torch.set_float32_matmul_precision("high")


def finish() -> None:
    """Waits until all is computed, which a GPU does while Python goes on."""
    if DEVICE == "cuda":
        torch.cuda.synchronize()
