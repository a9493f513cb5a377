"""What checks find, and how it is told."""

import dataclasses
from collections.abc import Callable, Container, Iterator, Sequence
from typing import Any, NamedTuple

import jax

from attn_jax.errors import InputError, failure


class Advice(str):
    """What a check has to say of a part that works."""


class Check(NamedTuple):
    """A check in the order in which they are made."""

    find: Callable[[Any], str | None]  # of the subject
    holds: str  # if it finds nothing
    when: str  # code of the user's own fails, if it does
    needed: bool = False  # the others cannot be made unless it finds nothing
    at_start: bool = False  # whether it is made before each training
    of_all: bool = True  # whether it concerns all parts, and not only what gets scores


class Finding(NamedTuple):
    """The result of a check: what holds, and what is wrong, if anything is."""

    holds: str
    problem: str | None

    @property
    def status(self) -> str:
        """`ok`, `note` or `FAILS`."""
        if self.problem is None:
            return "ok"
        return "note" if isinstance(self.problem, Advice) else "FAILS"

    def __str__(self) -> str:
        return f"{self.status:<5}  {self.problem or self.holds}"


@dataclasses.dataclass(frozen=True, repr=False)
class Findings:
    """The results of all checks of a part, of which a notebook shows one line each."""

    checked: str  # what was checked, and with what
    results: tuple[Finding, ...]

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.results)

    def __repr__(self) -> str:
        return "\n".join([self.checked, *map(str, self.results)])

    @property
    def failed(self) -> list[str]:
        """A sentence for each check that fails; empty if all is well."""
        return [str(one.problem) for one in self if one.status == "FAILS"]

    def raise_if_failed(self) -> None:
        """Raises InputError with all that fails, for tests of one's own."""
        if self.failed:
            raise InputError("\n".join([f"{self.checked}:", *self.failed]))


def told(error: Exception, when: str, modules: Container[str]) -> str:
    """What a part has raised, with the line of the user's own modules that it comes from."""
    if isinstance(error, InputError):
        return str(error)
    said = failure(error, modules)
    if isinstance(error, jax.errors.UnexpectedTracerError):
        said += ": it keeps an array from one call to another, which `start` and `advance` are for"
    return f"it fails {when}, with {said}"


def made(subject: Any, checks: Sequence[Check]) -> Iterator[Finding]:
    """The findings of some checks, each as soon as it is made.

    Args:
      subject: what they look at; `modules` are those of the user's own code.
      checks: in their order.
    """
    for check in checks:
        try:
            # Elsewhere products may be rounded to fewer digits, differently in each way.
            with jax.default_matmul_precision("highest"):
                problem = check.find(subject)
        except Exception as error:  # whatever a part raises
            problem = told(error, check.when, subject.modules)
        found = Finding(check.holds, problem)
        yield found
        if check.needed and found.status == "FAILS":
            yield Finding("", Advice("the other checks could not be made"))
            return


def first_problem(subject: Any, checks: Sequence[Check]) -> str | None:
    """What those checks find first that are made before each training, if anything."""
    found = made(subject, [check for check in checks if check.at_start])
    return next((one.problem for one in found if one.status == "FAILS"), None)
