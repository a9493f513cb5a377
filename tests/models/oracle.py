"""RNNsearch and its parts in float64 loops over sentences and steps, from the papers."""

from functools import partial
from typing import NamedTuple

import numpy as np

from tests.models import hard_attention_oracle, integrate_and_fire_oracle, transformer_oracle
from tests.models.arithmetic import double, linear, sigmoid, softmax


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

    def __init__(self, cell, hidden=None, memory=None):
        zeros = np.zeros(double(cell.recurrent.kernel).shape[0])
        self.cell = cell
        self.hidden = zeros if hidden is None else hidden
        self.memory = zeros if memory is None else memory

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

    def run(self, vectors):
        return [self.read(linear(self.cell.input, x)) for x in vectors]


class Cells:
    """Stacked cells with their state."""

    def __init__(self, stack, firsts):
        self.cells = [Cell(cell, *first) for cell, first in zip(stack.cells, firsts, strict=True)]
        self.adds = type(stack).__name__ == "ResidualStack"
        shown = [cell.hidden for cell in self.cells]
        self.hidden = sum(shown) if self.adds else shown[-1]

    def read(self, gates):
        first, *above = self.cells
        self.hidden = first.read(gates)
        for cell in above:
            output = cell.read(linear(cell.cell.input, self.hidden))
            self.hidden = output + self.hidden if self.adds else output
        return self.hidden


def word_vectors(model, source):
    """Those of an unpadded sentence; of two sources a pair, or both in one row."""
    words = getattr(model.words, "source_words", model.words.target_words)
    if model.second is None:
        return [double(words.embedding)[i] for i in source]
    size = model.words.source_size
    first = [double(words.embedding)[i] for i in source if i < size]
    second = [double(model.second.words.embedding)[i - size] for i in source if i >= size]
    return first + second if in_one_row(model) else (first, second)


def in_one_row(model):
    return model.second is not None and hasattr(model.second, "of_first")


class InOneRow(NamedTuple):
    """The annotations of two sources, [S, D], as they are compared and as they are summed."""

    compared: np.ndarray
    summed: np.ndarray


def apart(annotations):
    """What is compared and what is summed of annotations, which is the same of one source."""
    one_row = isinstance(annotations, InOneRow)
    return annotations if one_row else (annotations, annotations)


def encode(model, source):
    """The annotations [S, D], the summary and the last states of one unpadded sentence.

    Of two sources, the annotations are a pair, or both in one row.
    """
    vectors = word_vectors(model, source)
    if model.second is None:
        return read(model.encoder, vectors)
    if in_one_row(model):
        count = sum(i < model.words.source_size for i in source)
        vectors = vectors[:count], vectors[count:]
    first, summary, lasts = read(model.encoder, vectors[0])
    second, other, _ = read(model.second.encoder, vectors[1])
    summary = np.concatenate([summary, other])
    if not in_one_row(model):
        return (first, second), summary, lasts
    maps = model.second
    # Libovický and Helcl 2017, section 3.1: U_a of each source, and its U_c.
    compared = [linear(maps.keys_of_first, h) for h in first]
    compared += [linear(maps.keys_of_second, h) for h in second]
    summed = [linear(maps.of_first, h) for h in first]
    summed += [linear(maps.of_second, h) for h in second]
    return InOneRow(np.array(compared), np.array(summed)), summary, lasts


def read(encoder, vectors):
    """The annotations [S, D], the summary and the last states of an encoder."""
    if type(encoder).__name__ == "TransformerEncoder":
        return transformer_oracle.encode(encoder, vectors)
    lasts = []
    for number, layer in enumerate(encoder.layers):
        kind = type(layer).__name__
        if kind == "Bidirectional":
            forward, backward = (Cell(each.cells[0]) for each in (layer.forward, layer.backward))
            both = forward.run(vectors), backward.run(vectors[::-1])[::-1]
            annotations = [np.concatenate(pair) for pair in zip(*both, strict=True)]
            reader = backward
        elif kind == "Backward":
            reader = Cell(layer.cell.cells[0])
            annotations = reader.run(vectors[::-1])[::-1]
        else:
            reader = Cell(layer.cell.cells[0])
            annotations = reader.run(vectors)
        lasts.append((reader.hidden, reader.memory))
        if encoder.residual and number:
            annotations = [a + x for a, x in zip(annotations, vectors, strict=True)]
        vectors = annotations
    return np.array(vectors), reader.hidden, lasts


def compared_and_summed(attention, annotations, words):
    """What queries are compared with, and what is summed, of each position."""
    kind, p = attention.mechanism.values.name, attention.shared.get_value()["values"]
    compared, annotations = apart(annotations)
    if kind == "key_value":
        return np.array([h[::2] for h in compared]), np.array([h[1::2] for h in annotations])
    if kind == "sum":
        mapped = [h @ double(p["W"]) if p else h for h in annotations]
        total = np.array([z + x for z, x in zip(mapped, words, strict=True)])
        return compared, np.sqrt(len(words)) * total  # the sentence has no padding
    return compared, words if kind == "embeddings" else annotations


