"""RNNsearch and its parts in float64 loops over sentences and steps, from the papers."""

import numpy as np


def double(parameter):
    return np.asarray(parameter[...], np.float64)


def linear(layer, x):
    y = x @ double(layer.kernel)
    return y if layer.bias is None else y + double(layer.bias)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(scores):
    e = np.exp(scores - scores.max())
    return e / e.sum()


def gru(cell, h, gates):
    n = len(h)
    recurrent = linear(cell.recurrent, h)
    r = sigmoid(gates[:n] + recurrent[:n])
    z = sigmoid(gates[n : 2 * n] + recurrent[n : 2 * n])
    candidate = np.tanh(gates[2 * n :] + r * recurrent[2 * n :])
    return (1 - z) * candidate + z * h


def lstm(cell, state, gates):
    h, c = state
    n = len(h)
    i, f, g, o = (gates + linear(cell.recurrent, h)).reshape(4, n)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def reset_first(cell, h, gates):
    n = len(h)
    recurrent = linear(cell.recurrent, h)
    r = sigmoid(gates[:n] + recurrent[:n])
    z = sigmoid(gates[n : 2 * n] + recurrent[n:])
    return (1 - z) * h + z * np.tanh(gates[2 * n :] + linear(cell.candidate, r * h))


class Cell:
    """A cell of the model with its state."""

    def __init__(self, cell, hidden=None):
        units = double(cell.recurrent.kernel).shape[0]
        self.cell = cell
        self.hidden = np.zeros(units) if hidden is None else hidden
        self.memory = np.zeros(units)

    def read(self, gates):
        kind = type(self.cell).__name__
        if kind == "LSTM":
            self.hidden, self.memory = lstm(self.cell, (self.hidden, self.memory), gates)
        elif kind == "Tanh":
            self.hidden = np.tanh(gates + linear(self.cell.recurrent, self.hidden))
        else:
            step = {"GRU": gru, "GRUResetFirst": reset_first}[kind]
            self.hidden = step(self.cell, self.hidden, gates)
        return self.hidden


class Cells:
    """A cell or a stack of them, with its state."""

    def __init__(self, cell, hidden):
        self.cells = [Cell(one, hidden) for one in getattr(cell, "cells", [cell])]
        self.adds = type(cell).__name__ == "ResidualStack"
        self.hidden = hidden * len(self.cells) if self.adds else hidden

    def read(self, gates):
        first, *above = self.cells
        self.hidden = first.read(gates)
        for cell in above:
            output = cell.read(linear(cell.cell.input, self.hidden))
            self.hidden = output + self.hidden if self.adds else output
        return self.hidden


def run(cell, vectors):
    reader = Cell(cell)
    return [reader.read(linear(cell.input, x)) for x in vectors]


def encode(model, source):
    """The annotations [S, D] and the summary of one unpadded sentence."""
    vectors = [double(model.source_embedding.embedding)[i] for i in source]
    for number, layer in enumerate(model.encoder.layers):
        annotations = run(layer.forward, vectors)
        summary = annotations[-1]
        if hasattr(layer, "backward"):
            backward = run(layer.backward, vectors[::-1])[::-1]
            annotations = [np.concatenate(p) for p in zip(annotations, backward, strict=True)]
            summary = backward[0]
        if model.encoder.adds and number:
            annotations = [a + x for a, x in zip(annotations, vectors, strict=True)]
        vectors = annotations
    return np.array(vectors), summary


