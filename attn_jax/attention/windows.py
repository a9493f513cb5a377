"""Windows: which source positions a step may attend to, for any score.

Scores are normalised over the window, and the weights then multiplied by its gain, if it has one.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attn_jax.attention.past import Past
from attn_jax.attention.protocol import Window, scaled_normal, widen
from attn_jax.errors import InputError
from attn_jax.settings.value import setting


class Full(Window):
    """Every real position.

    Paper: Luong, Pham and Manning 2015, section 3.1 (global attention).
    Cost: none.
    """


class LocalM(Window):
    """|j - p_i| ≤ w around p_i = i, w = `half_width`.

    w is the paper's D. Assumes that source and target are roughly aligned word by word. At steps
    beyond the end of the source, which the paper does not specify, the window stays at the last
    word.

    Paper: Luong, Pham and Manning 2015, section 3.2 (local-m).
    Cost: time T S, memory T S.
    """

    half_width: int = setting(10, low=1)
    positional = True
    reads = ("step",)

    def bias(self, p: Any, query: Array, past: Past) -> Float[Array, " S"]:
        centre = jnp.minimum(past.step + 1, length(past.mask))
        return within(past.mask, centre, self.half_width)


class LocalP(Window):
    """|j - p_i| ≤ w around p_i = S σ(v · tanh(W s)), gain exp(-2 (j - p_i)² / w²).

    w is `half_width`, the paper's D. As in the paper, weights are not normalised again after the
    gain, so that they sum to less than 1. Gradients reach the position p_i only through the gain.

    Paper: Luong, Pham and Manning 2015, section 3.2 (local-p), equations 9 and 10.
    Cost: time T (S + Q A), memory T S.
    """

    half_width: int = setting(10, low=1)
    units: int = setting(128, low=1)
    positional = True

    def init(self, rng: Array, Q: int, D: int) -> dict[str, Array]:
        rng_W, rng_v = jax.random.split(rng)
        return {
            "W": scaled_normal(rng_W, (Q, self.units)),
            "v": scaled_normal(rng_v, (self.units,)),
        }

    def query(self, p: Any, state: Float[Array, " Q"]) -> Float[Array, ""]:
        """p_i / S, in float32 at least: bfloat16 cannot distinguish position 257 from 256."""
        return jax.nn.sigmoid(widen(p["v"] @ jnp.tanh(state @ p["W"])))

    def bias(self, p: Any, query: Float[Array, ""], past: Past) -> Float[Array, " S"]:
        return within(past.mask, length(past.mask) * query, self.half_width)

    def gain(self, p: Any, query: Float[Array, ""], past: Past) -> Float[Array, " S"]:
        distances = jnp.arange(1, past.mask.size + 1) - length(past.mask) * query
        return jnp.exp(-2 * (distances / self.half_width) ** 2)  # a normal density with σ = w / 2


class AroundMaximum(Window):
    """m - `back` ≤ j ≤ m + `ahead` around m, where the last step has its largest weight.

    m is at first the first word, and stays where it is after a step that attends to nothing.
    Programs for speech synthesis, from which the defaults are, do this in use, not in training.

    Paper: Chorowski et al. 2015, section 2.3, with the maximum of those programs.
    Cost: time T S, memory T S.
    """

    back: int = setting(2, low=0)
    ahead: int = setting(5, low=0)
    positional = True
    reads = ("weights",)

    def start(self, p: Any, mask: Bool[Array, " S"]) -> Array:
        return jnp.argmax(mask)

    def advance(self, p: Any, query: Array, past: Past) -> Array:
        return jnp.where(past.weights.any(), self.centre(past.weights), past.own)

    def bias(self, p: Any, query: Array, past: Past) -> Float[Array, " S"]:
        away = jnp.arange(past.mask.size) - past.own
        return jnp.where((away >= -self.back) & (away <= self.ahead), 0.0, -jnp.inf)

    def centre(self, weights: Float[Array, " S"]) -> Array:
        """The position in the middle, from 0."""
        return jnp.argmax(weights)


class AroundMedian(AroundMaximum):
    """m - `back` ≤ j ≤ m + `ahead` around m, the median of the weights of the last step.

    The paper's window of w positions to each side is back = w and ahead = w - 1. Its program takes
    for the median the position before that up to which there is half of the weight.

    Paper: Chorowski et al. 2015, section 2.3 (windowing).
    Cost: time T S, memory T S.
    """

    def centre(self, weights: Float[Array, " S"]) -> Array:
        """The first position up to which there is half of the weight, from 0."""
        return jnp.argmax(jnp.cumsum(weights) >= weights.sum() / 2)


class Localness(Window):
    """Adds -(j - P)² / 2σ², P = S σ(u · t), σ = D / 2, D = S σ(d · t), t = tanh(W s).

    A bell that is added to the scores, so that other positions stay possible. P is its centre, and
    D the size of what is attended to, both learned from the query. The authors' program has biases
    in the linear maps, P = (S - 1) σ(·) from the first word, and adds 0.1 to D.

    Paper: Yang et al. 2018, section 3, equations 4 to 8, with a window for each query.
    Cost: time T (S + Q A), memory T (S + A).
    """

    units: int = setting(128, low=1)
    positional = True

    def init(self, rng: Array, Q: int, D: int) -> dict[str, Array]:
        rng_W, rng_u, rng_d = jax.random.split(rng, 3)
        return {
            "W": scaled_normal(rng_W, (Q, self.units)),
            "u": scaled_normal(rng_u, (self.units,)),
            "d": scaled_normal(rng_d, (self.units,)),
        }

    def query(self, p: Any, state: Float[Array, " Q"]) -> tuple[Array, Array]:
        hidden = jnp.tanh(state @ p["W"])
        shares = (jax.nn.sigmoid(widen(hidden @ p[name])) for name in ("u", "d"))
        centre, size = shares
        return centre, jnp.maximum(size, 1e-3)  # of a size of 0, the bell has no derivative

    def bias(self, p: Any, query: tuple[Array, Array], past: Past) -> Float[Array, " S"]:
        centre, size = query
        S = jnp.maximum(length(past.mask), 1)
        distances = jnp.arange(1, past.mask.size + 1) - S * centre
        return -2 * (distances / (S * size)) ** 2


class AdaptiveSpan(Window):
    """Adds log m_j, m_j = min(max((R + z - |j - i|) / R, 0), 1): a span z that is learned.

    Weights are multiplied by m before they are normalised. z = M σ(a) is at first `span`, at most M
    = `longest`, and R = `ramp`. The paper has self-attention; it clips z, and a penalty on z, which
    is not part of this, makes it small.

    Paper: Sukhbaatar, Grave, Bojanowski and Joulin 2019, section 2.2.
    Cost: time T S, memory T S.
    """

    span: float = setting(7.5, above=0)  # no position is where the ramp begins, a kink
    longest: float = setting(100.0, above=0)
    ramp: float = setting(32.0, above=0)
    positional = True
    reads = ("step",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.span >= self.longest:
            raise InputError(
                f"{self.name}: span must be below longest, got {self.span:g} and {self.longest:g}"
            )

    def init(self, rng: Array, Q: int, D: int) -> dict[str, Array]:
        share = self.span / self.longest
        return {"a": jnp.full((), math.log(share / (1 - share)))}

    def bias(self, p: Any, query: Array, past: Past) -> Float[Array, " S"]:
        span = self.longest * jax.nn.sigmoid(widen(p["a"]))
        away = jnp.abs(jnp.arange(past.mask.size) - past.step)
        inside = jnp.minimum((self.ramp + span - away) / self.ramp, 1)
        seen = inside > 0
        return jnp.where(seen, jnp.log(jnp.where(seen, inside, 1)), -jnp.inf)


class WaitK(Window):
    """j < k + i: target step i, from 0, has read k words and one more for each earlier step.

    With an encoder that reads to the right alone, the words beyond have no influence: the policy of
    simultaneous translation. Other encoders have read them.

    Paper: Ma et al. 2019, section 3.2 (wait-k).
    Cost: time T S, memory T S.
    """

    k: int = setting(3, low=1)
    positional = True
    reads = ("step",)

    def bias(self, p: Any, query: Array, past: Past) -> Float[Array, " S"]:
        read = jnp.arange(past.mask.size) < self.k + past.step
        return jnp.where(read, 0.0, -jnp.inf)


class DiagonalPrior(Window):
    """Adds log(π_j + a (1 - π_j)), π a beta-binomial distribution near the diagonal, a from 0 to 1.

    π_j is the probability of j - 1 of S - 1 with the parameters ω i and ω (T - i + 1), ω =
    `sharpness`. It holds for `steps` training steps, and disappears over the next `fading`. The
    paper has the target, speech, and its length T in training. Here, T is `ratio` times the length
    S of the source.

    Paper: Neekhara et al. 2024, section 2.2; the distribution is that of Badlani et al. 2021,
    section 2.2.
    Cost: time T S, memory T S.
    """

    sharpness: float = setting(1.0, above=0)
    ratio: float = setting(1.0, above=0)
    steps: int = setting(8000, low=0)
    fading: int = setting(4000, low=1)
    positional = True
    reads = ("step", "train_step")

    def bias(self, p: Any, query: Array, past: Past) -> Float[Array, " S"]:
        S = jnp.maximum(length(past.mask), 1).astype(float)
        T = jnp.maximum(self.ratio * S, 1)
        i = jnp.minimum(past.step + 1.0, T)
        a, b = self.sharpness * i, self.sharpness * (T - i + 1)
        gone = jnp.clip((past.train_step - self.steps) / self.fading, 0, 1)
        prior = beta_binomial(past.mask.size, S - 1, a, b)
        return jnp.log(jnp.maximum(prior + gone * (1 - prior), 1e-8))


def beta_binomial(
    size: int, most: Float[Array, ""] | int, a: Array | float, b: Array | float
) -> Float[Array, " S"]:
    """The probabilities of 0 to `size` - 1, of `most` trials, in a beta-binomial distribution."""
    k = jnp.arange(size)
    rest = jnp.maximum(most - k, 1)
    # Each is a multiple of the one before: log-gamma is less precise, and takes long to compile.
    growth = jnp.log(rest) + jnp.log(a + k) - jnp.log(k + 1) - jnp.log(b + rest - 1)
    logarithms = jnp.cumsum(growth) - growth
    return jax.nn.softmax(logarithms, where=k <= most)


def within(mask: Bool[Array, " S"], centre: Array, half_width: int) -> Float[Array, " S"]:
    """0 at positions that are at most `half_width` away from the centre, -∞ at others."""
    near = jnp.abs(jnp.arange(1, mask.size + 1) - centre) <= half_width
    return jnp.where(near, 0.0, -jnp.inf)


def length(mask: Bool[Array, " S"]) -> Array:
    """The number of the last real position."""
    return jnp.max(jnp.where(mask, jnp.arange(1, mask.size + 1), 0))
