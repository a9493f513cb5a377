"""The Transformer in float64 loops over words, from Vaswani et al. 2017 and Su et al. 2021."""

import numpy as np

from tests.models.arithmetic import double, linear, softmax


def normed(norm, x):
    centred = x - x.mean()
    return centred / np.sqrt((centred**2).mean() + 1e-5) * double(norm.scale) + double(norm.bias)


def around(residual, x, f):
    """The residual sum around a part for one word, and the other outputs of the part."""
    pre = type(residual).__name__ == "PreNorm"
    y, *rest = f(normed(residual.norm, x) if pre else x)
    return x + y if pre else normed(residual.norm, x + y), *rest


def enter(input_embedding, vectors):
    xs = []
    for position, vector in enumerate(vectors):
        x = np.sqrt(len(vector)) * vector
        x = x if input_embedding.linear is None else linear(input_embedding.linear, x)
        if input_embedding.positions.__name__ == "Sinusoidal":
            angles = [position / 10000 ** (2 * (i // 2) / len(x)) for i in range(len(x))]
            x = x + [np.cos(a) if i % 2 else np.sin(a) for i, a in enumerate(angles)]
        xs.append(x)
    return xs


def turned(x, position):
    """A query or key of one head, each two features rotated as one complex number."""
    rates = 10000.0 ** (-np.arange(0, len(x), 2) / len(x))
    both = (x[::2] + 1j * x[1::2]) * np.exp(1j * position * rates)
    return np.ravel(np.column_stack([both.real, both.imag]))


def self_attend(attention, xs, seen, kept=None):
    """One word after another; `seen(t)` are the words that word t attends to.

    The weights [N, T, T] are appended to the list `kept`.
    """
    heads, rotary = attention.heads, attention.positions.__name__ == "Rotary"

    def project(t):
        x = xs[t]
        if type(attention.residual).__name__ == "PreNorm":
            x = normed(attention.residual.norm, x)
        query, key, value = linear(attention.inputs, x).reshape(3, heads, -1)
        if rotary:
            query, key = (np.array([turned(h, t) for h in each]) for each in (query, key))
        return query, key, value

    projected = [project(t) for t in range(len(xs))]
    of_all = np.zeros((heads, len(xs), len(xs)))

    def read(t):
        parts = []
        for n in range(heads):
            query = projected[t][0][n]
            scores = [query @ projected[u][1][n] / np.sqrt(len(query)) for u in seen(t)]
            weights = of_all[n, t, list(seen(t))] = softmax(np.array(scores))
            parts.append(sum(w * projected[u][2][n] for w, u in zip(weights, seen(t), strict=True)))
        return linear(attention.output, np.concatenate(parts))

    if kept is not None:
        kept.append(of_all)
    return [around(attention.residual, x, lambda _, t=t: (read(t),))[0] for t, x in enumerate(xs)]


def feed(part, x):
    return around(
        part.residual, x, lambda y: (linear(part.narrow, np.maximum(linear(part.widen, y), 0)),)
    )[0]


def last(stack, xs):
    return xs if stack.norm is None else [normed(stack.norm, x) for x in xs]


def encode(encoder, vectors, kept=None):
    """The annotations, their mean, and no states."""
    xs = enter(encoder.input_embedding, vectors)
    for block in encoder.blocks:
        xs = self_attend(block.self_attention, xs, lambda t: range(len(vectors)), kept)
        xs = [feed(block.feed_forward, x) for x in xs]
    annotations = np.array(last(encoder, xs))
    return annotations, annotations.mean(axis=0), []


def states(decoder, vectors, kept=None):
    """The states of a decoder that sees previous words alone."""
    xs = enter(decoder.input_embedding, vectors)
    for block in decoder.blocks:
        xs = self_attend(block.self_attention, xs, lambda t: range(t + 1), kept)
        xs = [feed(block.feed_forward, x) for x in xs]
    return last(decoder, xs)


def decode(decoder, vectors, annotations, attend, kept=None):
    """The features and the alignment; `attend` is the cross-attention of one query."""
    xs, alignment = enter(decoder.input_embedding, vectors), []
    for block in decoder.blocks:
        xs = self_attend(block.self_attention, xs, lambda t: range(t + 1), kept)
        cross = block.cross_attention
        read = [
            around(cross.residual, x, lambda q, c=cross: attend(c.attention, q, annotations))
            for x in xs
        ]
        xs = [feed(block.feed_forward, x) for x, _ in read]
        alignment.append(np.moveaxis(np.array([weights for _, weights in read]), 0, 1))
    return last(decoder, xs), np.array(alignment)
