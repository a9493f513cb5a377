"""Straightforward attention of known queries in PyTorch, as a side of the benchmark."""

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F

from .peer_device import DEVICE, finish
from .side import serve


def sparsemax(scores: torch.Tensor) -> torch.Tensor:
    """The point of the simplex that is closest to the scores, along the last axis."""
    descending, _ = torch.sort(scores, dim=-1, descending=True)
    ranks = torch.arange(1, scores.shape[-1] + 1, device=scores.device)
    sums = torch.cumsum(descending, dim=-1)
    support = (1 + ranks * descending > sums).sum(dim=-1, keepdim=True)
    threshold = (sums.gather(-1, support - 1) - 1) / support
    return torch.relu(scores - threshold)


class Attention(nn.Module):
    """Attention by one of the operations."""

    def __init__(self, operation: str, size: int):
        super().__init__()
        self.operation = operation
        self.query = nn.Linear(size, size, bias=False)
        self.key = nn.Linear(size, size, bias=False)
        self.energy = nn.Linear(size, 1, bias=False)
        self.filters = nn.Conv1d(1, 10, 11, padding=5, bias=False)
        self.location = nn.Linear(10, size)

    def forward(self, queries: torch.Tensor, annotations: torch.Tensor) -> torch.Tensor:
        """The contexts [B, T, D]."""
        if self.operation == "location_aware":
            return self._one_by_one(queries, annotations)
        if self.operation == "additive":
            hidden = self.query(queries)[:, :, None] + self.key(annotations)[:, None]
            scores = self.energy(torch.tanh(hidden))[..., 0]
        else:
            seen = self.query(queries) if self.operation == "general" else queries
            scores = torch.bmm(seen, annotations.mT)
        weights = sparsemax(scores) if self.operation == "sparsemax" else F.softmax(scores, dim=-1)
        return torch.bmm(weights, annotations)

    def _one_by_one(self, queries: torch.Tensor, annotations: torch.Tensor) -> torch.Tensor:
        keys, projected = self.key(annotations), self.query(queries)
        weights = annotations.new_zeros(annotations.shape[:2])
        contexts = []
        for query in projected.unbind(1):
            around = self.location(self.filters(weights[:, None]).mT)
            scores = self.energy(torch.tanh(query[:, None] + keys + around))[..., 0]
            weights = F.softmax(scores, dim=-1)
            contexts.append(torch.bmm(weights[:, None], annotations)[:, 0])
        return torch.stack(contexts, dim=1)


def prepare(
    operation: str,
    batch: int,
    source_length: int,
    target_length: int,
    size: int,
    derivative: bool,
) -> Callable[[], None]:
    """Prepares the contexts of a batch, or gradients by queries, annotations and parameters."""
    torch.manual_seed(0)
    with torch.device(DEVICE):
        model = Attention(operation, size)
        queries = torch.randn(batch, target_length, size, requires_grad=derivative)
        annotations = torch.randn(batch, source_length, size, requires_grad=derivative)

    def repeat() -> None:
        if derivative:
            model.zero_grad(set_to_none=True)
            queries.grad = annotations.grad = None
            model(queries, annotations).square().sum().backward()
        else:
            with torch.no_grad():
                model(queries, annotations)
        finish()

    return repeat


if __name__ == "__main__":
    serve(prepare)
