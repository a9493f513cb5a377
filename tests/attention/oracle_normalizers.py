"""More normalizers as loops, see `oracle`."""

import itertools
import math

import numpy as np
import scipy.optimize

from tests.attention.oracle import (
    chances_of,
    entmax,
    first,
    hard_mocha,
    mocha,
    null,
    sigmoid,
    softmax,
    sparsemax,
    stopping,
)


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
    """Arivazhagan et al. 2019, equation 10, stopping at the last word at the latest."""
    past.stopped = stopping(preserving(scores[0], mask, r, False), past.stopped or first(mask))
    return lookback(scores[1], mask, past.stopped)


def lookback(scores, mask, stopped):
    parts = [math.exp(u) if real else 0.0 for u, real in zip(scores, mask, strict=True)]
    return [
        sum(stopped[k] * parts[j] / sum(parts[: k + 1]) for k in range(j, len(mask)) if stopped[k])
        for j in range(len(mask))
    ]


def stepwise(hard):
    """He et al. 2019, equation 8; weight stays where no real word follows."""

    def normalizer(scores, mask, past, *, r):
        before = past.weights if past.step else first(mask)
        weights = [0.0] * len(mask)
        for j, weight in enumerate(before):
            follows = j + 1 < len(mask) and mask[j + 1]
            stays = float(scores[j] + r > 0) if hard else sigmoid(scores[j] + r)
            stays = stays if follows else 1.0
            weights[j] += weight * stays
            if follows:
                weights[j + 1] += weight * (1 - stays)
        return weights

    return normalizer


def mma_h(hard):
    """Ma et al. 2020: as Raffel et al. 2017, stopping at the last word at the latest."""

    def normalizer(scores, mask, past, *, r):
        before = past.weights if past.step else first(mask)
        return stopping(preserving(scores, mask, r, hard), before)

    return normalizer


def preserving(scores, mask, r, hard):
    chances = chances_of(scores, mask, r)
    if hard:
        chances = [float(x > 0.5) for x in chances]
    chances[max(j for j, real in enumerate(mask) if real)] = 1.0
    return chances


def stable_mocha(chunk, hard):
    """Miao et al. 2020, equation 23: as mocha, in training from the first word at each step."""

    def normalizer(scores, mask, past, *, r):
        if not hard:
            past.stopped = None
            return mocha(scores, mask, past, r=r, chunk=chunk)
        before = past.stopped
        weights = hard_mocha(scores, mask, past, r=r, chunk=chunk)
        if not any(past.stopped):
            past.stopped = before
        return weights

    return normalizer


def truncated(hard):
    """Miao et al. 2020, equations 28 to 33."""

    def normalizer(scores, mask, past, *, r):
        weights = stopping(chances_of(scores, mask, r), first(mask))
        if not hard:
            return weights
        begin = getattr(past, "end", 0)
        ends = [j for j in range(begin, len(mask)) if mask[j] and scores[j] + r > 0]
        if not ends:
            return [0.0] * len(mask)
        past.end = ends[0]
        return [x if j <= past.end else 0.0 for j, x in enumerate(weights)]

    return normalizer


def fusedmax(penalty):
    """Niculae and Blondel 2017: |x| is the largest of u x, -1 ≤ u ≤ 1."""

    def normalizer(scores, mask, past):
        real = np.flatnonzero(mask)
        rows = penalty * np.diff(np.eye(len(real)), axis=0)
        return against(scores, real, rows, 0 * real, -1)

    return normalizer


def oscarmax(penalty):
    """Niculae and Blondel 2017: max(x, y) is the largest of u x + (1 - u) y."""

    def normalizer(scores, mask, past):
        real = np.flatnonzero(mask)
        pairs = [*itertools.combinations(range(len(real)), 2)]
        one, other = (np.eye(len(real))[list(each)] for each in zip(*pairs, strict=True))
        return against(scores, real, penalty * (one - other), penalty * other.sum(axis=0), 0)

    return normalizer


def against(scores, real, rows, fixed, lowest):
    """The α that maximises min_u α · (e - fixed - uᵀ rows) - ‖α‖²/2, `lowest` ≤ u ≤ 1."""
    e = np.array(scores)[real]

    def largest(u):
        given = e - fixed - u @ rows
        alpha = np.array(sparsemax(given, [True] * len(given), None))
        return alpha @ given - alpha @ alpha / 2, -rows @ alpha

    begin = np.full(len(rows), (lowest + 1) / 2)
    bounds = [(lowest, 1)] * len(rows)
    options = {"ftol": 0, "gtol": 1e-12, "maxiter": 2000}
    found = scipy.optimize.minimize(largest, begin, jac=True, bounds=bounds, options=options)
    weights = np.zeros(len(scores))
    weights[real] = sparsemax(e - fixed - found.x @ rows, [True] * len(e), None)
    return weights.tolist()


def constrained_sparsemax(fertility):
    """Malaviya et al. 2018: the nearest weights below the bounds, by bisection for τ."""

    def normalizer(scores, mask, past):
        bounds = [fertility - t if real else 0.0 for t, real in zip(past.total, mask, strict=True)]
        if sum(bounds) <= 1:
            return bounds
        low, high = min(e for e in scores if e > -math.inf) - 1, max(scores)
        for _ in range(200):
            tau = (low + high) / 2
            weights = [min(max(e - tau, 0), b) for e, b in zip(scores, bounds, strict=True)]
            low, high = (low, tau) if sum(weights) < 1 else (tau, high)
        return weights

    return normalizer


def differential(scores, mask, past, *, a, b, c, d):
    """Ye et al. 2025, equations 1 to 3, at the first layer: l = 1 there."""
    first = 0.8 - 0.6 * math.exp(-0.3 * (1 - 1))
    size = math.exp(sum(a * b)) - math.exp(sum(c * d)) + first
    one, other = (softmax(each, mask) for each in scores)
    return [x - size * y for x, y in zip(one, other, strict=True)]


def continuous(bells):
    """Martins et al. 2020, with the integral of two bells by a sum over a fine grid."""

    def density(x, mean, variance):
        return np.exp(-((x - mean) ** 2) / (2 * variance)) / np.sqrt(2 * np.pi * variance)

    def normalizer(scores, mask, past):
        share, count = softmax(scores, mask), sum(mask)
        real = [j for j, r in enumerate(mask) if r]
        x = np.arange(1, count + 1) / count
        mu = sum(share[j] * at for j, at in zip(real, x, strict=True))
        var = sum(share[j] * (at - mu) ** 2 for j, at in zip(real, x, strict=True))
        var = max(var, 1 / 12 / count**2)
        centres = [n / (bells - 1) for n in range(bells)] * 2
        widths = [0.1] * bells + [0.5] * bells
        grid = np.linspace(-8, 9, 100_001)
        under = density(grid, mu, var)
        weights = np.zeros(len(mask))
        G = np.array([density(x, c, w * w) for c, w in zip(centres, widths, strict=True)])
        r = [
            (under * density(grid, c, w * w)).sum() * (grid[1] - grid[0])
            for c, w in zip(centres, widths, strict=True)
        ]
        weights[real] = G.T @ np.linalg.inv(G @ G.T + 0.1 * np.eye(2 * bells)) @ r
        return weights.tolist()

    return normalizer
