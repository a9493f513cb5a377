"""One training step in PyTorch, as a side of the benchmark."""

from collections.abc import Callable

import torch

from .peer_device import DEVICE, finish
from .peer_models import MODELS, loss
from .side import serve


def prepare(
    system: str,
    batch: int,
    source_length: int,
    target_length: int,
    vocabulary: int,
    size: int,
    precision: str,
    compiled: bool,
) -> Callable[[], None]:
    """Prepares a training step on one batch, with Adam and gradient clipping."""
    torch.manual_seed(0)
    with torch.device(DEVICE):
        model = MODELS[system](vocabulary, size)
        source = torch.randint(4, vocabulary, (batch, source_length))
        target = torch.randint(4, vocabulary, (batch, target_length))
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    measure = torch.compile(loss) if compiled else loss

    def repeat() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(DEVICE, torch.bfloat16, enabled=precision == "bfloat16"):
            value = measure(model, source, target)
        value.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        finish()

    return repeat


if __name__ == "__main__":
    serve(prepare)