def attend(attention, s, annotations):
    """The context [O] and the weights [N, S] of every head, with an additive score."""
    p = {name: double(value) for name, value in attention.scores[0].items()}
    heads = attention.projections
    contexts, weights = [], []
    key_heads, groups = p["W"].shape[:2]
    projected = hasattr(heads, "queries")
    for k in range(key_heads):
        for g in range(groups):
            query, keys, values = s, annotations, annotations
            if projected:
                number, size = k * groups + g, heads.sizes.Q
                query = linear(heads.queries, s)[number * size : (number + 1) * size]
                columns = slice(k * size, (k + 1) * size)
                keys = np.array([linear(heads.keys, h)[columns] for h in annotations])
                values = np.array([linear(heads.values, h)[columns] for h in annotations])
            W, U, v = (p[name][k, g] for name in ("W", "U", "v"))
            chosen = softmax(np.array([v @ np.tanh(query @ W + h @ U) for h in keys]))
            contexts.append(sum(w * h for w, h in zip(chosen, values, strict=True)))
            weights.append(chosen)
    context = np.concatenate(contexts)
    if projected and heads.output is not None:
        context = linear(heads.output, context)
    return context, np.array(weights)


def readout(model, *inputs):
    joined = np.concatenate(inputs)
    if not hasattr(model.decoder.readout, "linear"):
        return joined
    both = linear(model.decoder.readout.linear, joined)
    return np.maximum(both[: len(both) // 2], both[len(both) // 2 :])


def decode(model, order, source, before):
    """Logits [T, V] and alignment [L, N, T, S] of one sentence, with an additive score."""
    annotations, summary = encode(model, source)
    vectors = [double(model.target_embedding.embedding)[word] for word in before]
    steps = transformer if order == "transformer" else recurrent
    features, alignment = steps(model, order, annotations, summary, vectors)
    return np.array([linear(model.output, f) for f in features]), alignment


def recurrent(model, order, annotations, summary, vectors):
    decoder, attention = model.decoder, model.decoder.attention
    cell = Cells(decoder.cell, np.tanh(linear(decoder.initial, summary)))
    lowest = cell.cells[0].cell
    read = np.zeros_like(cell.hidden)
    features, alignment = [], []
    for y in vectors:
        gates = linear(lowest.input, y)
        if order == "bahdanau":
            c, weights = attend(attention, cell.hidden, annotations)
            s = cell.read(gates + linear(decoder.context, c))
            features.append(readout(model, s, y, c))
        else:
            fed = linear(decoder.feed, read) if order == "luong_input_feeding" else 0
            s = cell.read(gates + fed)
            c, weights = attend(attention, s, annotations)
            read = np.tanh(linear(decoder.combine, np.concatenate([c, s])))
            features.append(readout(model, read))
        alignment.append(weights)
    return features, np.moveaxis(np.array(alignment), 0, 1)[None]


def normed(norm, x):
    centred = x - x.mean()
    return centred / np.sqrt((centred**2).mean() + 1e-5) * double(norm.scale) + double(norm.bias)


def transformer(model, order, annotations, summary, vectors):
    """Vaswani et al. 2017, one word after the other, from all words before it."""
    decoder = model.decoder
    xs = []
    for position, y in enumerate(vectors):
        x = linear(decoder.input, y)
        for i in range(len(x)):
            angle = position / 10000 ** (2 * (i // 2) / len(x))
            x[i] += np.sin(angle) if i % 2 == 0 else np.cos(angle)
        xs.append(x)
    alignment = []
    for block in decoder.blocks:
        heads = block.self_attention.heads
        projected = [linear(block.self_attention.inputs, x).reshape(3, heads, -1) for x in xs]
        outputs, layer = [], []
        for t, x in enumerate(xs):
            read = []
            for n in range(heads):
                query = projected[t][0, n]
                scores = [query @ projected[u][1, n] / np.sqrt(len(query)) for u in range(t + 1)]
                weights = softmax(np.array(scores))
                read.append(sum(w * projected[u][2, n] for u, w in enumerate(weights)))
            x = normed(
                block.self_norm, x + linear(block.self_attention.output, np.concatenate(read))
            )
            c, weights = attend(block.cross_attention.attention, x, annotations)
            x = normed(block.cross_attention.norm, x + c)
            hidden = np.maximum(linear(block.widen, x), 0)
            outputs.append(normed(block.norm, x + linear(block.narrow, hidden)))
            layer.append(weights)
        xs = outputs
        alignment.append(np.moveaxis(np.array(layer), 0, 1))
    return [readout(model, x) for x in xs], np.array(alignment)
