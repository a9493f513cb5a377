"""Parts with one fault each."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from attn_jax import Gate, Mixing, Normalizer, Score, Values, scaled_normal


class Products(Score):
    """s · W h_j, without a fault."""

    def init(self, rng, Q, D):
        return {"W": scaled_normal(rng, (Q, D))}

    def score(self, p, query, keys, past):
        return keys @ (query @ p["W"])


class Listed(Products):
    orders: list = dataclasses.field(default_factory=lambda: [1, 2])


class OfSet(Products):
    kinds: frozenset = frozenset({1, 2})


class Counts(Products):
    def init(self, rng, Q, D):
        return super().init(rng, Q, D) | {"places": jnp.arange(3)}


class DrawsByItself(Products):
    def init(self, rng, Q, D):
        return {"W": jnp.asarray(np.random.normal(size=(Q, D)))}


class Column(Products):
    def score(self, p, query, keys, past):
        return super().score(p, query, keys, past)[:, None]


class ReadsInSecret(Products):
    def score(self, p, query, keys, past):
        return super().score(p, query, keys, past) - past.weights


class Branches(Products):
    def score(self, p, query, keys, past):
        scores = super().score(p, query, keys, past)
        return scores if scores.max() > 0 else -scores


class Undefined(Products):
    def score(self, p, query, keys, past):
        return jnp.log(-jnp.abs(super().score(p, query, keys, past)))


class Idle(Products):
    def init(self, rng, Q, D):
        return super().init(rng, Q, D) | {"unused": jnp.ones(D)}


class Forgets(Normalizer):
    def weights(self, p, scores, mask, past):
        return jax.nn.softmax(scores)


class StandardizesAll(Products):
    def keys(self, p, annotations):
        return annotations / (annotations.std(axis=0) + 1e-3)


class FromTheEnd(Products):
    def score(self, p, query, keys, past):
        from_the_end = len(keys) - jnp.arange(len(keys))
        return super().score(p, query, keys, past) + jnp.log(from_the_end)


class DividesByNothing(Normalizer):
    def weights(self, p, scores, mask, past):
        exponentials = jnp.where(mask, jnp.exp(jnp.minimum(scores, 60)), 0)
        return exponentials / exponentials.sum()


class KnowsNoWindow(Normalizer):
    def weights(self, p, scores, mask, past):
        return jax.nn.softmax(scores, where=past.mask)


class Overflows(Normalizer):
    def weights(self, p, scores, mask, past):
        exponentials = jnp.where(mask, jnp.exp(scores), 0)
        return exponentials / (exponentials.sum() + 1e-9)


class Standardizes(Normalizer):
    def weights(self, p, scores, mask, past):
        count = jnp.maximum(mask.sum(), 1)
        centred = jnp.where(mask, scores - jnp.sum(scores, where=mask) / count, 0)
        variance = jnp.minimum(centred**2 @ mask / count, 1)
        return jax.nn.softmax(centred / (jnp.sqrt(variance) + 1e-3), where=mask)


class OfLengthOne(Products):
    def score(self, p, query, keys, past):
        return super().score(p, query, keys, past) / jnp.linalg.norm(query)


@jax.custom_vjp
def halved(scores):
    return scores


halved.defvjp(lambda scores: (scores, None), lambda _, slope: (slope / 2,))


class HalvesTheGradient(Products):
    def score(self, p, query, keys, past):
        return halved(super().score(p, query, keys, past))


class OverflowsInFloat16(Products):
    def score(self, p, query, keys, past):
        return super().score(p, 3e4 * query, keys, past) / 3e4


class FavoursTheEnd(Normalizer):
    def weights(self, p, scores, mask, past):
        growing = jnp.exp(jnp.arange(scores.size) / 10) * jax.nn.softmax(scores, where=mask)
        return growing / jnp.maximum(growing.sum(), 1e-9)


class Perceptron(Score):
    """The additive score."""

    def init(self, rng, Q, D):
        rng_W, rng_U, rng_v = jax.random.split(rng, 3)
        return {
            "W": scaled_normal(rng_W, (Q, 64)),
            "U": scaled_normal(rng_U, (D, 64)),
            "v": scaled_normal(rng_v, (64,)),
        }

    def score(self, p, query, keys, past):
        return jnp.tanh(query @ p["W"] + keys @ p["U"]) @ p["v"]


CALLS = []


class CountsItsCalls(Products):
    def score(self, p, query, keys, past):
        CALLS.append(1)
        return len(CALLS) * super().score(p, query, keys, past)


KEPT = []


class KeepsAnArray(Products):
    def score(self, p, query, keys, past):
        scores = super().score(p, query, keys, past)
        KEPT.append(scores)
        return scores + 0.1 * KEPT[-2] if len(KEPT) > 1 else scores


class Smears(Values):
    """Sums up word vectors of padding."""

    reads_embeddings = True

    def values(self, p, annotations, embeddings, mask):
        return embeddings + embeddings.mean(axis=0)


class Cuts(Gate):
    """Gives one feature less."""

    def gate(self, p, state, context):
        return context[1:]


class Differs(Mixing):
    """Gives negative weights without saying so."""

    def init(self, rng, N):
        return {"unused": jnp.ones(N)}

    def weights(self, p, weights):
        return weights - 0.5 * weights[::-1]


class Averages(Mixing):
    """Mixes positions, padding included."""

    def weights(self, p, weights):
        return weights - weights.mean(axis=1, keepdims=True)

    non_negative = False


class Swallows(Mixing):
    """Forgets a head."""

    def scores(self, p, scores):
        return scores[1:]


class Square(Mixing):
    """Has a gradient that is not finite where scores are 0."""

    def scores(self, p, scores):
        return jnp.sqrt(jnp.abs(0 * scores))