def gated(attention, k, g, s, context):
    """Qiu et al. 2025, equation 5: Y' = Y ⊙ σ(X W)."""
    p = attention.parameters.get_value()["gate"]
    if attention.mechanism.gate.name == "elementwise":
        return context * [sigmoid(s @ w) for w in double(p["W"])[k, g].T]
    return context * sigmoid(s @ double(p["w"])[k, g]) if p else context


def mixed(attention, name, of_heads):
    """Shazeer et al. 2020, section 3: for each head a sum over all heads."""
    if attention.mixing.name == "none":
        return of_heads
    matrix = double(attention.shared.get_value()["mixing"][name])
    heads = range(len(of_heads))
    return [sum(of_heads[m] * matrix[m, n] for m in heads) for n in heads]


def attend_to_both(attention, s, annotations, words):
    """Contexts of two sources together: Zoph and Knight 2016, Libovický and Helcl 2017, 3.2.

    And Rouditchenko et al. 2024, whose gate is a number g.
    """
    each = zip((attention.first, attention.second), annotations, words, strict=True)
    (c, of_first), (d, of_second) = (attend(one, s, h, x) for one, h, x in each)
    p = {name: double(value) for name, value in attention.parameters.get_value().items()}
    if attention.sources.name == "concatenated":
        both = np.concatenate([c, d])
        return (both @ p["W"] if p else both), np.concatenate([of_first, of_second], axis=1)
    if attention.sources.name == "gated":
        gate = np.tanh(p["g"])
        return c + gate * d, np.concatenate([of_first, abs(gate) * of_second], axis=1)
    scores = [p["v"] @ np.tanh(s @ p["W"] + x @ p[U]) for x, U in ((c, "U1"), (d, "U2"))]
    beta, gamma = softmax(np.array(scores))
    context = beta * c @ p["V1"] + gamma * d @ p["V2"]
    return context, np.concatenate([beta * of_first, gamma * of_second], axis=1)


def attend(attention, s, annotations, words):
    """The context [O] and the weights [N, S] of every head, with an additive score."""
    if hasattr(attention, "sources"):
        return attend_to_both(attention, s, annotations, words)
    parameters = attention.parameters.get_value()["score"]
    p = {name: double(value) for name, value in parameters.items()}
    heads = attention.projections
    key_heads, groups = p["W"].shape[:2]
    projected = hasattr(heads, "queries")
    compared, summed = compared_and_summed(attention, annotations, words)
    if hasattr(heads, "latent"):  # DeepSeek-AI 2024, equation 9
        compared = summed = np.array([linear(heads.latent, h) for h in annotations])
    scores, values = [], []
    for k in range(key_heads):
        for g in range(groups):
            query, keys, of_head = s, compared, summed
            if projected:
                number, size = k * groups + g, heads.sizes.Q
                query = linear(heads.queries, s)[number * size : (number + 1) * size]
                columns = slice(k * size, (k + 1) * size)
                keys = np.array([linear(heads.keys, h)[columns] for h in compared])
                of_head = np.array([linear(heads.values, v)[columns] for v in summed])
            W, U, v = (p[name][k, g] for name in ("W", "U", "v"))
            scores.append(np.array([v @ np.tanh(query @ W + h @ U) for h in keys]))
            values.append(of_head)
    weights = mixed(attention, "R", [softmax(e) for e in mixed(attention, "P", scores)])
    contexts = []
    for number, (of_head, chosen) in enumerate(zip(values, weights, strict=True)):
        context = sum(w * v for w, v in zip(chosen, of_head, strict=True))
        contexts.append(gated(attention, *divmod(number, groups), s, context))
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


def logits(model, features):
    if type(model.words).__name__ in ("Tied", "ThreeWay"):
        return double(model.words.target_words.embedding) @ features + double(model.words.output)
    return linear(model.words.output, features)


def decode(model, order, source, before):
    """Logits [T, V] and alignment [L, N, T, S] of one sentence, with an additive score."""
    annotations, *handed = encode(model, source)
    read = partial(attend, words=word_vectors(model, source))
    if order == "cif":  # its context does not depend on the query
        order = "bahdanau"
        read = integrate_and_fire_oracle.attend(model.decoder.attention, annotations)
    vectors = [double(model.words.target_words.embedding)[word] for word in before]
    if model.sums_over_alignments:
        hidden = hard_attention(model, source, before)
        prior, words = hard_attention_oracle.filtered(hidden, before)
        _, second = of_second_source(model, source, states_of_words(model, source, before))
        return np.log(words), np.concatenate([prior, second], axis=1)[None, None]
    if order == "transformer":
        features, alignment = transformer_oracle.decode(model.decoder, vectors, annotations, read)
        features = [readout(model, x) for x in features]
    else:
        features, alignment = recurrent(model, order, annotations, *handed, vectors, read)
    return np.array([logits(model, f) for f in features]), alignment


