"""Every mechanism in float64 loops over positions, written from the papers' equations.

Nothing here is vectorised over source positions or shared with the code that it checks. Positions
count from 0, except in the formulas of gmm and local_p, where they count from 1. `past` holds the
state after the earlier steps: `step`, `weights`, `total`, and the carries of gmm and mocha.
"""

import itertools
import math
from types import SimpleNamespace

import numpy as np


def matvec(matrix, vector):
    """Σ_i v_i M_ij, a loop."""
    rows, columns = matrix.shape
    return np.array([sum(vector[i] * matrix[i, j] for i in range(rows)) for j in range(columns)])


def perceptron(v, *terms):
    return sum(v[a] * math.tanh(sum(term[a] for term in terms)) for a in range(len(v)))


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


# Scores: (query, annotations, mask, past, **parameters) -> a number for each position.


def additive(query, annotations, mask, past, *, W, U, v):
    return [perceptron(v, matvec(W, query), matvec(U, h)) for h in annotations]


def dot(query, annotations, mask, past):
    return [sum(q * d for q, d in zip(query, h, strict=True)) for h in annotations]


def scaled_dot(query, annotations, mask, past):
    return [e / math.sqrt(len(query)) for e in dot(query, annotations, mask, past)]


def general(query, annotations, mask, past, *, W):
    pairs = list(itertools.product(range(W.shape[0]), range(W.shape[1])))
    return [sum(query[i] * W[i, j] * h[j] for i, j in pairs) for h in annotations]


def concat(query, annotations, mask, past, *, W, v):
    return [perceptron(v, matvec(W, np.concatenate([query, h]))) for h in annotations]


def cosine(query, annotations, mask, past, *, W, w, b):
    key = matvec(W, query)
    strength = math.log(1 + math.exp(sum(w * query) + b))
    return [
        strength * sum(key * h) / math.sqrt(sum(key * key)) / math.sqrt(sum(h * h))
        for h in annotations
    ]


def linear(query, annotations, mask, past, *, W, U):
    def features(x):
        return np.array([1 + y if y > 0 else math.exp(y) for y in x])

    asked = features(matvec(W, query))
    return [math.log(sum(asked * features(matvec(U, h)))) for h in annotations]


def relative(query, annotations, mask, past, *, b):
    distance = (len(b) - 1) // 2
    return [
        e + b[distance + min(max(j - past.step, -distance), distance)]
        for j, e in enumerate(scaled_dot(query, annotations, mask, past))
    ]


def location(query, annotations, mask, past, *, W):
    row = matvec(W, query)
    return [row[j] if j < len(row) else -math.inf for j in range(len(annotations))]


def location_aware(query, annotations, mask, past, *, W, U, F, V, b, v):
    scores, width = [], len(F)
    for j, h in enumerate(annotations):
        f = np.zeros(F.shape[1])
        for m in range(width):
            k = j + m - width // 2
            if 0 <= k < len(annotations):
                f += F[m] * past.weights[k]
        scores.append(perceptron(v, matvec(W, query), matvec(U, h), matvec(V, f), b))
    return scores


def coverage(query, annotations, mask, past, *, W, U, v, V, f):
    scores = []
    for j, h in enumerate(annotations):
        covered = past.total[j] / (2 * sigmoid(sum(f * h)))
        scores.append(perceptron(v, matvec(W, query), matvec(U, h), covered * V))
    return scores


def gmm(query, annotations, mask, past, *, W, b):
    numbers = [math.exp(x) for x in matvec(W, query) + b]
    bells = len(numbers) // 3
    heights, sharpness, steps = numbers[:bells], numbers[bells : 2 * bells], numbers[2 * bells :]
    past.centres = [c + s for c, s in zip(past.centres or [0] * bells, steps, strict=True)]
    return [
        math.log(
            sum(
                heights[k] * math.exp(-sharpness[k] * (past.centres[k] - u) ** 2)
                for k in range(bells)
            )
        )
        for u in range(1, len(annotations) + 1)
    ]


def mean(query, annotations, mask, past):
    return [0.0] * len(annotations)


def last(query, annotations, mask, past):
    final = max(j for j, real in enumerate(mask) if real)
    return [0.0 if j == final else -math.inf for j in range(len(annotations))]


def projected(score):
    """Another score of W s and U h_j."""

    def loop(query, annotations, mask, past, *, W, U, compared):
        keys = np.array([matvec(U, h) for h in annotations])
        return score(matvec(W, query), keys, mask, past, **compared)

    return loop


def pair(one, other):
    """Two scores, a list for each."""

    def loop(query, annotations, mask, past, *, first, second):
        return [
            one(query, annotations, mask, past, **first),
            other(query, annotations, mask, past, **second),
        ]

    return loop


# Windows: (query, mask, past, **parameters) -> what is added to scores, and their gain.


def inside(support):
    return [0.0 if allowed else -math.inf for allowed in support]


def full(query, mask, past):
    return inside(mask), [1.0] * len(mask)


def local_m(query, mask, past, half_width):
    final = max(j for j, real in enumerate(mask) if real)
    centre = min(past.step, final)
    return inside(abs(j - centre) <= half_width for j in range(len(mask))), [1.0] * len(mask)


def local_p(query, mask, past, half_width, *, W, v):
    length = 1 + max(j for j, real in enumerate(mask) if real)
    centre = length * sigmoid(perceptron(v, matvec(W, query)))
    support = [abs(s - centre) <= half_width for s in range(1, len(mask) + 1)]
    gain = [
        math.exp(-((s - centre) ** 2) / (2 * (half_width / 2) ** 2))
        for s in range(1, len(mask) + 1)
    ]
    return inside(support), gain


# Normalizers: (scores, mask, past, **parameters) -> weights.


