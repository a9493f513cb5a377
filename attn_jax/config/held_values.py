"""How options hold values, and how text stands for what they hold."""

import dataclasses
from collections.abc import Iterable
from typing import Any

from attn_jax.config import value_text
from attn_jax.config.value_text import Tables
from attn_jax.settings.value import Value

AUTO = "auto"  # what stands for None, such as the normalizer of the score
NONE = "none"  # what stands for no values


@dataclasses.dataclass(frozen=True)
class One:
    """An option that holds a value.

    Args:
      kind: the class that the value is derived from.
      tables: for each kind that text may name, the classes by name.
    """

    kind: type[Value]
    tables: Tables

    def text(self, held: Any) -> str:
        """What the option holds, with all settings; `read(text(held)) == held`."""
        return str(held)

    def read(self, text: str) -> Any:
        """What a text stands for.

        Raises:
          InputError: it stands for nothing that the option may hold.
        """
        return value_text.read(self.kind, text, self.tables)

    def canonical(self, text: str) -> str:
        """The text with all settings; the user's own code is not imported."""
        return value_text.canonical(self.kind, text, self.tables)

    def brief(self, text: str) -> str:
        """The text without the settings that have their defaults."""
        return value_text.brief(self.kind, text, self.tables)


class OneOrAuto(One):
    """An option that holds a value, or None, which is `auto`."""

    def text(self, held: Any) -> str:
        return AUTO if held is None else super().text(held)

    def read(self, text: str) -> Any:
        return None if text == AUTO else super().read(text)

    def canonical(self, text: str) -> str:
        return text if text == AUTO else super().canonical(text)

    def brief(self, text: str) -> str:
        return text if text == AUTO else super().brief(text)


class Several(One):
    """An option that holds a tuple of values, joined by `+`; `none` is the empty one."""

    def listed(self, text: str) -> list[str]:
        """The text of each value.

        Raises:
          InputError: the text is not of this form.
        """
        return [] if text == NONE else value_text.listed(self.kind, text)

    def text(self, held: Any) -> str:
        return joined(map(str, held))

    def read(self, text: str) -> Any:
        return tuple(super(Several, self).read(each) for each in self.listed(text))

    def canonical(self, text: str) -> str:
        return joined(super(Several, self).canonical(each) for each in self.listed(text))

    def brief(self, text: str) -> str:
        return joined(super(Several, self).brief(each) for each in self.listed(text))


def joined(texts: Iterable[str]) -> str:
    """One text for several."""
    return "+".join(texts) or NONE


def held_option(held: One, default: Any, help: str) -> Any:
    """A field that holds what `held` says."""
    shown = held.brief(held.text(default))
    return dataclasses.field(default=default, metadata={"help": help, "held": held, "shown": shown})
