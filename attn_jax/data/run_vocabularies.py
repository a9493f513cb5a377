"""The vocabularies of a run: built from its training text, and kept in its folder."""

import contextlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from attn_jax.config import Data
from attn_jax.data.pretokens import Cut, CutText, pretokenizer
from attn_jax.data.two_sources import TwoSources
from attn_jax.data.vocabulary import LEVELS, Vocabulary
from attn_jax.errors import InputError, choose
from attn_jax.files import reading
from attn_jax.tokens import BETWEEN, SPECIALS

SIDES = "source", "target"


def build_vocabulary(level: str, texts: Sequence[str], config: Data) -> Vocabulary:
    """Builds the vocabulary of a training text at a level.

    Raises:
      InputError: there is no such level, the vocabulary would be empty, or SentencePiece cannot
        learn it.
    """
    kind = choose(LEVELS, level, "level of tokens")
    sentences = list(map(pretokenizer(kind.pretokens), texts))
    return _built(kind, Counter(chain.from_iterable(sentences)), sentences, config)


def _built(
    kind: type[Vocabulary],
    counts: Mapping[str, int],
    sentences: Iterable[list[str]],
    config: Data,
) -> Vocabulary:
    vocabulary = kind.build(counts, sentences, config)
    if len(vocabulary) == len(SPECIALS):
        raise InputError("the vocabulary is empty: the training text has no token")
    return vocabulary


def kinds(config: Data) -> dict[str, type[Vocabulary]]:
    """The kinds of the vocabularies of `source`, `target` and, if there is one, `second`.

    Raises:
      InputError: there is no such level; the message names the side.
    """
    found = {}
    for side in (*SIDES, "second")[: 1 + config.sources]:
        with _naming(side):
            found[side] = choose(LEVELS, getattr(config, f"{side}_level"), "level of tokens")
    return found


def cutting(config: Data) -> tuple[str, str]:
    """How source and target are cut, as `pretokenizer` takes it.

    Raises:
      InputError: as for `kinds`.
    """
    source, target, *second = (kind.pretokens for kind in kinds(config).values())
    return BETWEEN.join([source, *second]), target


@contextlib.contextmanager
def _naming(side: str) -> Iterator[None]:
    try:
        yield
    except InputError as error:
        raise InputError(f"the {side} side: {error}") from error


def _of_sides(text: CutText, config: Data, kind: type[Vocabulary], *sides: str) -> Vocabulary:
    """The vocabulary of one side of a training text, or of several together."""

    def cut(side: str) -> Cut:
        if side == "target":
            return text.target
        return text.source if config.sources == 1 else text.source.of_source(side == "second")

    cuts = list(map(cut, sides))
    counts: Counter[str] = sum((one.counts() for one in cuts), Counter())
    return _built(kind, counts, chain.from_iterable(one.sentences() for one in cuts), config)


def separate(text: CutText, config: Data) -> tuple[Vocabulary, Vocabulary]:
    """A vocabulary for each side, and for a second source.

    Args:
      text: the training text, cut.
      config: the options of the data.

    Raises:
      InputError: as for `build_vocabulary`; the message names the side.
    """
    built = []
    for side, kind in kinds(config).items():
        with _naming(side):
            built.append(_of_sides(text, config, kind, side))
    source, target, *second = built
    return _with_second(source, second), target


def joint(text: CutText, config: Data) -> tuple[Vocabulary, Vocabulary]:
    """One vocabulary for both sides, returned twice; arguments are those of `separate`.

    A second source has its own.

    Raises:
      InputError: the sides have different levels, or as for `build_vocabulary`.
    """
    if config.source_level != config.target_level:
        raise InputError(
            "data.vocabulary=joint needs both sides at one level, got "
            f"data.source_level={config.source_level} and "
            f"data.target_level={config.target_level}"
        )
    of_both, _, *kind_of_second = kinds(config).values()
    both = _of_sides(text, config, of_both, *SIDES)
    second = [_of_sides(text, config, kind, "second") for kind in kind_of_second]
    return _with_second(both, second), both


def _with_second(source: Vocabulary, second: Sequence[Vocabulary]) -> Vocabulary:
    return TwoSources(source, *second) if second else source


VOCABULARIES: dict[str, Callable] = {"separate": separate, "joint": joint}


def load_vocabulary(path: Path) -> Vocabulary:
    """Reads a file that holds what `as_json` wrote.

    Raises:
      InputError: the file is missing or damaged.
    """
    with reading(path):
        return from_json(path.read_text("utf-8"), path)


def as_json(vocabulary: Vocabulary) -> str:
    """A vocabulary as JSON: its level, and its tokens or the SentencePiece model in base64.

    That of two sources has those of both.
    """
    return json.dumps(_described(vocabulary), ensure_ascii=False)


def _described(vocabulary: Vocabulary) -> dict:
    if isinstance(vocabulary, TwoSources):
        return {"first": _described(vocabulary.first), "second": _described(vocabulary.second)}
    level = next(name for name, cls in LEVELS.items() if type(vocabulary) is cls)
    return {"level": level, **vocabulary.content()}


def from_json(text: str, path: Path) -> Vocabulary:
    """The vocabulary that `as_json` wrote; `path` names the file in messages.

    Raises:
      InputError: it is damaged.
    """
    return _from_described(json.loads(text), path)


def _from_described(content: dict, path: Path) -> Vocabulary:
    if "second" in content:
        sources = (_from_described(content[name], path) for name in ("first", "second"))
        return TwoSources(*sources)
    vocabulary = LEVELS[content["level"]].from_content(content)
    # One token too few or too many would give all that follow other ids.
    if vocabulary.content() | {"level": content["level"]} != content:
        raise InputError(f"{path} is damaged: its content is not that of a vocabulary")
    counts = Counter(vocabulary.tokens[len(SPECIALS) :])
    for token, count in counts.items():
        if count > 1:
            raise InputError(f"{path} is damaged: the token {token!r} is there twice")
    return vocabulary
