"""More normalizers as loops, see `oracle`."""

import itertools
import math

import numpy as np

from tests.attention.oracle import chances_of, entmax, first, null, sigmoid, softmax, stopping


def off_by_one(scores, mask, past):
    return null(scores, mask, past, n=0.0)


def relu(scores, mask, past):
    return [max(e, 0.0) if real else 0.0 for e, real in zip(scores, mask, strict=True)]


def constrained_softmax(fertility):
    """Martins and Kreutzer 2017, by trying all sets of positions that are at their bounds."""

    def normalizer(scores, mask, past):
        bounds = [fertility - t for t in past.total]
        real = [j for j, r in enumerate(mask) if r]
        for size in range(len(real) + 1):
            for full in itertools.combinations(real, size):
                left = 1 - sum(bounds[j] for j in full)
                others = [j not in full and r for j, r in enumerate(mask)]
                if left < 0 or not any(others):
                    continue
                shares = [left * x for x in softmax(scores, others)]
                usual = sum(math.exp(scores[j]) for j in real if j not in full) / left
                if all(shares[j] <= bounds[j] + 1e-9 for j in real if j not in full) and all(
                    math.exp(scores[j]) / usual >= bounds[j] - 1e-9 for j in full
                ):
                    return [bounds[j] if j in full else x for j, x in enumerate(shares)]
        raise AssertionError("no such set")

    return normalizer


def smoothing(scores, mask, past):
    parts = [sigmoid(e) if real else 0.0 for e, real in zip(scores, mask, strict=True)]
    return [x / sum(parts) for x in parts]


def scalable_softmax(scores, mask, past, *, s):
    return softmax([s * math.log(sum(mask)) * e for e in scores], mask)


def intra_temporal(scores, mask, past):
    if not past.step:
        past.sums = [0.0] * len(scores)
        parts = [math.exp(e) if real else 0.0 for e, real in zip(scores, mask, strict=True)]
    else:
        parts = [
            math.exp(e) / total if real else 0.0
            for e, total, real in zip(scores, past.sums, mask, strict=True)
        ]
    past.sums = [
        t + (math.exp(e) if real else 0) for t, e, real in zip(past.sums, scores, mask, strict=True)
    ]
    return [x / sum(parts) for x in parts]


def selective(scores, mask, past):
    masked = past.masked if past.step else [0.0] * len(scores)
    past.masked = [f + max(e, 0) for f, e in zip(masked, scores, strict=True)]
    return softmax([e - f for e, f in zip(scores, masked, strict=True)], mask)


def stick_breaking(scores, mask, past):
    weights, left = [], 1.0
    for e, real in zip(scores, mask, strict=True):
        share = sigmoid(e) if real else 0.0
        weights.append(left * share)
        left *= 1 - share
    return weights


def straight_through(scores, mask, past):
    best = max((j for j, real in enumerate(mask) if real), key=lambda j: scores[j])
    return [float(j == best) for j in range(len(mask))]


def segments(scores, mask, past, *, t):
    """Sums over all 2^n sequences of choices."""
    real = [j for j, r in enumerate(mask) if r]
    total, read = 0.0, np.zeros(len(mask))
    for z in itertools.product((0, 1), repeat=len(real)):
        exponent = sum(scores[j] * on for j, on in zip(real, z, strict=True))
        exponent += sum(t[a, b] for a, b in itertools.pairwise(z))
        total += math.exp(exponent)
        read[real] += math.exp(exponent) * np.array(z)
    return (read / total).tolist()


def learned_entmax(scores, mask, past, *, a):
    return entmax(max(1 + sigmoid(a), 1.01))(scores, mask, past)


def top_k(k):
    def normalizer(scores, mask, past):
        best = sorted((j for j, real in enumerate(mask) if real), key=lambda j: -scores[j])[:k]
        return softmax(scores, [j in best for j in range(len(mask))])

    return normalizer


def evidential(scores, mask, past):
    real = [e for e, r in zip(scores, mask, strict=True) if r]
    mean = sum(real) / len(real)
    return softmax(scores, [r and e >= mean for e, r in zip(scores, mask, strict=True)])


def milk(scores, mask, past, *, r):
    """Arivazhagan et al. 2019, equation 10."""
    past.stopped = stopping(chances_of(scores[0], mask, r), past.stopped or first(mask))
    parts = [math.exp(u) if real else 0.0 for u, real in zip(scores[1], mask, strict=True)]
    return [
        sum(
            past.stopped[k] * parts[j] / sum(parts[: k + 1])
            for k in range(j, len(mask))
            if past.stopped[k]
        )
        for j in range(len(mask))
    ]


def stepwise(hard):
    """He et al. 2019, equation 8; weight stays where no real word follows."""

    def normalizer(scores, mask, past):
        before = past.weights if past.step else first(mask)
        weights = [0.0] * len(mask)
        for j, weight in enumerate(before):
            follows = j + 1 < len(mask) and mask[j + 1]
            stays = float(scores[j] > 0) if hard else sigmoid(scores[j])
            stays = stays if follows else 1.0
            weights[j] += weight * stays
            if follows:
                weights[j + 1] += weight * (1 - stays)
        return weights

    return normalizer
