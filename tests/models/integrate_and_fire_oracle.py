"""Dong and Xu 2020 in float64, as a loop over positions: accumulate, fire, split the weight."""

import itertools

import numpy as np

from tests.models.arithmetic import linear, sigmoid


def position_weights(attention, annotations):
    """α_j of an unpadded sentence."""
    nothing = np.zeros(annotations.shape[1])
    padded = [nothing, *annotations, nothing]
    for j in range(len(annotations)):
        window = np.concatenate(padded[j : j + 3])
        hidden = np.maximum(0, linear(attention.window, window))
        yield sum(sigmoid(linear(attention.weights, hidden)))


def fired(weights, annotations):
    """The vectors c_i with their weights [S]; behind the last, zeros without end."""
    accumulated, vector, shares = 0.0, 0.0, np.zeros(len(weights))
    for j, (weight, h) in enumerate(zip(weights, annotations, strict=True)):
        left = weight
        while accumulated + left >= 1:
            part = 1 - accumulated
            shares[j] += part
            yield vector + part * h, shares
            left -= part
            accumulated, vector, shares = 0.0, 0.0, np.zeros(len(weights))
        accumulated += left
        vector = vector + left * h
        shares[j] += left
    if accumulated >= 0.5:
        yield vector / accumulated, shares / accumulated
    yield from itertools.repeat((np.zeros(annotations.shape[1]), np.zeros(len(weights))))


def attend(attention, annotations, count=None):
    """As `oracle.attend`, but without a query; `count` is that of the target words in training."""
    weights = np.array([*position_weights(attention, annotations)])
    if count is not None:
        weights = weights * count / weights.sum()
    vectors = fired(weights, annotations)

    def following(*_):
        c, shares = next(vectors)
        return c, shares[None]

    return following
