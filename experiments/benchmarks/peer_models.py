"""The models of the benchmark in straightforward PyTorch, with PyTorch's own cells and layers."""

import torch
from torch import nn
from torch.nn import functional as F


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
