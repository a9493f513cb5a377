"""Which text a program can use, and warnings about it."""

import itertools
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from attn_jax.data.pretokens import CutText
from attn_jax.data.sentences import SPACES, Example, Sentence
from attn_jax.data.subword_model import SPACE
from attn_jax.data.vocabulary import Vocabulary
from attn_jax.errors import InputError
from attn_jax.tokens import UNK


def fits(example: Example[Sentence], max_length: int) -> bool:
    """Whether each side, a sentence, has at least one token, and at most `max_length`."""
    return all(0 < len(side.tokens) <= max_length for side in (example.source, example.target))


def check_lengths(split: str, examples: Sequence[Example[Sentence]], max_length: int) -> None:
    """Raises InputError if a pair to be decoded has a side that is empty or too long."""
    for number, example in enumerate(examples, start=1):
        for side in ("source", "target"):
            length = len(getattr(example, side).tokens)
            if not length:
                raise InputError(f"{split} pair {number}: the {side} side has no token")
            if length > max_length:
                raise InputError(
                    f"{split} pair {number}: the {side} side has {length} tokens, more than "
                    f"data.max_length={max_length}"
                )


def warn_of_unknown(vocabulary: Vocabulary, sentences: Sequence[Sentence], which: str = "") -> None:
    """Warns, on standard error, of tokens in the sentences that the model does not know."""
    unknown = vocabulary.unknown(sentences)
    if unknown:
        more = f" and {len(unknown) - 5} more" if len(unknown) > 5 else ""
        told = f"{which}unknown to the model: {' '.join(map(repr, unknown[:5]))}{more}"
        print(told, file=sys.stderr)


def check_known(
    initial: str, counts: Sequence[np.ndarray], source: Vocabulary, target: Vocabulary
) -> None:
    """Raises InputError if a run to start from knows nothing of a side but its spaces.

    Args:
      initial: the run.
      counts: how often the training text has each source and each target id.
      source, target: the vocabularies.
    """
    for side, vocabulary, of_ids in zip(
        ("source", "target"), (source, target), counts, strict=True
    ):
        of_first = np.flatnonzero(of_ids[: len(vocabulary.first)])  # tags alone do not help
        found = [vocabulary.tokens[index] for index in of_first if index != UNK]
        if not any(token.strip(f"{SPACES}{SPACE}") for token in found):
            raise InputError(
                f"the run in {initial} knows no {side} token of the training text: is that text in "
                f"the language of its {side} side?"
            )


def counts_of(
    examples: Sequence[Example[Sentence]], source: Vocabulary, target: Vocabulary
) -> tuple[np.ndarray, np.ndarray]:
    """How often each source and each target id occurs in examples that are cut."""

    def counts(vocabulary: Vocabulary, sentences: Iterable[Sentence]) -> np.ndarray:
        tokens = itertools.chain.from_iterable(sentence.tokens for sentence in sentences)
        return np.bincount(vocabulary.ids(tokens), minlength=len(vocabulary))

    return (
        counts(source, (example.source for example in examples)),
        counts(target, (example.target for example in examples)),
    )


def unknown_shares(
    splits: dict[str, tuple[np.ndarray, np.ndarray]], source: Vocabulary, target: Vocabulary
) -> str | None:
    """A message with the share of unknown tokens in each split; None if all are known.

    If the model will know little of the training text, it also names the option to change.

    Args:
      splits: how often each source and each target id occurs, in the training text first; all zero
        for a split without pairs.
      source, target: the vocabularies.
    """
    unknown = source.unknown_ids, target.unknown_ids
    shares = {
        name: [
            100 * of_ids[ids].sum() / of_ids.sum()
            for ids, of_ids in zip(unknown, counts, strict=True)
        ]
        for name, counts in splits.items()
        if all(of_ids.any() for of_ids in counts)
    }
    if not any(itertools.chain(*shares.values())):
        return None
    told = (
        f"{source:.1f} and {target:.1f} % of {name}" for name, (source, target) in shares.items()
    )
    advice = "".join(
        f"\nmost {side} tokens of the training text are unknown: would other tokens suit it, such "
        f"as --data.{side}_level=character?"
        for side, share in zip(("source", "target"), next(iter(shares.values())), strict=True)
        if share > 50
    )
    return f"unknown source and target tokens: {', '.join(told)}{advice}"


def seen_in_training(
    training: CutText, splits: Mapping[str, Sequence[Example[Sentence]]]
) -> Iterator[str]:
    """A message for each other split that contains training pairs, with their number."""
    for name, examples in splits.items():
        count = training.count_of((one.source.text, one.target.text) for one in examples)
        if count:
            yield f"{count} of {len(examples)} {name} pairs are training pairs too"
