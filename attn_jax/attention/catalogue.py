"""All scores, windows and normalizers by name, and which of them can be combined."""

from collections.abc import Callable
from typing import NamedTuple

from attn_jax.attention import monotonic, normalizers, position_scores, scores, sparse, windows
from attn_jax.attention.parts import Part, name_of, named_by, traits_of, unbound
from attn_jax.errors import InputError
from attn_jax.names import choose_or_import, numbers, parse

SCORES: dict[str, Callable] = {
    "additive": scores.additive,
    "dot": scores.dot,
    "scaled_dot": scores.scaled_dot,
    "general": scores.general,
    "concat": scores.concat,
    "cosine": scores.cosine,
    "linear": scores.linear,
    "relative": position_scores.relative,
    "location": position_scores.location,
    "location_aware": position_scores.location_aware,
    "coverage": position_scores.coverage,
    "gmm": position_scores.gmm,
    "mean": scores.mean,
    "last": scores.last,
}

WINDOWS: dict[str, Callable] = {
    "full": windows.full,
    "local_m": windows.local_m,
    "local_p": windows.local_p,
}

NORMALIZERS: dict[str, Callable] = {
    "softmax": normalizers.softmax,
    "temperature": normalizers.temperature,
    "sparsemax": sparse.sparsemax,
    "entmax": sparse.entmax,
    "sigmoid": normalizers.sigmoid,
    "null": normalizers.null,
    "exponential": normalizers.exponential,
    "monotonic": monotonic.monotonic,
    "mocha": monotonic.mocha,
    "forward": monotonic.forward,
}

# Scores that depend on neither content nor history: baselines for attention.
CONTROLS = (scores.mean, scores.last)
MOVING = (monotonic.monotonic, monotonic.mocha, monotonic.forward)
TABLES = {"score": SCORES, "window": WINDOWS, "normalizer": NORMALIZERS}


class Mechanism(NamedTuple):
    """A valid combination of a score, a window and a normalizer."""

    score: Part
    window: Part
    normalizer: Part

    @property
    def looks_back(self) -> bool:
        """Whether a step depends on the attention of previous steps."""
        return any(part.looks_back for part in self)

    @property
    def remembers(self) -> bool:
        """Whether a step needs a `Memory`: it looks back, or depends on the number of the step."""
        return self.looks_back or any(part.counts for part in self)

    @property
    def decoding(self) -> "Mechanism":
        """The mechanism as it is used outside training."""
        return Mechanism(*(part.decoding for part in self))


def resolve(what: str, part: str | Callable) -> Part:
    """The part that a name, a text `module:function` or a function stands for.

    Args:
      what: `score`, `window` or `normalizer`.
      part: its name, with settings in brackets if any; `module:function`; or a function.

    Raises:
      InputError: there is no such name, module, function or setting, or only one of `carry` and
        its `start`.
    """
    if callable(part):
        return _checked(Part(part))
    name, texts = parse(part, what)
    function = choose_or_import(TABLES[what], name, what)
    settings = numbers(name, texts, Part(function).settings)
    return _checked(Part(function, tuple(sorted(settings.items()))))


def _checked(part: Part) -> Part:
    """The part, after checking that it has both of `carry` and `start`, or neither."""
    takes = "carry" in named_by(part.function)
    if takes != part.has_carry:
        has = "takes a carry and has no start" if takes else "has a start and takes no carry"
        raise InputError(
            f"{name_of(part.function)} {has}: attn_jax.part(start=...) names the function of the "
            "first carry, and the part takes it as `carry` after a *"
        )
    return part


def mechanism(
    score: str | Callable, window: str | Callable = "full", normalizer: str | Callable = "auto"
) -> Mechanism:
    """The mechanism that consists of the given parts.

    Args:
      score: a name such as `additive` or `location_aware(width=5)`, `module:function`, or a
        function.
      window: likewise.
      normalizer: likewise; `auto` is the default of the score, usually softmax.

    Raises:
      InputError: a part does not exist, or the parts cannot be combined.
    """
    chosen = resolve("score", score)
    if normalizer == "auto":
        normalizer = chosen.traits.normalizer
    made = Mechanism(chosen, resolve("window", window), resolve("normalizer", normalizer))
    functions = [unbound(part.function) for part in made]
    for refused, reason in _refusals(*functions):
        if refused:
            raise InputError(f"{reason}: got {', '.join(map(name_of, functions))}")
    return made


def score_function(score: str | Callable) -> Callable:
    """The function of a score that is given by name, as `module:function` or as a function."""
    return unbound(resolve("score", score).function)


def _refusals(score: Callable, window: Callable, normalizer: Callable) -> list[tuple[bool, str]]:
    plain = window is windows.full and normalizer is normalizers.softmax
    return [
        (
            score in CONTROLS and not plain,
            "the scores 'mean' and 'last' have fixed weights, and take no window or other "
            "normalizer",
        ),
        (
            normalizer is normalizers.exponential
            and score in SCORES.values()
            and score is not position_scores.gmm,
            "the normalizer 'exponential' needs logarithms of weights, which only 'gmm' returns",
        ),
        (
            score is position_scores.gmm and normalizer in MOVING,
            "the score 'gmm' already moves monotonically, and takes no monotonic normalizer",
        ),
        (
            window is not windows.full and normalizer in MOVING,
            "a monotonic normalizer moves through the source itself, and takes no window",
        ),
        (
            window is not windows.full and score is position_scores.gmm,
            "the score 'gmm' already acts as a window, and takes no other",
        ),
        (
            normalizer is monotonic.mocha and traits_of(score).start is not None,
            "the normalizer 'mocha' uses two scores, and takes none with a carry",
        ),
    ]
