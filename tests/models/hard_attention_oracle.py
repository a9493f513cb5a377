"""Hard attention in float64 loops, from the papers; the sums also over all alignments one by one.

Wu, Shapiro and Cotterell 2018, section 3; Wu and Cotterell 2019, sections 3 and 4. The bounds of
the likelihood: Xu et al. 2015, section 4.1; Deng et al. 2018, section 4. States that are fed with
the posterior: Shankar and Sarawagi 2019, section 2.2.
"""

import itertools
from typing import NamedTuple

import numpy as np

from tests.models.arithmetic import double, linear, sigmoid, softmax


class Hidden(NamedTuple):
    """The hidden Markov model of one sentence."""

    words: np.ndarray  # [T, S, V], p(y_i | s_i, h_j)
    transitions: np.ndarray  # [T, S, S], p(a_i = k | a_{i-1} = j); the first step is from j = 0


def transition(readout, alpha, moves):
    """p(a_i = k | a_{i-1} = j), with `moves` [S, M] of each j."""
    kind, size, w = type(readout).__name__, len(alpha), getattr(readout, "window", None)

    def score(j, k):
        if kind in ("Marginal", "Variational"):
            return alpha[k]
        if kind == "FirstOrder":  # moves of -w ... w
            return np.exp(moves[j][k - j + w]) if abs(k - j) <= w else 0
        if k < j:
            return 0
        if kind == "MonotonicMarginal":
            return alpha[k]
        if kind == "MonotonicFirstOrder":
            return np.exp(moves[j][k - j]) if k - j <= w else 0
        assert kind == "MonotonicHMM"
        return alpha[k] * np.exp(moves[j][min(k - j, w)])

    table = np.zeros((size, size))
    if kind == "SegmentToSegment":  # Yu, Buys and Blunsom 2016
        emits = [*sigmoid(np.ravel(moves))[:-1], 1]
        for j, k in itertools.combinations_with_replacement(range(size), 2):
            table[j, k] = emits[k] * np.prod([1 - emits[read] for read in range(j, k)])
        return table
    for j in range(size):
        table[j] = [score(j, k) for k in range(size)]
        if not table[j].any():  # nowhere to go
            table[j, j] = 1
        table[j] /= table[j].sum()
    return table


def read_positions(decoder, s, contexts):
    """h̃_j = tanh(W_c [c_j; s]) of each position."""
    return [np.tanh(linear(decoder.combine, np.concatenate([c, s]))) for c in contexts]


def contexts_of(attention, annotations):
    """The context if all weight is on one position, of one head."""
    heads = attention.projections
    if not hasattr(heads, "values"):
        return annotations
    values = [linear(heads.values, h) for h in annotations]
    return values if heads.output is None else [linear(heads.output, v) for v in values]


def hidden(model, states, weights, annotations, logits, others):
    """The model of one sentence, from its states [T, H] and weights [T, S].

    What is read besides the context of a position and the state is `others` [T, C].
    """
    decoder, readout = model.decoder, model.decoder.readout
    contexts = contexts_of(getattr(decoder.attention, "first", decoder.attention), annotations)
    words, transitions = [], []
    for s, alpha, other in zip(states, weights, others, strict=True):
        each = read_positions(decoder, np.concatenate([other, s]), contexts)
        words.append([softmax(logits(model, h)) for h in each])
        moves = None
        if hasattr(readout, "moves"):
            moves = [linear(readout.moves_from, c) + linear(readout.moves, s) for c in contexts]
        transitions.append(transition(readout, alpha, moves))
    return Hidden(np.array(words), np.array(transitions))


def energy(readout, move):
    """k(a_t, a_{t-1}) of Shankar and Sarawagi 2019, below equation 6, of a_t - a_{t-1}."""
    kind = type(readout).__name__
    if kind == "PosteriorProximity":
        return double(readout.delta)[move + 2] if abs(move) < 3 else 0
    if kind == "PosteriorMonotonic":
        return double(readout.delta) ** (move - 1) if move > 0 else 0
    assert kind == "Posterior"
    return 0


def fed_with_posterior(model, cell, before, contexts, attend, logits):
    """What each step compares, [T, H], and the model of one sentence; `before` are y_<i.

    Shankar and Sarawagi 2019, equations 3 to 6 and 11 to 13. `attend` gives the weights [S] and
    what else is read [C].
    """
    decoder, places = model.decoder, range(len(contexts))
    vectors, fed = double(model.words.target_words.embedding), np.zeros(len(contexts[0]))
    queries, words, transitions, prior, posterior = [], [], [], None, None
    for y in before:
        if words:
            joint = [prior[j] * words[-1][j, y] for j in places]
            posterior = [of_place / sum(joint) for of_place in joint]
            fed = sum(posterior[j] * contexts[j] for j in places)
        last = cell.hidden
        gates = linear(cell.cells[0].cell.input, vectors[y]) + linear(decoder.feed, fed)
        s = cell.read(gates)
        queries.append(s if type(decoder.readout).__name__ == "Posterior" else last)
        alpha, other = attend(queries[-1])
        table = np.array([alpha for _ in places])
        if posterior is not None:
            for j, k in itertools.product(places, places):
                table[j, k] *= np.exp(energy(decoder.readout, k - j))
            table /= table.sum(axis=1, keepdims=True)
        prior = alpha if posterior is None else np.array(posterior) @ table
        each = read_positions(decoder, np.concatenate([other, s]), contexts)
        words.append(np.array([softmax(logits(model, h)) for h in each]))
        transitions.append(table)
    return queries, Hidden(np.array(words), np.array(transitions))


def filtered(model, before):
    """p(a_i = j | y_<i) [T, S] and p(y_i | y_<i) [T, V], word by word; `before` are y_<i."""
    belief = np.eye(model.words.shape[1])[0]
    priors, words = [], []
    for i, (table, of_word) in enumerate(zip(model.transitions, model.words, strict=True)):
        if i:
            belief = priors[-1] * model.words[i - 1][:, before[i]]
            belief = belief / belief.sum()
        priors.append(np.array([sum(belief * table[:, k]) for k in range(len(belief))]))
        words.append(sum(p * of for p, of in zip(priors[-1], of_word, strict=True)))
    return np.array(priors), np.array(words)


def enumerated(model, target):
    """p(y), p(a_i = j | y) [T, S], and the most probable alignment, from all alignments."""
    steps, places, _ = model.words.shape
    together, posterior, most, path = 0.0, np.zeros((steps, places)), -1.0, ()
    for alignment in itertools.product(range(places), repeat=steps):
        probability, previous = 1.0, 0
        for i, (j, y) in enumerate(zip(alignment, target, strict=True)):
            probability *= model.transitions[i, previous, j] * model.words[i, j, y]
            previous = j
        together += probability
        posterior[np.arange(steps), alignment] += probability
        if probability > most:
            most, path = probability, alignment
    return together, posterior / together, path


def bound(model, q, target):
    """E_q[log p(y | x, a)] - KL(q(a) ‖ p(a | x)) of q [T, S], for independent positions."""
    found = 0.0
    for i, y in enumerate(target):
        prior = model.transitions[i, 0]
        for j, of_position in enumerate(q[i]):
            found += of_position * np.log(model.words[i, j, y])
            found -= of_position * np.log(of_position / prior[j])
    return found


def inferred(readout, annotations, vectors):
    """q(a_i = j | x, y) [T, S], from the outputs [T, A] of the network over the target words."""
    keys = [linear(readout.compared, h) for h in annotations]
    return np.array([softmax(np.array([t @ k for k in keys])) for t in vectors])
