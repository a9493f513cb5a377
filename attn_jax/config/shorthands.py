"""Options that are short for others, which they become when text becomes values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from attn_jax.attention.head_names import HEADS, SEVERAL, Head, Heads, Mean
from attn_jax.config.held_values import NONE, One, Several, held_option, joined
from attn_jax.errors import InputError
from attn_jax.settings.fields import fields, option
from attn_jax.training.losses import LOSSES, Coverage, Guided, Loss

UNITS = "model.alignment_size"
COVERAGE, GUIDED, GUIDED_HEAD = (
    f"train.{name}" for name in ("coverage_loss", "guided_alignment", "guided_head")
)
# The options that are short for a loss, and which one.
OF_LOSSES: dict[str, type[Loss]] = {COVERAGE: Coverage, GUIDED: Guided, GUIDED_HEAD: Guided}
FULL = "train.losses"

HEAD = One(Head, {Head: HEADS})
LOSS = Several(Loss, {Loss: LOSSES, Heads: SEVERAL})


@dataclass(frozen=True)
class OfModel:
    """Options of a model that stand for settings of its parts."""

    alignment_size: int = option(
        128, "A, hidden units of the scores and windows that do not give their own units", low=1
    )


@dataclass(frozen=True)
class OfTraining:
    """Options of training that stand for losses."""

    coverage_loss: float = option(
        0.0, "short for losses=coverage(weight=...), of See et al., for attending twice", low=0
    )
    guided_alignment: float = option(
        0.0,
        "short for losses=guided(weight=...), of Chen et al., against the links of data.links, or "
        "of generated data",
        low=0,
    )
    guided_head: Head = held_option(
        HEAD,
        Mean(),
        "weights that it guides: mean (of all layers and heads), or layer.head as in 2.1",
    )


@dataclass(frozen=True)
class Shorthands:
    """All of them, in their groups."""

    model: OfModel = field(default_factory=OfModel)
    train: OfTraining = field(default_factory=OfTraining)


KNOWN = dict(fields(Shorthands))


def is_usual(name: str, value: Any) -> bool:
    """Whether a value of a shorthand, of the type of its option, is the default."""
    entry = KNOWN[name]
    return value == entry.metadata.get("shown", entry.default)


def unfolded(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options in which `train.losses` has the losses that shorthands stand for.

    Args:
      options: by name, each of the type of its option in text.

    Raises:
      InputError: a loss is given both ways.
    """
    full = _listed(options)
    names = set(map(_name, full))
    for name, kind in OF_LOSSES.items():
        if name in options and not is_usual(name, options[name]) and kind.name in names:
            raise InputError(
                f"{name} is short for a setting of {kind.name} in train.losses="
                f"{joined(full)}: give it there alone"
            )
    short: list[Loss] = []
    if weight := options.get(COVERAGE):
        short.append(Coverage(weight=weight))
    head = HEAD.read(options.get(GUIDED_HEAD, Mean.name))
    if weight := options.get(GUIDED):
        short.append(Guided(weight=weight, head=head))
    rest = {name: value for name, value in options.items() if name not in OF_LOSSES}
    return rest | ({FULL: joined(map(str, [*full, *short]))} if short else {})


def folded(options: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Options of which some are given anew, ready for that.

    A loss of which a shorthand is given leaves `train.losses`, and is told by its shorthands, so
    that those that are not given stay as they are.
    """
    options, rest = dict(options), []
    anew = {OF_LOSSES[name].name for name in given.keys() & OF_LOSSES.keys()}
    if not anew or FULL in given:
        return options
    for each in _listed(options):
        short = _short(each) if _name(each) in anew else {}
        options |= short
        rest += [] if short else [each]
    return options | {FULL: joined(rest)}


def _short(loss: str) -> dict[str, Any]:
    """A loss as its shorthands; nothing if they cannot tell it."""
    (read,) = LOSS.read(loss)
    if read == Coverage(weight=read.weight):
        return {COVERAGE: read.weight}
    if isinstance(read, Guided) and isinstance(read.head, Head):
        return {GUIDED: read.weight, GUIDED_HEAD: str(read.head)}
    return {}


def _listed(options: Mapping[str, Any]) -> list[str]:
    """The losses of `train.losses`, each as text."""
    return LOSS.listed(options.get(FULL, NONE))


def _name(loss: str) -> str:
    return loss.partition("(")[0]
