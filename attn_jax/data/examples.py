"""Which text a program can use, and warnings about it."""

import itertools
import sys
from collections.abc import Iterable, Iterator, Sequence

from attn_jax.data.pairs import Example, Pair
from attn_jax.data.subword_model import SPACE
from attn_jax.data.vocabulary import Vocabulary
from attn_jax.data.words import SPACES
from attn_jax.errors import InputError
from attn_jax.tokens import UNK


def encode(examples: Sequence[Example], source: Vocabulary, target: Vocabulary) -> list[Pair]:
    """The examples as ids."""
    return [
        Pair(source.encode(example.source), target.encode(example.target)) for example in examples
    ]


def fits(pair: Pair, max_length: int) -> bool:
    """Whether each side has at least one token, and at most `max_length`."""
    return all(0 < len(side) <= max_length for side in (pair.source, pair.target))


def check_lengths(split: str, pairs: Sequence[Pair], max_length: int) -> None:
    """Raises InputError if a pair to be decoded has a side that is empty or too long."""
    for number, pair in enumerate(pairs, start=1):
        for side, ids in (("source", pair.source), ("target", pair.target)):
            if not ids:
                raise InputError(f"{split} pair {number}: the {side} side has no token")
            if len(ids) > max_length:
                raise InputError(
                    f"{split} pair {number}: the {side} side has {len(ids)} tokens, more than "
                    f"--data.max_length={max_length}"
                )


def warn_of_unknown(vocabulary: Vocabulary, sentences: Sequence[str], which: str = "") -> None:
    """Warns, on standard error, of tokens in the sentences that the model does not know."""
    unknown = vocabulary.unknown(sentences)
    if unknown:
        more = f" and {len(unknown) - 5} more" if len(unknown) > 5 else ""
        told = f"{which}unknown to the model: {' '.join(map(repr, unknown[:5]))}{more}"
        print(told, file=sys.stderr)


def check_known(
    initial: str, pairs: Sequence[Pair], source: Vocabulary, target: Vocabulary
) -> None:
    """Raises InputError if a run to start from knows nothing of a side but its spaces."""
    for side, vocabulary in (("source", source), ("target", target)):
        tokens = enumerate(vocabulary.tokens)
        nothing = {UNK, *(index for index, token in tokens if not token.strip(f"{SPACES}{SPACE}"))}
        if all(nothing.issuperset(getattr(pair, side)) for pair in pairs):
            raise InputError(
                f"the run in {initial} knows no {side} token of the training text: is that text in "
                f"the language of its {side} side?"
            )


def unknown_shares(splits: dict[str, Sequence[Pair]]) -> str | None:
    """A message with the share of unknown tokens in each split; None if all are known."""

    def share(sentences: Iterable[Sequence[int]]) -> float:
        ids = list(itertools.chain.from_iterable(sentences))
        return 100 * ids.count(UNK) / len(ids)

    shares = {
        name: (share(pair.source for pair in split), share(pair.target for pair in split))
        for name, split in splits.items()
        if split
    }
    if not any(itertools.chain(*shares.values())):
        return None
    told = (
        f"{source:.1f} and {target:.1f} % of {name}" for name, (source, target) in shares.items()
    )
    return f"unknown source and target tokens: {', '.join(told)}"


def seen_in_training(
    examples: Sequence[Example], splits: dict[str, Sequence[Example]]
) -> Iterator[str]:
    """A message for each other split that contains training pairs, with their number."""
    seen = {(example.source, example.target) for example in examples}
    for name, split in splits.items():
        count = sum((example.source, example.target) in seen for example in split)
        if count:
            yield f"{count} of {len(split)} {name} pairs are training pairs too"