def states_of_words(model, source, before):
    """The states [T, H] with which a decoder of hard attention attends.

    They depend on the words alone, or on the posteriors of earlier positions too.
    """
    vectors = [double(model.words.target_words.embedding)[word] for word in before]
    if hasattr(model.decoder, "blocks"):
        return transformer_oracle.states(model.decoder, vectors)
    if hasattr(model.decoder, "feed"):
        return fed_with_posterior(model, source, before)[0]
    _, summary, lasts = encode(model, source)
    cell = Cells(model.decoder.cell, first_states(model.decoder, summary, lasts))
    lowest = cell.cells[0].cell
    return [cell.read(linear(lowest.input, y)) for y in vectors]


def of_second_source(model, source, states):
    """The contexts [T, C] and weights [T, S] of a second source; without one, C = S = 0."""
    attention = getattr(model.decoder.attention, "second", None)
    if attention is None:
        return np.zeros((len(states), 0)), np.zeros((len(states), 0))
    (_, annotations), *_ = encode(model, source)
    _, words = word_vectors(model, source)
    contexts, weights = zip(
        *(attend(attention, s, annotations, words) for s in states), strict=True
    )
    return np.array(contexts), np.array(weights)[:, 0]


def hard_attention(model, source, before):
    """The hidden Markov model of one sentence."""
    if hasattr(model.decoder, "feed"):
        return fed_with_posterior(model, source, before)[1]
    annotations, *_ = encode(model, source)
    words, attention = word_vectors(model, source), model.decoder.attention
    states = states_of_words(model, source, before)
    others, _ = of_second_source(model, source, states)
    if hasattr(attention, "first"):
        attention, annotations, words = attention.first, annotations[0], words[0]
    _, summed = apart(annotations)
    weights = np.ones((len(states), len(summed)))  # of a readout that reads none
    if model.decoder.readout.reads_weights:
        weights = [attend(attention, s, annotations, words)[1][0] for s in states]
    return hard_attention_oracle.hidden(model, states, weights, summed, logits, others)


def fed_with_posterior(model, source, before):
    """The states with which a decoder attends that is fed with the posterior; and its model."""
    annotations, summary, lasts = encode(model, source)
    words, attention = word_vectors(model, source), model.decoder.attention
    if hasattr(attention, "first"):
        attention, annotations, words = attention.first, annotations[0], words[0]

    def attends(s):
        others, _ = of_second_source(model, source, [s])
        return attend(attention, s, annotations, words)[1][0], others[0]

    cell = Cells(model.decoder.cell, first_states(model.decoder, summary, lasts))
    contexts = hard_attention_oracle.contexts_of(attention, apart(annotations)[1])
    return hard_attention_oracle.fed_with_posterior(model, cell, before, contexts, attends, logits)


def first_states(decoder, summary, lasts):
    kind = type(decoder.first_state).__name__
    if kind == "Last":
        return lasts
    if kind == "Bridge":
        return [(np.tanh(linear(decoder.first_state.linear, summary)),)] * len(decoder.cell.cells)
    return [()] * len(decoder.cell.cells)


def recurrent(model, order, annotations, summary, lasts, vectors, attend):
    decoder, attention = model.decoder, model.decoder.attention
    cell = Cells(decoder.cell, first_states(decoder, summary, lasts))
    lowest = cell.cells[0].cell
    read = np.zeros_like(cell.hidden)
    features, alignment = [], []
    for y in vectors:
        gates = linear(lowest.input, y) if order != "syntactic" else None
        if order == "bahdanau":
            c, weights = attend(attention, cell.hidden, annotations)
            s = cell.read(gates + linear(decoder.context, c))
            features.append(readout(model, s, y, c))
        elif order == "syntactic":  # Russin et al. 2019, section 3: y is not read
            c, weights = attend(attention, cell.hidden, annotations)
            cell.read(linear(lowest.input, c))
            features.append(readout(model, np.mean(weights, axis=0) @ attend.keywords["words"]))
        else:
            fed = linear(decoder.feed, read) if order == "luong_input_feeding" else 0
            s = cell.read(gates + fed)
            c, weights = attend(attention, s, annotations)
            read = np.tanh(linear(decoder.combine, np.concatenate([c, s])))
            features.append(readout(model, read))
        alignment.append(weights)
    return features, np.moveaxis(np.array(alignment), 0, 1)[None]