def softmax(scores, mask, past=None, tau=1.0):
    top = max(e for e, real in zip(scores, mask, strict=True) if real)
    parts = [
        math.exp((e - top) / tau) if real else 0.0 for e, real in zip(scores, mask, strict=True)
    ]
    return [x / sum(parts) for x in parts]


def null(scores, mask, past, *, n):
    return softmax([n, *scores], [True, *mask])[1:]


def sigmoids(scores, mask, past):
    bias = -math.log(sum(mask))
    return [sigmoid(e + bias) if real else 0.0 for e, real in zip(scores, mask, strict=True)]


def exponential(scores, mask, past):
    return [math.exp(e) if real else 0.0 for e, real in zip(scores, mask, strict=True)]


def sparsemax(scores, mask, past):
    """Finds the support by trying all of them."""
    real = [j for j, r in enumerate(mask) if r]
    for size in range(1, len(real) + 1):
        for support in itertools.combinations(real, size):
            threshold = (sum(scores[j] for j in support) - 1) / size
            if all((scores[j] > threshold) == (j in support) for j in real):
                return [scores[j] - threshold if j in support else 0.0 for j in range(len(mask))]
    raise AssertionError("no support")


def entmax(alpha):
    def normalizer(scores, mask, past):
        def weights(threshold):
            bases = [(alpha - 1) * e - threshold for e in scores]
            return [
                max(x, 0) ** (1 / (alpha - 1)) if real else 0.0
                for x, real in zip(bases, mask, strict=True)
            ]

        top = max((alpha - 1) * e for e, real in zip(scores, mask, strict=True) if real)
        low, high = top - 1, top
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (middle, high) if sum(weights(middle)) >= 1 else (low, middle)
        return weights(low)

    return normalizer


def first(mask):
    begin = [j for j, real in enumerate(mask) if real][:1]
    return [1.0 if j in begin else 0.0 for j in range(len(mask))]


def stopping(chances, before):
    """Equation 9 of Raffel et al. 2017: a sum over where the previous step stopped."""
    return [
        chances[j]
        * sum(before[k] * math.prod(1 - chances[m] for m in range(k, j)) for k in range(j + 1))
        for j in range(len(chances))
    ]


def chances_of(scores, mask, r):
    return [sigmoid(e + r) if real else 0.0 for e, real in zip(scores, mask, strict=True)]


def monotonic(scores, mask, past, *, r):
    before = past.weights if past.step else first(mask)
    return stopping(chances_of(scores, mask, r), before)


def hard_monotonic(scores, mask, past, *, r):
    """Algorithm 1 of Raffel et al. 2017."""
    before = past.weights if past.step else first(mask)
    for j in range(int(np.argmax(before)) if any(before) else len(mask), len(mask)):
        if mask[j] and sigmoid(scores[j] + r) > 0.5:
            return [float(k == j) for k in range(len(mask))]
    return [0.0] * len(mask)


def mocha(scores, mask, past, *, r, chunk=3):
    """Section 2.3 of Chiu and Raffel 2018."""
    past.stopped = stopping(chances_of(scores[0], mask, r), past.stopped or first(mask))
    length = len(mask)

    def part(j):
        return math.exp(scores[1][j]) if mask[j] else 0.0

    return [
        sum(
            past.stopped[k] * part(j) / sum(part(m) for m in range(max(k - chunk + 1, 0), k + 1))
            for k in range(j, min(j + chunk, length))
            if past.stopped[k]
        )
        for j in range(length)
    ]


def hard_mocha(scores, mask, past, *, r, chunk=3):
    """Algorithm 1 of Chiu and Raffel 2018."""
    stopped = past.stopped or first(mask)
    begin = int(np.argmax(stopped)) if any(stopped) else len(mask)
    stops = (j for j in range(begin, len(mask)) if mask[j] and sigmoid(scores[0][j] + r) > 0.5)
    stop = next(stops, None)
    past.stopped = [float(j == stop) for j in range(len(mask))]
    if stop is None:
        return past.stopped
    within = [real and stop - chunk < j <= stop for j, real in enumerate(mask)]
    return softmax(scores[1], within)


def forward(scores, mask, past):
    """Algorithm 1 of Zhang, Ling and Dai 2018."""
    before = past.weights if past.step else first(mask)
    attention = softmax(scores, mask)
    moved = [
        (before[j] + (before[j - 1] if j else 0.0)) * attention[j] for j in range(len(attention))
    ]
    return [x / sum(moved) for x in moved]


def attend(queries, annotations, mask, score, window, normalizer):
    """The contexts [T, D] and the weights [T, S] of one sentence, step by step."""
    nothing, no_context = [0.0] * len(mask), np.zeros(annotations.shape[1])
    past = SimpleNamespace(step=0, weights=nothing, total=nothing, context=no_context)
    past.centres = past.stopped = None  # what gmm and mocha carry
    contexts, alignment = [], []
    for query in queries:
        scores = score(query, annotations, mask, past)
        bias, gain = window(query, mask, past)
        scores = (np.array(scores) + bias).tolist()
        energies = scores if np.ndim(scores) == 1 else scores[0]
        support = [real and e > -math.inf for real, e in zip(mask, energies, strict=True)]
        weights = [w * g for w, g in zip(normalizer(scores, support, past), gain, strict=True)]
        past.step += 1
        past.weights = weights
        past.total = [a + b for a, b in zip(past.total, weights, strict=True)]
        past.context = np.array(
            [
                sum(w * h[d] for w, h in zip(weights, annotations, strict=True))
                for d in range(annotations.shape[1])
            ]
        )
        alignment.append(weights)
        contexts.append(past.context)
    return np.array(contexts), np.array(alignment)
