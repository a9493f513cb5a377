"""The device of PyTorch: a GPU if it finds one, unless `bench` hides it."""

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

if DEVICE == "cuda":
    # Round the factors of float32 products to TF32, as JAX does.
    torch.set_float32_matmul_precision("high")


def finish() -> None:
    """Waits for all computations, which a GPU runs asynchronously."""
    if DEVICE == "cuda":
        torch.cuda.synchronize()
