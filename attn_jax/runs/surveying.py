"""What data a comparison has, and into which tokens to cut them."""

import itertools
from collections import Counter
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
FEW, OFTEN = 200, 5  # different words, and uses of each on average, of symbols such as phones
SHORT = 40, 4  # characters and words (medians), below which tokens are characters
# Systems of all kinds can be built with it, which is not true of the others.
SOURCES = "concatenated"


class Survey(NamedTuple):
    """The data.

    Attributes:
      options: those of the tokens and the second source, where they were not given.
      pairs: of each split.
      lengths: of the training pairs, source and target, in tokens (of subwords: in words), [n, 2].
      levels: of source and target.
      why: each of them was chosen; empty where it was given.
    """

    options: dict[str, Any]
    pairs: dict[str, int]
    lengths: np.ndarray
    levels: tuple[str, str]
    why: tuple[str, str]

    def told(self) -> Iterator[str]:
        """The data in words."""
        counts = (f"{count:,} for {split}" for split, count in self.pairs.items())
        yield f"data: pairs of sentences, {', '.join(counts)}"
        for side, lengths, level, why in zip(
            ("source", "target"), self.lengths.T, self.levels, self.why, strict=True
        ):
            unit = "word" if level == "subword" else level
            yield (
                f"{side}: {level}s{why and ', since '}{why}; a training sentence has "
                f"{np.median(lengths):.0f} {unit}s (median), at most {lengths.max()}"
            )
        if "model.sources" in self.options:
            yield f"two sources: model.sources={self.options['model.sources']} for all systems"


def survey(given: Mapping[str, Any]) -> Survey:
    """Looks at the data that options name.

    Raises:
      InputError: they cannot be opened, or have no test split.
    """
    data = _data(given)
    corpus = open_corpus(data)
    if "test" not in corpus.splits:
        raise InputError("a comparison is decided on a test split: give data.test")
    rules = _rules(corpus, data) if data.name == "parallel" else {}
    options = {f"data.{side}_level": level for side, (level, _) in rules.items()}
    chosen = with_defaults(_data({**given, **options}))
    of_sources = {"model.sources": SOURCES} if data.sources == 2 else {}
    return Survey(
        options | {name: value for name, value in of_sources.items() if name not in given},
        {split: len(corpus.examples(split)) for split in ("train", "validation", "test")},
        corpus.text("train", *cutting(chosen)).lengths(),
        (chosen.source_level, chosen.target_level),
        (rules.get("source", ("", ""))[1], rules.get("target", ("", ""))[1]),
    )


def _data(options: Mapping[str, Any]) -> config.Data:
    return config.experiment({n: v for n, v in options.items() if n.startswith("data.")}).data


def _rules(corpus: Corpus, data: config.Data) -> dict[str, tuple[str, str]]:
    """The level of each side for which none was given, and why."""
    some = list(itertools.islice(corpus.examples("train"), LOOKED_AT))
    sources = (example.source for example in some)
    texts = {
        "source": sources if data.sources == 1 else (parted(source)[0] for source in sources),
        "target": (example.target for example in some),
    }
    return {
        side: level_of(lines)
        for side, lines in texts.items()
        if getattr(data, f"{side}_level") == "auto"
    }


def level_of(lines: Iterable[str]) -> tuple[str, str]:
    """The level of tokens that suits some lines, and why.

    Single words and short lines are cut into characters, sequences of few different words are
    symbols, such as phones, and all else is sentences, which are cut into subwords.
    """
    lines = list(lines)
    words = [words_of(line) for line in lines]
    alone = sum(len(line) <= 1 for line in words) / len(words)
    if alone >= ALONE:
        return "character", f"{alone:.0%} of lines are one word (at least {ALONE:.0%})"
    uses = Counter(itertools.chain.from_iterable(words))
    if len(uses) <= FEW and uses.total() >= OFTEN * len(uses):
        return "symbol", (
            f"there are {len(uses)} different words, each used {uses.total() / len(uses):.0f} "
            f"times (at most {FEW}, at least {OFTEN} times)"
        )
    length, count = np.median(list(map(len, lines))), np.median(list(map(len, words)))
    most, many = SHORT
    if length < most and count < many:
        return "character", (
            f"the median line has {length:g} characters (below {most}), the median number of words "
            f"is {count:g} (below {many})"
        )
    return "subword", (
        f"the median line has {length:g} characters, the median number of words is {count:g}, and "
        f"there are {len(uses):,} different words"
    )
