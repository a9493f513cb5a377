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


def run(cell, vectors):
    h = np.zeros(double(cell.recurrent.kernel).shape[0])
    states = []
    for x in vectors:
        h = gru(cell, h, linear(cell.input, x))
        states.append(h)
    return states


def encode(model, source):
    """The annotations [S, D] and the summary of one unpadded sentence."""
    vectors = [double(model.source_embedding.embedding)[i] for i in source]
    forward = run(model.encoder.forward, vectors)
    if not hasattr(model.encoder, "backward"):
        return np.array(forward), forward[-1]
    backward = run(model.encoder.backward, vectors[::-1])[::-1]
    joined = [np.concatenate(pair) for pair in zip(forward, backward, strict=True)]
    return np.array(joined), backward[0]


def attend(model, s, annotations):
    p = {name: double(value) for name, value in model.decoder.attention.parameters.items()}
    weights = softmax(np.array([p["v"] @ np.tanh(s @ p["W"] + h @ p["U"]) for h in annotations]))
    return sum(w * h for w, h in zip(weights, annotations, strict=True)), weights


def readout(model, *inputs):
    joined = np.concatenate(inputs)
    if not hasattr(model.decoder.readout, "linear"):
        return joined
    both = linear(model.decoder.readout.linear, joined)
    return np.maximum(both[: len(both) // 2], both[len(both) // 2 :])


def decode(model, order, source, before):
    """Logits [T, V] and alignment [T, S] of one sentence, with an additive score."""
    annotations, summary = encode(model, source)
    decoder = model.decoder
    s = np.tanh(linear(decoder.initial, summary))
    logits, alignment = [], []
    for word in before:
        y = double(model.target_embedding.embedding)[word]
        if order == "bahdanau":
            c, weights = attend(model, s, annotations)
            s = gru(decoder.cell, s, linear(decoder.cell.input, y) + linear(decoder.context, c))
            features = readout(model, s, y, c)
        else:
            s = gru(decoder.cell, s, linear(decoder.cell.input, y))
            c, weights = attend(model, s, annotations)
            features = readout(model, np.tanh(linear(decoder.combine, np.concatenate([c, s]))))
        logits.append(linear(model.output, features))
        alignment.append(weights)
    return np.array(logits), np.array(alignment)
