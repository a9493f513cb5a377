"""A mechanism: parts that fit together."""

import dataclasses
from collections.abc import Callable, Iterator

import jax
from jaxtyping import Array, PyTree

from attn_jax.attention.compositions import Pair
from attn_jax.attention.gates import Ungated
from attn_jax.attention.normalizers import Softmax
from attn_jax.attention.past import CONSTANT
from attn_jax.attention.plain import PLAIN, as_part
from attn_jax.attention.protocol import Gate, Normalizer, Part, Score, Values, Weigher, Window
from attn_jax.attention.values import Annotations
from attn_jax.attention.windows import Full
from attn_jax.errors import InputError

KINDS: dict[str, type[Part]] = {
    "score": Score,
    "window": Window,
    "normalizer": Normalizer,
    "values": Values,
    "gate": Gate,
}


@dataclasses.dataclass(frozen=True, init=False)
class Mechanism:
    """How weights come about, and what they sum.

    Its parameters are those of its parts, by `score`, `window`, `normalizer`, `values` and `gate`.
    The first three may be plain functions. A normalizer that takes two scores gets two of the same
    kind, unless the score gives two, as a `Pair` does.

    Args:
      score: how well annotations match a query.
      window: which positions are attended to.
      normalizer: from scores to weights; None: the score's own, usually softmax.
      values: what is compared and what is summed.
      gate: what becomes of the sum.

    Raises:
      InputError: the parts do not fit together, or one is none.
    """

    score: Score
    window: Window
    normalizer: Normalizer
    values: Values
    gate: Gate

    def __init__(
        self,
        score: Score | Callable,
        window: Window | Callable = Full(),
        normalizer: Normalizer | Callable | None = None,
        *,
        values: Values = Annotations(),
        gate: Gate = Ungated(),
    ):
        if normalizer is None:
            normalizer = (getattr(score, "default_normalizer", None) or Softmax)()
        all_given = score, window, normalizer, values, gate
        for (name, kind), given in zip(KINDS.items(), all_given, strict=True):
            part = as_part(kind, given)
            if not isinstance(part, kind):
                hint = f": write {given.__name__}()" if isinstance(given, type) else ""
                wanted = f"a {kind.__name__}{' or a function' if kind in PLAIN else ''}"
                raise InputError(f"the {name} must be {wanted}, got {given!r}{hint}")
            object.__setattr__(self, name, part)
        if (self.score.scores, self.normalizer.scores) == (1, 2):
            object.__setattr__(self, "score", Pair(self.score, self.score))
        for reason, refused in _refusals(self).items():
            if refused:
                raise InputError(f"{reason}: got {', '.join(part.word for part in self)}")

    def __iter__(self) -> Iterator[Weigher]:
        """The score, the window and the normalizer: what makes weights."""
        return iter((self.score, self.window, self.normalizer))

    @property
    def parts(self) -> tuple[Part, ...]:
        """All parts."""
        return *self, self.values, self.gate

    def init(self, rng: Array, Q: int, D: int, E: int = 0, C: int = 0) -> PyTree:
        """The first parameters.

        Args:
          rng: a random key.
          Q: features of a query.
          D: features of an annotation.
          E: features of a word vector, where the values are made of these.
          C: features of a value, where values are given; 0: those that the part `values` makes.
        """
        compared, made = self.values.sizes(D, E)
        of_head = self.init_head(rng, Q, Q, compared, C or made)
        rng_values = jax.random.fold_in(rng, 5)  # none of the keys that `init_head` splits off
        return of_head | {"values": self.values.init(rng_values, D, E)}

    def init_head(self, rng: Array, state: int, Q: int, D: int, C: int) -> PyTree:
        """The first parameters of one head of several, which have one set of values together.

        Args:
          rng: a random key.
          state: features of a decoder state.
          Q: features of the query that the head makes of it.
          D: features that the query is compared with.
          C: features of a context.
        """
        rng_score, rng_window, rng_normalizer, rng_gate = jax.random.split(rng, 4)
        return {
            "score": self.score.init(rng_score, Q, D),
            "window": self.window.init(rng_window, Q, D),
            "normalizer": self.normalizer.init(rng_normalizer, Q, D),
            "gate": self.gate.init(rng_gate, state, C),
        }

    @property
    def carried(self) -> set[str]:
        """What is carried from step to step, besides the states of parts."""
        return {name for part in self for name in part.carried}

    @property
    def reads_contexts(self) -> bool:
        """Whether a part reads what is summed, so that only values themselves may be summed."""
        hooks = self.gate.overrides("gate") or self.gate.overrides("context")
        return "context" in self.carried or hooks or self.score.scores is None

    @property
    def looks_back(self) -> bool:
        """Whether a step depends on earlier ones, beyond their number."""
        return any(part.is_stateful for part in self) or not self.carried <= CONSTANT

    @property
    def sums_to_one(self) -> bool:
        """Whether the weights of a step are probabilities of positions."""
        of_features = self.score.scores is None
        return self.normalizer.sums_to_one and not of_features and not self.window.overrides("gain")

    @property
    def has_hidden_units(self) -> bool:
        """Whether the score has [S, A] units for each query."""
        return any(part.hidden for part in self.score.parts() if isinstance(part, Score))

    @property
    def makes_keys(self) -> bool:
        """Whether queries are compared with something else than the annotations."""
        return self.score.overrides("keys")


def _refusals(m: Mechanism) -> dict[str, bool]:
    """Why parts may not fit together, and whether it is so."""
    score, window, normalizer = m.score, m.window, m.normalizer
    is_full = type(window) is Full
    is_plain = is_full and type(normalizer) is Softmax
    needs = f"the normalizer {normalizer.word} needs logarithms of weights, which"
    return {
        "a score with fixed weights takes no window or other normalizer": (
            score.is_control and not is_plain
        ),
        f"{needs} this score does not give": (
            normalizer.needs_logarithms and not score.gives_logarithms
        ),
        "this score already moves monotonically, and takes no monotonic normalizer": (
            score.moves and normalizer.moves
        ),
        "a monotonic normalizer moves through the source itself, and takes no window": (
            normalizer.moves and not is_full
        ),
        "this score already acts as a window, and takes no other": score.moves and not is_full,
        "a pair of scores needs a normalizer that takes two, such as mocha": (
            score.scores == 2 and normalizer.scores == 1
        ),
        "a score for each feature needs a normalizer of one score, without a state": (
            score.scores is None and (normalizer.is_stateful or normalizer.scores != 1)
        ),
        f"the gate {m.gate.word} makes the context of one weight for each position": (
            score.scores is None and m.gate.overrides("context")
        ),
    }
