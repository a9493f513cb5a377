"""Additive attention by Keras' own layer on PyTorch, as a side of the benchmark."""

import os
from collections.abc import Callable

os.environ["KERAS_BACKEND"] = "torch"

import keras
import torch

from .peer_device import DEVICE, finish
from .side import serve


def prepare(
    operation: str,
    batch: int,
    source_length: int,
    target_length: int,
    size: int,
    derivative: bool,
) -> Callable[[], None]:
    """Prepares the contexts of a batch, or gradients by queries, annotations and parameters."""
    keras.utils.set_random_seed(0)
    query, key = (keras.layers.Dense(size, use_bias=False) for _ in range(2))
    attention = keras.layers.AdditiveAttention()
    with torch.device(DEVICE):
        queries = torch.randn(batch, target_length, size, requires_grad=derivative)
        annotations = torch.randn(batch, source_length, size, requires_grad=derivative)

    def contexts() -> torch.Tensor:
        return attention([query(queries), annotations, key(annotations)])

    def repeat() -> None:
        if derivative:
            for layer in (query, key, attention):
                layer.zero_grad(set_to_none=True)
            queries.grad = annotations.grad = None
            contexts().square().sum().backward()
        else:
            with torch.no_grad():
                contexts()
        finish()

    return repeat


if __name__ == "__main__":
    serve(prepare)
