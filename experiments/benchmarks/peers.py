"""What the peers compute: models in straightforward PyTorch, with its own cells and layers; Keras.

PyTorch computes on a GPU if it finds one, unless `bench` hides it.
"""

import os
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F

from .side import serve

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

if DEVICE == "cuda":
    # Round the factors of float32 products to TF32, as JAX does.
    torch.set_float32_matmul_precision("high")


def finish() -> None:
    """Waits for all computations, which a GPU runs asynchronously."""
    if DEVICE == "cuda":
        torch.cuda.synchronize()


class RNNsearch(nn.Module):
    """Bidirectional GRU; attention from the previous state; a GRU cell; maxout."""

    def __init__(self, vocabulary: int, size: int):
        super().__init__()
        self.source = nn.Embedding(vocabulary, size)
        self.target = nn.Embedding(vocabulary, size)
        self.encoder = nn.GRU(size, size, batch_first=True, bidirectional=True)
        self.first = nn.Linear(size, size)
        self.query = nn.Linear(size, size, bias=False)
        self.key = nn.Linear(2 * size, size, bias=False)
        self.energy = nn.Linear(size, 1, bias=False)
        self.cell = nn.GRUCell(3 * size, size)
        self.readout = nn.Linear(4 * size, 2 * size)
        self.output = nn.Linear(size, vocabulary)

    def forward(self, source: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
        """The logits [B, T, V]."""
        annotations, last = self.encoder(self.source(source))
        state = torch.tanh(self.first(last[1]))
        keys = self.key(annotations)
        embeddings = self.target(before)
        states, contexts = [], []
        for embedding in embeddings.unbind(1):
            scores = self.energy(torch.tanh(self.query(state)[:, None] + keys))
            weights = torch.softmax(scores, dim=1)
            context = torch.bmm(weights.mT, annotations)[:, 0]
            state = self.cell(torch.cat([embedding, context], dim=-1), state)
            states.append(state)
            contexts.append(context)
        known = [torch.stack(states, 1), embeddings, torch.stack(contexts, 1)]
        return self.output(torch.maximum(*self.readout(torch.cat(known, -1)).chunk(2, dim=-1)))


class Luong(nn.Module):
    """Two layers of LSTM; the general score from the new state; input feeding."""

    def __init__(self, vocabulary: int, size: int):
        super().__init__()
        self.source = nn.Embedding(vocabulary, size)
        self.target = nn.Embedding(vocabulary, size)
        self.encoder = nn.LSTM(size, size, num_layers=2, batch_first=True)
        self.lower = nn.LSTMCell(2 * size, size)
        self.upper = nn.LSTMCell(size, size)
        self.key = nn.Linear(size, size, bias=False)
        self.combine = nn.Linear(2 * size, size, bias=False)
        self.output = nn.Linear(size, vocabulary)

    def forward(self, source: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
        """The logits [B, T, V]."""
        annotations, (hidden, memory) = self.encoder(self.source(source))
        keys = self.key(annotations)
        lower, upper = zip(hidden, memory, strict=True)
        read = torch.zeros_like(hidden[0])
        features = []
        for embedding in self.target(before).unbind(1):
            lower = self.lower(torch.cat([embedding, read], dim=-1), lower)
            upper = self.upper(lower[0], upper)
            weights = torch.softmax(torch.bmm(keys, upper[0][:, :, None]), dim=1)
            context = torch.bmm(weights.mT, annotations)[:, 0]
            read = torch.tanh(self.combine(torch.cat([context, upper[0]], dim=-1)))
            features.append(read)
        return self.output(torch.stack(features, 1))


class Transformer(nn.Module):
    """PyTorch's own, with three blocks on each side, four heads, and fixed random positions."""

    def __init__(self, vocabulary: int, size: int, longest: int = 512):
        super().__init__()
        self.source = nn.Embedding(vocabulary, size)
        self.target = nn.Embedding(vocabulary, size)
        self.register_buffer("positions", torch.randn(longest, size) * 0.1)
        self.transformer = nn.Transformer(
            size, 4, 3, 3, dim_feedforward=4 * size, dropout=0.0, batch_first=True
        )
        self.output = nn.Linear(size, vocabulary)

    def forward(self, source: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
        """The logits [B, T, V]."""
        length = before.shape[1]
        causal = nn.Transformer.generate_square_subsequent_mask(length, device=source.device)
        features = self.transformer(
            self.source(source) + self.positions[: source.shape[1]],
            self.target(before) + self.positions[:length],
            tgt_mask=causal,
            tgt_is_causal=True,
        )
        return self.output(features)


MODELS = {"rnnsearch": RNNsearch, "luong": Luong, "transformer": Transformer}


def loss(model: nn.Module, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """The mean cross-entropy of the target tokens in nats."""
    before = F.pad(target[:, :-1], (1, 0), value=1)
    return F.cross_entropy(model(source, before).flatten(0, 1).float(), target.flatten())


def training(
    system: str,
    batch: int,
    source_length: int,
    target_length: int,
    vocabulary: int,
    size: int,
    precision: str,
    measure: Callable[..., torch.Tensor] = loss,
) -> Callable[[], None]:
    """Prepares a training step on one batch, with Adam and gradient clipping."""
    torch.manual_seed(0)
    with torch.device(DEVICE):
        model = MODELS[system](vocabulary, size)
        source = torch.randint(4, vocabulary, (batch, source_length))
        target = torch.randint(4, vocabulary, (batch, target_length))
    optimizer = torch.optim.Adam(model.parameters(), fused=True)

    def repeat() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(DEVICE, torch.bfloat16, enabled=precision == "bfloat16"):
            value = measure(model, source, target)
        value.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        finish()

    return repeat


def compiled_training(**settings) -> Callable[[], None]:
    """The same, compiled by PyTorch."""
    return training(**settings, measure=torch.compile(loss))


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


def repeating(
    module: nn.Module, contexts: Callable, batch: int, length: int, size: int, derivative: bool
) -> Callable[[], None]:
    """Prepares the contexts of a batch, or gradients by parameters, queries and annotations."""
    shape = batch, length, size
    queries, annotations = (
        torch.randn(shape, device=DEVICE, requires_grad=derivative) for _ in range(2)
    )

    def repeat() -> None:
        with torch.set_grad_enabled(derivative):
            found = contexts(queries, annotations)
        if derivative:
            module.zero_grad(set_to_none=True)
            queries.grad = annotations.grad = None
            found.square().sum().backward()
        finish()

    return repeat


def attention(operation: str, size: int, **settings) -> Callable[[], None]:
    """Attention of known queries in PyTorch."""
    torch.manual_seed(0)
    model = Attention(operation, size).to(DEVICE)
    return repeating(model, model, size=size, **settings)


def keras_attention(operation: str, size: int, **settings) -> Callable[[], None]:
    """Additive attention of known queries by Keras' own layer, on PyTorch."""
    os.environ["KERAS_BACKEND"] = "torch"
    import keras

    keras.utils.set_random_seed(0)
    query, key = (keras.layers.Dense(size, use_bias=False) for _ in range(2))
    scored = keras.layers.AdditiveAttention()

    def contexts(queries: torch.Tensor, annotations: torch.Tensor) -> torch.Tensor:
        return scored([query(queries), annotations, key(annotations)])

    return repeating(nn.ModuleList([query, key, scored]), contexts, size=size, **settings)


if __name__ == "__main__":
    serve(training, compiled_training, attention, keras_attention)
