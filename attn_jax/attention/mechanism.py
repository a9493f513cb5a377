"""A mechanism: a score, a window and a normalizer that fit together."""

import dataclasses
from collections.abc import Callable, Iterator

import jax
from jaxtyping import Array, PyTree

from attn_jax.attention.normalizers import Softmax
from attn_jax.attention.plain import as_part
from attn_jax.attention.protocol import Normalizer, Part, Score, Window
from attn_jax.attention.scores import Pair
from attn_jax.attention.windows import Full
from attn_jax.errors import InputError


@dataclasses.dataclass(frozen=True, init=False)
class Mechanism:
    """A score, a window and a normalizer, each of which may be given as a plain function.

    Its parameters are those of its parts, by `score`, `window` and `normalizer`. A normalizer that
    takes two scores gets two of the same kind, unless the score is a `Pair` already.

    Args:
      score: how well annotations match a query.
      window: which positions are attended to.
      normalizer: from scores to weights; None: the score's own, usually softmax.

    Raises:
      InputError: the parts do not fit together, or one is none.
    """

    score: Score
    window: Window
    normalizer: Normalizer

    def __init__(
        self,
        score: Score | Callable,
        window: Window | Callable = Full(),
        normalizer: Normalizer | Callable | None = None,
    ):
        if normalizer is None:
            normalizer = (getattr(score, "default_normalizer", None) or Softmax)()
        kinds = {"score": Score, "window": Window, "normalizer": Normalizer}
        for (name, kind), given in zip(kinds.items(), (score, window, normalizer), strict=True):
            part = as_part(kind, given)
            if not isinstance(part, kind):
                hint = f": write {given.__name__}()" if isinstance(given, type) else ""
                raise InputError(
                    f"the {name} must be a {kind.__name__} or a function, got {given!r}{hint}"
                )
            object.__setattr__(self, name, part)
        if self.normalizer.scores == 2 and not isinstance(self.score, Pair):
            object.__setattr__(self, "score", Pair(self.score, self.score))
        for reason, refused in _refusals(self.score, self.window, self.normalizer).items():
            if refused:
                raise InputError(f"{reason}: got {', '.join(part.word for part in self)}")

    def __iter__(self) -> Iterator[Part]:
        """The score, the window and the normalizer."""
        return iter((self.score, self.window, self.normalizer))

    def init(self, rng: Array, Q: int, D: int) -> PyTree:
        """The first parameters of one head, for queries and annotations of Q and D features."""
        rng_score, rng_window, rng_normalizer = jax.random.split(rng, 3)
        return {
            "score": self.score.init(rng_score, Q, D),
            "window": self.window.init(rng_window, Q, D),
            "normalizer": self.normalizer.init(rng_normalizer, Q, D),
        }

    @property
    def carried(self) -> set[str]:
        """What is carried from step to step, besides the states of parts."""
        return {name for part in self for inner in part.parts() for name in inner.reads}

    @property
    def looks_back(self) -> bool:
        """Whether a step depends on earlier ones, beyond their number."""
        constant = {"step", "train_step"}
        return any(part.is_stateful for part in self) or not self.carried <= constant

    @property
    def sums_to_one(self) -> bool:
        """Whether the weights of a step are probabilities of positions."""
        return self.normalizer.sums_to_one and not self.window.overrides("gain")

    @property
    def has_hidden_units(self) -> bool:
        """Whether the score has [S, A] units for each query."""
        return any(part.hidden for part in self.score.parts() if isinstance(part, Score))

    @property
    def makes_keys(self) -> bool:
        """Whether queries are compared with something else than the annotations."""
        return self.score.overrides("keys")


def _refusals(score: Score, window: Window, normalizer: Normalizer) -> dict[str, bool]:
    """Why parts may not fit together, and whether it is so."""
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
            isinstance(score, Pair) and normalizer.scores == 1
        ),
    }
