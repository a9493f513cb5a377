"""More mechanisms as loops, see `oracle`: position scores with settings, filters, windows."""

import math

import numpy as np
from scipy.stats import betabinom, logistic, norm

from attn_jax.attention.content_scores import orthogonal
from tests.attention.oracle import (
    first,
    general,
    matvec,
    perceptron,
    scaled_dot,
    sigmoid,
    softmax,
)


def softplus(x):
    return math.log(1 + math.exp(x))


def length(mask):
    return 1 + max(j for j, real in enumerate(mask) if real)


def normed_additive(query, annotations, mask, past, *, W, U, v, g, b):
    size = math.sqrt(sum(x * x for x in v))
    return [perceptron(g * v / size, matvec(W, query), matvec(U, h), b) for h in annotations]


def scaled_general(query, annotations, mask, past, *, W, g):
    return [g * e for e in general(query, annotations, mask, past, W=W)]


def biased_general(query, annotations, mask, past, *, W, b):
    asked = matvec(W, query) + b
    return [sum(x * y for x, y in zip(asked, h, strict=True)) for h in annotations]


def activated_general(query, annotations, mask, past, *, W, b):
    return [math.tanh(e + b) for e in general(query, annotations, mask, past, W=W)]


def over_length(x):
    return [y / math.sqrt(sum(z * z for z in x)) for y in x]


def qk_norm(query, annotations, mask, past, *, g):
    asked = over_length(query)
    return [g * sum(map(lambda x, y: x * y, asked, over_length(h))) for h in annotations]


def qk_layer_norm(query, annotations, mask, past, *, of_query, of_key):
    def normed(x, gamma):
        root = math.sqrt(sum(y * y for y in x) / len(x))
        return [c * y / root for c, y in zip(gamma, x, strict=True)]

    asked = normed(query, of_query)
    return [
        sum(map(lambda x, y: x * y, asked, normed(h, of_key))) / math.sqrt(len(query))
        for h in annotations
    ]


def ngpt(query, annotations, mask, past, *, gamma):
    root = math.sqrt(len(query))
    asked, told = over_length(query), map(over_length, annotations)
    return [root * sum(map(lambda c, x, y: c * x * c * y, gamma, asked, h)) for h in told]


def performer(features):
    def loop(query, annotations, mask, past):
        directions = orthogonal(features, len(query), 0)

        def feature(omega, x):
            x = [y / len(query) ** 0.25 for y in x]
            product = sum(map(lambda o, y: o * y, omega, x))
            return math.exp(product - sum(y * y for y in x) / 2) / math.sqrt(features)

        return [
            math.log(sum(feature(omega, query) * feature(omega, h) for omega in directions))
            for h in annotations
        ]

    return loop


def soft_cap(score, cap):
    def loop(query, annotations, mask, past, *, compared):
        scores = score(query, annotations, mask, past, **compared)
        return [cap * math.tanh(e / cap) if e > -math.inf else e for e in scores]

    return loop


def self_adaptive(score, base):
    def loop(query, annotations, mask, past, *, w, u, compared):
        beta = math.tanh(
            sum(x * y for x, y in zip(w, past.context, strict=True))
            + sum(x * y for x, y in zip(u, query, strict=True))
        )
        return [e / base**beta for e in score(query, annotations, mask, past, **compared)]

    return loop


def leaky(score):
    def loop(query, annotations, mask, past, *, h, compared):
        beside = score(query, [h, *annotations], [True, *mask], past, **compared)
        return [e - beside[0] for e in beside[1:]]

    return loop


def transition_agent(score):
    """Zhang, Ling and Dai 2018, algorithm 2."""

    def loop(query, annotations, mask, past, *, w, v, b, compared):
        u = 0.5
        before = first(mask)
        if past.step:
            u = sigmoid(sum(w * past.context) + sum(v * past.query) + b)
            before = past.weights
        past.query = query
        reached = [
            (1 - u) * weight + u * (before[j - 1] if j else 0.0) for j, weight in enumerate(before)
        ]
        scores = score(query, annotations, mask, past, **compared)
        return [
            e + math.log(x) if x > 0 else -math.inf for e, x in zip(scores, reached, strict=True)
        ]

    return loop


