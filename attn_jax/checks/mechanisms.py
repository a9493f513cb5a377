"""Checks of a part or a whole mechanism of one's own, or of a loss."""

from collections.abc import Iterator, Sequence
from typing import Any

from attn_jax.attention.protocol import Mixing, Normalizer, Window
from attn_jax.checks import declared, losses, masks, mixing, numbers, ways
from attn_jax.checks.findings import Check, Finding, Findings, first_problem, made
from attn_jax.checks.mixing import Mixed
from attn_jax.checks.subject import E, Subject, surrounded
from attn_jax.checks.ways import fits
from attn_jax.errors import InputError
from attn_jax.recipe.loss import Loss

SIZES = (24, 32), (32, 32)  # Q, D: the first that a part takes
# Before a run starts, what is compiled is called only a few times.
QUICKLY_COMPILED = {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
}


CHECKS = (
    Check(
        declared.value,
        "is a value, equal to its copy and its text",
        "as a value",
        needed=True,
        at_start=True,
    ),
    Check(
        declared.first_parameters,
        "`init` gives floating-point parameters, the same for the same key",
        "in `init`",
        needed=True,
        at_start=True,
    ),
    Check(
        declared.returned,
        "gives a finite weight for each position, and reads what it declares",
        "with random queries and annotations",
        needed=True,
        at_start=True,
    ),
    Check(declared.influence, "every parameter has a gradient", "in the derivative"),
    Check(
        masks.masked,
        "masked positions get no weight and change nothing",
        "with a mask",
        at_start=True,
    ),
    Check(
        masks.padded,
        "padding to the length of a longer sentence changes nothing",
        "with a mask",
        at_start=True,
    ),
    Check(
        masks.fully_masked,
        "a mask that is False everywhere gives weights of 0 and finite gradients",
        "with a mask that is False everywhere",
        at_start=True,
    ),
    Check(numbers.excluded, "scores of -∞ exclude positions", "with scores of -∞", of_all=False),
    Check(
        numbers.extreme,
        "equal scores and scores of ±1e30 give finite weights",
        "with scores of ±1e30",
        of_all=False,
    ),
    Check(numbers.gradients, "gradients are finite, also of zeros", "in the derivative"),
    Check(numbers.differences, "gradients equal finite differences", "in float64"),
    Check(numbers.short, "bfloat16 and float16 give nearly the same", "in bfloat16 or float16"),
    Check(
        numbers.long,
        f"{numbers.LONG:,} positions give finite weights and gradients",
        f"with {numbers.LONG:,} positions",
    ),
    Check(
        numbers.memory,
        "recomputing hidden units would save no memory",
        f"with {numbers.LONG:,} positions",
    ),
    Check(
        ways.decoding,
        "decoding step by step equals teacher forcing",
        "step by step",
        at_start=True,
    ),
    Check(ways.heads, "the same in a model, with heads that share keys", "in a model with heads"),
)

OF_MIXING = (
    *(check for check in CHECKS if check.find in (declared.value, declared.first_parameters)),
    Check(
        mixing.returned,
        "gives finite scores and weights for each head and position",
        "with random scores and weights",
        needed=True,
        at_start=True,
    ),
    Check(mixing.signs, "weights are negative only if it says so", "with weights", at_start=True),
    Check(mixing.padded, "padding changes nothing", "with padding", at_start=True),
    Check(mixing.gradients, "gradients are finite and reach all parameters", "in the derivative"),
)


def check(
    part: Any, *, query_size: int | None = None, annotation_size: int | None = None
) -> Findings:
    """Checks a part of one's own: everything that the tests know of those in this package.

    It is called as models do, alone with usual other parts: in use and in training, with masks and
    padding, on 2,000 positions, in bfloat16, and step by step.

    Args:
      part: a score, a window, a normalizer, values, a gate or mixing, such as `MyScore()`; a plain
        function, which is taken for a score; a `Mechanism`; or a `Loss`.
      query_size: Q; 24 unless the part needs queries and annotations of one size.
      annotation_size: D, 32.

    Returns:
      What was found, a line for each check; `failed` is what is wrong.

    Raises:
      InputError: it is no part, or sizes are given for a loss.
    """
    checked, found = begun(part, query_size, annotation_size)
    return Findings(checked, tuple(found))


def begun(
    part: Any, query_size: int | None, annotation_size: int | None
) -> tuple[str, Iterator[Finding]]:
    """What is checked, in words, and the findings, each as soon as it is made.

    Raises:
      InputError: it is no part, or sizes are given for a loss.
    """
    if not isinstance(part, Loss):
        subject = subject_of(part, query_size, annotation_size)
        return describe(subject), findings(subject)
    if query_size or annotation_size:
        raise InputError("a loss sees no queries or annotations: leave out their sizes")
    return str(part), made(losses.Subject(part), losses.CHECKS)


def subject_of(part: Any, query_size: int | None, annotation_size: int | None) -> Subject | Mixed:
    """What is checked, at the given sizes or usual ones.

    Raises:
      InputError: it is no part.
    """
    if isinstance(part, Mixing):
        return Mixed(part)
    mechanism, own = surrounded(part)
    tried = [(query_size or Q, annotation_size or D) for Q, D in SIZES]
    sizes = next((sizes for sizes in tried if fits(mechanism, *sizes)), tried[0])
    return Subject(mechanism, own, *sizes)


def describe(subject: Subject | Mixed) -> str:
    """What is checked, in words."""
    names = ", ".join(map(str, subject.own))
    if isinstance(subject, Mixed):
        return f"{names}, with {mixing.HEADS} heads"
    return f"{names}, with queries of {subject.Q} and annotations of {subject.D} features"


def findings(subject: Subject | Mixed) -> Iterator[Finding]:
    """The findings, each as soon as it is made."""
    yield from _made(subject, OF_MIXING if isinstance(subject, Mixed) else CHECKS)


def problem_at_start(part: Any, Q: int, D: int, length: int, E: int = E) -> str | None:
    """What is wrong with a part at the sizes of queries, annotations and word vectors, if anything.

    Only the checks of what would train and decode wrongly without a word, which together take about
    two seconds: masks, padding, and steps one by one. What is not finite at extreme scores or in
    short precision is told as such when it happens.
    """
    if isinstance(part, Mixing):
        return first_problem(Mixed(part), OF_MIXING)
    subject = Subject(*surrounded(part), Q, D, length, QUICKLY_COMPILED, E)
    return first_problem(subject, CHECKS)


def _made(subject: Subject | Mixed, checks: Sequence[Check]) -> Iterator[Finding]:
    gets_scores = any(isinstance(part, Window | Normalizer) for part in subject.own)
    return made(subject, [check for check in checks if gets_scores or check.of_all])
