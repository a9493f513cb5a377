"""What data a comparison has, and into which tokens to cut them."""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from attn_jax import config
from attn_jax.data.datasets import Corpus, open_corpus, with_defaults
from attn_jax.data.joined_texts import parted
from attn_jax.data.run_vocabularies import cutting
from attn_jax.data.words import words_of
from attn_jax.errors import InputError

LOOKED_AT = 5000  # training pairs, from the first on, by which tokens are chosen
ALONE = 0.9  # share of lines that are one word, from which on tokens are characters
FEW = 200  # different words, up to which they are symbols, such as phones


class Survey(NamedTuple):
    """The data.

    Attributes:
      options: those of the tokens, where they were not given.
      pairs: of each split.
      lengths: of the training pairs, source and target, in tokens (of subwords: in words), [n, 2].
      levels: of source and target.
    """

    options: dict[str, Any]
    pairs: dict[str, int]
    lengths: np.ndarray
    levels: tuple[str, str]

    def told(self) -> Iterator[str]:
        """The data in words."""
        counts = (f"{count:,} for {split}" for split, count in self.pairs.items())
        yield f"data: pairs of sentences, {', '.join(counts)}"
        for side, lengths, level in zip(
            ("source", "target"), self.lengths.T, self.levels, strict=True
        ):
            unit = "word" if level == "subword" else level
            yield (
                f"{side}: {level}s; a training sentence has {np.median(lengths):.0f} {unit}s "
                f"(median), at most {lengths.max()}"
            )


def survey(given: Mapping[str, Any]) -> Survey:
    """Looks at the data that options name.

    Raises:
      InputError: they cannot be opened, or have no test split.
    """
    data = _data(given)
    corpus = open_corpus(data)
    if "test" not in corpus.splits:
        raise InputError("a comparison is decided on a test split: give data.test")
    options = _levels(corpus, data) if data.name == "parallel" else {}
    chosen = with_defaults(_data({**given, **options}))
    return Survey(
        options,
        {split: len(corpus.examples(split)) for split in ("train", "validation", "test")},
        corpus.text("train", *cutting(chosen)).lengths(),
        (chosen.source_level, chosen.target_level),
    )


def _data(options: Mapping[str, Any]) -> config.Data:
    return config.experiment({n: v for n, v in options.items() if n.startswith("data.")}).data


def _levels(corpus: Corpus, data: config.Data) -> dict[str, str]:
    """The level of each side for which none was given."""
    some = list(itertools.islice(corpus.examples("train"), LOOKED_AT))
    sources = (example.source for example in some)
    texts = {
        "source": sources if data.sources == 1 else (parted(source)[0] for source in sources),
        "target": (example.target for example in some),
    }
    return {
        f"data.{side}_level": level_of(lines)
        for side, lines in texts.items()
        if getattr(data, f"{side}_level") == "auto"
    }


def level_of(lines: Iterable[str]) -> str:
    """The level of tokens that suits some lines.

    Single words are cut into characters, sequences of few different words are symbols, such as
    phones, and all else is sentences, which are cut into subwords.
    """
    words = [words_of(line) for line in lines]
    if sum(len(line) <= 1 for line in words) >= ALONE * len(words):
        return "character"
    different = {word for line in words for word in line}
    return "symbol" if len(different) <= FEW else "subword"
