"""Options of training that change from a step on, as text: `learning_rate=1e-4@1500`.

Options that change at one step are joined by commas, changes at several by semicolons. A change
without a step is one from now on, which the folder of a run turns into its number of steps done.
"""

import re
import warnings
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from attn_jax.errors import InputError, choose
from attn_jax.settings.grammar import split

NAME = "train.change"
# What may change. A new optimizer, not another setting of the same one, begins with new moments and
# a new warm-up; batches go on by the number of steps done, in the order for their size.
CHANGEABLE = ("learning_rate", "schedule", "warmup_steps", "batch_size", "optimizer")


class Change(NamedTuple):
    """Options that change.

    Attributes:
      options: their text, by name, such as `train.learning_rate`.
      step: steps done before; None: from now on.
    """

    options: dict[str, str]
    step: int | None

    def __str__(self) -> str:
        """The text."""
        settings = (f"{name.removeprefix('train.')}={text}" for name, text in self.options.items())
        return ",".join(settings) + ("" if self.step is None else f"@{self.step}")


def read(text: str) -> list[Change]:
    """The changes that a text stands for, in order.

    Raises:
      InputError: it is not of this form, names an option that may not change, or its steps do not
        increase.
    """
    changes = [_read_one(part) for part in text.split(";")] if text.strip() else []
    steps = [change.step for change in changes if change.step is not None]
    if steps != sorted(set(steps)) or any(change.step is None for change in changes[:-1]):
        raise InputError(f"the steps of {NAME}={text} do not increase")
    return changes


def _read_one(text: str) -> Change:
    found = re.fullmatch(r"\s*([^@]*[^@\s])\s*(?:@\s*(\d{1,18})\s*)?", text)
    settings = [setting.partition("=") for setting in split(found[1])] if found else []
    if found is None or not all(name.strip() and value.strip() for name, _, value in settings):
        raise InputError(
            f"malformed {NAME} {text[:60]!r}: write option=value@step, such as "
            "learning_rate=1e-4@1500, or option=value from now on"
        )
    options = {}
    for name, _, value in settings:
        name = name.strip().removeprefix("train.")
        choose(dict.fromkeys(CHANGEABLE), name, "option that may change")
        if f"train.{name}" in options:
            raise InputError(f"{NAME}={text.strip()} gives {name} twice")
        options[f"train.{name}"] = value.strip()
    return Change(options, None if found[2] is None else int(found[2]))


def joined(changes: Iterable[Change]) -> str:
    """The text of changes."""
    return ";".join(map(str, changes))


def going_on(
    stored: str, given: str, done: int, canonical: Callable[[dict[str, str]], dict[str, Any]]
) -> str:
    """The changes of a run that goes on.

    Args:
      stored: those in the folder of the run.
      given: those that are given now: another one from now on, which is only made once however
        often it is given, or all of them with their steps.
      done: the number of steps done.
      canonical: `config.canonical`, by which options with the same values are equal.

    Raises:
      InputError: what was trained would have been trained otherwise; or there is no `now`, as the
        run has not begun.
    """
    before, now = read(stored), read(given)
    if now and now[-1].step is None:
        *dated, last = now
        dated = dated or before
        past = [change for change in dated if change.step is not None and change.step <= done]
        planned = dated[len(past) :]
        wanted = canonical(last.options).items()
        made = [change for change in past if wanted <= canonical(change.options).items()]
        if made:
            now = dated
            since = canonical({n: text for change in past for n, text in change.options.items()})
            if not wanted <= since.items():
                warnings.warn(
                    f"{NAME}={last} was made at step {made[-1].step}, before other changes: it is "
                    f"not made again (to do so, give its step, as in {last}@{done})",
                    stacklevel=2,
                )
        elif not done:
            raise InputError(
                f"{NAME}={last} is from now on, and nothing is trained yet: give the options "
                f"themselves, or a step, as in {last}@1500"
            )
        else:
            at_once = past.pop().options if past and past[-1].step == done else {}
            now = [*past, Change(at_once | last.options, done), *planned]
    if _made(now, done) != _made(before, done):
        raise InputError(
            f"{NAME}={given} would change what has been trained in {done} steps with "
            f"{NAME}={stored or 'nothing'}"
        )
    return joined(now)


def _made(changes: Iterable[Change], done: int) -> list[Change]:
    """Those that some of the steps done were trained with."""
    return [change for change in changes if change.step is not None and change.step < done]
