"""The vocabularies of a run: built from its training text, and kept in its folder."""

import contextlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from pathlib import Path

from attn_jax.config import Data
from attn_jax.data.cuts import CutText
from attn_jax.data.pairs import Example
from attn_jax.data.vocabulary import LEVELS, PRETOKENIZERS, Vocabulary
from attn_jax.errors import InputError, choose
from attn_jax.files import reading, write_whole
from attn_jax.tokens import SPECIALS

SIDES = "source", "target"


def build_vocabulary(level: str, texts: Sequence[str], config: Data) -> Vocabulary:
    """Builds the vocabulary of a training text at a level.

    Raises:
      InputError: there is no such level, the vocabulary would be empty, or SentencePiece cannot
        learn it.
    """
    kind = choose(LEVELS, level, "level of tokens")
    cut = PRETOKENIZERS[kind.pretokens]
    return _built(kind, Counter(chain.from_iterable(map(cut, texts))), texts, config)


def _built(
    kind: type[Vocabulary], counts: Mapping[str, int], texts: Iterable[str], config: Data
) -> Vocabulary:
    vocabulary = kind.build(counts, texts, config)
    if len(vocabulary) == len(SPECIALS):
        raise InputError("the vocabulary is empty: the training text has no token")
    return vocabulary


class Texts(Iterable[str]):
    """Sides of examples as texts, which can be gone through several times.

    Args:
      examples: the examples.
      sides: `source`, `target` or both, one after the other.
    """

    def __init__(self, examples: Iterable[Example[str]], sides: Sequence[str]):
        self._examples, self._sides = examples, sides

    def __iter__(self) -> Iterator[str]:
        for side in self._sides:
            yield from map(attrgetter(side), self._examples)


def kinds(config: Data) -> list[type[Vocabulary]]:
    """The kinds of the source and the target vocabulary.

    Raises:
      InputError: there is no such level; the message names the side.
    """
    found = []
    for side in SIDES:
        with _naming(side):
            found.append(choose(LEVELS, getattr(config, f"{side}_level"), "level of tokens"))
    return found


@contextlib.contextmanager
def _naming(side: str) -> Iterator[None]:
    try:
        yield
    except InputError as error:
        raise InputError(f"the {side} side: {error}") from error


def separate(
    text: CutText, examples: Iterable[Example[str]], config: Data
) -> tuple[Vocabulary, Vocabulary]:
    """A vocabulary for each side.

    Args:
      text: the training text, cut.
      examples: the training text.
      config: the options of the data.

    Raises:
      InputError: as for `build_vocabulary`; the message names the side.
    """
    built = []
    for side, kind in zip(SIDES, kinds(config), strict=True):
        with _naming(side):
            counts = getattr(text, side).counts()
            built.append(_built(kind, counts, Texts(examples, [side]), config))
    source, target = built
    return source, target


def joint(
    text: CutText, examples: Iterable[Example[str]], config: Data
) -> tuple[Vocabulary, Vocabulary]:
    """One vocabulary for both sides, returned twice; arguments are those of `separate`.

    Raises:
      InputError: the sides have different levels, or as for `build_vocabulary`.
    """
    if config.source_level != config.target_level:
        raise InputError(
            "data.vocabulary=joint needs both sides at one level, got "
            f"data.source_level={config.source_level} and "
            f"data.target_level={config.target_level}"
        )
    kind = choose(LEVELS, config.source_level, "level of tokens")
    counts = text.source.counts() + text.target.counts()
    both = _built(kind, counts, Texts(examples, SIDES), config)
    return both, both


VOCABULARIES: dict[str, Callable] = {"separate": separate, "joint": joint}


def save_vocabulary(vocabulary: Vocabulary, path: Path) -> None:
    """Writes a vocabulary as JSON."""
    write_whole(path, as_json(vocabulary))


def load_vocabulary(path: Path) -> Vocabulary:
    """Reads what `save_vocabulary` wrote.

    Raises:
      InputError: the file is missing or damaged.
    """
    with reading(path):
        return from_json(path.read_text("utf-8"), path)


def as_json(vocabulary: Vocabulary) -> str:
    """A vocabulary as JSON: its level, and its tokens or the SentencePiece model in base64."""
    level = next(name for name, cls in LEVELS.items() if type(vocabulary) is cls)
    content = {"level": level, **vocabulary.content()}
    return json.dumps(content, ensure_ascii=False)


def from_json(text: str, path: Path) -> Vocabulary:
    """The vocabulary that `as_json` wrote; `path` names the file in messages.

    Raises:
      InputError: it is damaged.
    """
    content = json.loads(text)
    vocabulary = LEVELS[content["level"]].from_content(content)
    # One token too few or too many would give all that follow other ids.
    if vocabulary.content() | {"level": content["level"]} != content:
        raise InputError(f"{path} is damaged: its content is not that of a vocabulary")
    counts = Counter(vocabulary.tokens[len(SPECIALS) :])
    for token, count in counts.items():
        if count > 1:
            raise InputError(f"{path} is damaged: the token {token!r} is there twice")
    return vocabulary