def length_scaled(score):
    def loop(query, annotations, mask, past, *, u, w, compared):
        beta, gamma = softplus(sum(u * query)), 3 * math.tanh(sum(w * query))
        scale = 1 + beta * math.log(sum(mask)) ** gamma
        return [scale * e for e in score(query, annotations, mask, past, **compared)]

    return loop


def buckets(number, distance):
    """The function of Raffel et al.'s program, with a loop over where ranges begin."""

    def loop(query, annotations, mask, past, *, b):
        half, exact = number // 2, number // 4
        begins = [exact * (distance / exact) ** (n / (half - exact)) for n in range(half - exact)]
        scores = scaled_dot(query, annotations, mask, past)
        for j in range(len(scores)):
            away = abs(j - past.step)
            reached = sum(away >= begin - 1e-9 for begin in begins)
            bucket = away if away < exact else exact + reached - 1
            scores[j] += b[bucket + (half if j > past.step else 0)]
        return scores

    return loop


def alibi(query, annotations, mask, past):
    scores = scaled_dot(query, annotations, mask, past)
    return [e - 2**-8 * abs(j - past.step) for j, e in enumerate(scores)]  # of one head


def turned(x, position, base):
    """Multiplied with the matrix R of equation 15."""
    R = np.zeros((len(x), len(x)))
    for m in range(len(x) // 2):
        angle = position * base ** (-2 * m / len(x))
        R[2 * m : 2 * m + 2, 2 * m : 2 * m + 2] = [
            [math.cos(angle), -math.sin(angle)],
            [math.sin(angle), math.cos(angle)],
        ]
    return [sum(R[a, b] * x[b] for b in range(len(x))) for a in range(len(x))]


def rotary(query, annotations, mask, past, base=10_000):
    asked = turned(query, past.step, base)
    keys = [turned(h, j, base) for j, h in enumerate(annotations)]
    return scaled_dot(asked, keys, mask, past)


def length_aware_rotary(query, annotations, mask, past, scale=10, ratio=2):
    S = length(mask)
    asked = turned(query, scale * past.step / (ratio * S), 10_000)
    keys = [turned(h, scale * j / S, 10_000) for j, h in enumerate(annotations)]
    return scaled_dot(asked, keys, mask, past)


def hard_coded(query, annotations, mask, past, ratio=1.5, sigma=0.8):
    centre = ratio * past.step  # of the first head
    return [norm.logpdf(j, centre, sigma) for j in range(len(annotations))]


def random_synthesizer(query, annotations, mask, past, *, R):
    row = R[min(past.step, len(R) - 1)]
    return [row[j] if j < len(R) else -math.inf for j in range(len(annotations))]


def factorized_synthesizer(query, annotations, mask, past, *, A, B):
    product = [[sum(x * y for x, y in zip(a, b, strict=True)) for b in B] for a in A]
    return random_synthesizer(query, annotations, mask, past, R=np.array(product))


def filtered(numbers, F, j):
    """The outputs of filters F [R, K] over numbers, centred on j."""
    out = np.zeros(F.shape[1])
    for m in range(len(F)):
        k = j + m - len(F) // 2
        if 0 <= k < len(numbers):
            out += F[m] * numbers[k]
    return out


def cumulative_location(query, annotations, mask, past, *, W, U, F, V, b, v):
    width = len(F) // 2
    scores = []
    for j, h in enumerate(annotations):
        f = filtered(past.weights, F[:width], j) + filtered(past.total, F[width:], j)
        scores.append(perceptron(v, matvec(W, query), matvec(U, h), matvec(V, f), b))
    return scores


def plain_coverage(query, annotations, mask, past, *, W, U, v, w, b):
    return [
        perceptron(v, matvec(W, query), matvec(U, h), past.total[j] * w, b)
        for j, h in enumerate(annotations)
    ]


def gru(state, x, W, U, b):
    """Equations 5 to 8 of Cho et al. 2014, with z on the old state."""
    n = len(state)
    of_x, of_state = matvec(W, x) + b, matvec(U, state)
    update = [sigmoid(of_x[k] + of_state[k]) for k in range(n)]
    reset = [sigmoid(of_x[n + k] + of_state[n + k]) for k in range(n)]
    of_reset = matvec(U[:, 2 * n :], np.multiply(reset, state))
    new = [math.tanh(of_x[2 * n + k] + of_reset[k]) for k in range(n)]
    return np.array([z * old + (1 - z) * c for z, old, c in zip(update, state, new, strict=True)])


def neural_coverage(query, annotations, mask, past, *, W, U, v, V, of_query, gru: dict):
    size = len(V)
    if past.step == 0:
        past.carry = {"C": np.zeros((len(annotations), size))}
    else:
        weights = np.concatenate([gru["W"], of_query])
        past.carry["C"] = [
            gru_step(C, np.concatenate([[past.weights[j]], h, past.carry["query"]]), weights, gru)
            for j, (C, h) in enumerate(zip(past.carry["C"], annotations, strict=True))
        ]
    past.carry["query"] = query
    return [
        perceptron(v, matvec(W, query), matvec(U, h), matvec(V, C))
        for h, C in zip(annotations, past.carry["C"], strict=True)
    ]


def gru_step(state, x, W, p):
    return gru(state, x, W, p["U"], p["b"])


def recurrent(query, annotations, mask, past, *, W, U, v, V, gru: dict):
    if past.step == 0:
        past.carry = [np.zeros(len(V)) for _ in annotations]
    else:
        width = len(gru["W"])
        near = [
            past.weights[k] if 0 <= k < len(mask) else 0.0
            for k in range(-width, 2 * len(mask) + width)
        ]
        past.carry = [
            gru_step(m, np.array(near[j + width - width // 2 :][:width]), gru["W"], gru)
            for j, m in enumerate(past.carry)
        ]
    return [
        perceptron(v, matvec(W, query), matvec(U, h), matvec(V, m))
        for h, m in zip(annotations, past.carry, strict=True)
    ]


def structural(query, annotations, mask, past, *, W, U, v, P, M, F):
    k, scores = len(M) // 2, []
    for j, h in enumerate(annotations):
        features = P[0] * math.log(1 + past.step + 1)
        features = features + P[1] * math.log(1 + j + 1) + P[2] * math.log(1 + length(mask))
        for m in range(-k, k + 1):
            if 0 <= j + m < len(mask):
                features = features + M[k + m] * past.weights[j + m] + F[k + m] * past.total[j + m]
        scores.append(perceptron(v, matvec(W, query), matvec(U, h), features))
    return scores


def mixture(step, width):
    """Battenberg et al. 2020, equation 5, for one choice of what makes Δ and σ."""

    def loop(query, annotations, mask, past, *, W, b, V, c):
        hidden = np.tanh(matvec(W, query) + b)
        raw = np.split(matvec(V, hidden) + c, 3)
        weights = softmax(raw[0], [True] * len(raw[0]))
        before = past.carry if past.step else [0.0] * len(weights)
        past.carry = [at + step(x) for at, x in zip(before, raw[1], strict=True)]
        bells = list(zip(weights, past.carry, map(width, raw[2]), strict=True))
        return [
            math.log(sum(w * norm.pdf(j, at, sigma) for w, at, sigma in bells))
            for j in range(1, len(annotations) + 1)
        ]

    return loop


gmm_v1 = mixture(math.exp, lambda x: math.sqrt(math.exp(x)))
gmm_v2 = mixture(softplus, softplus)


def logistics(query, annotations, mask, past, *, W, b):
    raw = np.split(matvec(W, query) + b, 3)
    weights = softmax(raw[0], [True] * len(raw[0]))
    before = past.carry if past.step else [0.0] * len(weights)
    past.carry = [at + math.exp(x) for at, x in zip(before, raw[2], strict=True)]
    parts = list(zip(weights, past.carry, map(math.exp, raw[1]), strict=True))

    def log_share(j, at, scale):
        tail = logistic.logcdf if j < at else logistic.logsf  # the one that is not near 1
        one, other = tail(j - 0.5, at, scale), tail(j + 0.5, at, scale)
        return max(one, other) + math.log(-math.expm1(-abs(one - other)))

    return [
        np.logaddexp.reduce([math.log(w) + log_share(j, at, scale) for w, at, scale in parts])
        for j in range(1, len(annotations) + 1)
    ]


def dynamic_convolution(query, annotations, mask, past, *, W, a, V, F, U, T, b, v, prior):
    weights = (
        past.weights if past.step else [float(j == mask.index(True)) for j in range(len(mask))]
    )
    G = matvec(V, np.tanh(matvec(W, query) + a)).reshape(F.shape)
    chances = betabinom.pmf(range(prior), prior - 1, 0.1, 0.9)
    scores = []
    for j in range(len(mask)):
        f, g = filtered(weights, F, j), filtered(weights, G, j)
        moved = sum(chances[k] * weights[j - k] for k in range(min(prior, j + 1)))
        scores.append(perceptron(v, matvec(U, f), matvec(T, g), b) + math.log(max(moved, 1e-6)))
    return scores


def mix_attender(query, annotations, mask, past, *, content, gru: dict, M, c):
    S = length(mask)
    state = past.carry if past.step else np.zeros(len(M))
    past.carry = gru_step(state, query, gru["W"], gru)
    r, rho, bias, width, share = matvec(M, past.carry) + c
    places = [j / max(S - 1, 1) for j in range(len(mask))]
    if past.step:
        mean = sum(x * y for x, y in zip(past.weights, places, strict=True))
        centre = sigmoid(rho) * mean + (1 - sigmoid(rho)) * bias + r / max(S - 1, 1)
    else:
        centre = bias
    sigma = (0.27 + softplus(width)) / S
    location = softmax([-((x - centre) ** 2) / (2 * sigma**2) for x in places], mask)
    attended = softmax(general(query, annotations, mask, past, **content), mask)
    mixed = [
        sigmoid(share) * x + (1 - sigmoid(share)) * y
        for x, y in zip(attended, location, strict=True)
    ]
    return [math.log(x) if x > 0 else -99.0 for x in mixed]


def very_attentive(number, distance):
    def loop(query, annotations, mask, past, *, W, a, w, c, b):
        step = softplus(sum(w * np.tanh(matvec(W, query) + a)) + c)
        past.carry = (past.carry if past.step else 0.0) + step
        half, exact = number // 2, number // 4
        scores = scaled_dot(query, annotations, mask, past)
        for j in range(len(scores)):
            away = abs(j - past.carry)
            if away < exact:
                bucket = away
            else:
                grown = math.log(away / exact) / math.log(distance / exact)
                bucket = min(exact + grown * (half - 1 - exact), half - 1)
            place = half + bucket if j > past.carry else half - bucket
            scores[j] += np.interp(place, range(number), b) - max(away - distance, 0)
        return scores

    return loop


# Windows: (query, mask, past, **parameters) -> what is added to scores, and the gain.


def level(mask):
    return [1.0] * len(mask)


def around(middle, back, ahead):
    def loop(query, mask, past):
        if not past.step:
            past.middle = mask.index(True)
        elif any(past.weights):
            past.middle = middle(past.weights)
        allowed = range(past.middle - back, past.middle + ahead + 1)
        return [0.0 if j in allowed else -math.inf for j in range(len(mask))], level(mask)

    return loop


def maximum(weights):
    return max(range(len(weights)), key=lambda j: weights[j])


def median(weights):
    return next(j for j in range(len(weights)) if sum(weights[: j + 1]) >= sum(weights) / 2)


def localness(query, mask, past, *, W, u, d):
    S = length(mask)
    centre = S * sigmoid(perceptron(u, matvec(W, query)))
    size = S * sigmoid(perceptron(d, matvec(W, query)))
    sigma = size / 2
    return [-((j - centre) ** 2) / (2 * sigma**2) for j in range(1, len(mask) + 1)], level(mask)


def adaptive_span(longest, ramp):
    def loop(query, mask, past, *, a):
        z = longest * sigmoid(a)
        seen = [min(max((ramp + z - abs(j - past.step)) / ramp, 0), 1) for j in range(len(mask))]
        return [math.log(m) if m else -math.inf for m in seen], level(mask)

    return loop


def wait_k(k):
    def loop(query, mask, past):
        read = k + past.step
        return [0.0 if j < read else -math.inf for j in range(len(mask))], level(mask)

    return loop


def diagonal_prior(sharpness, ratio, gone):
    def loop(query, mask, past):
        S = length(mask)
        T = max(ratio * S, 1)
        i = min(past.step + 1, T)
        prior = betabinom.pmf(range(S), S - 1, sharpness * i, sharpness * (T - i + 1))
        bias = [math.log(max(x + gone * (1 - x), 1e-8)) for x in prior]
        return bias + [0.0] * (len(mask) - S), level(mask)

    return loop
