"""The vocabularies of a run: built from its training text, and kept in its folder."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from attn_jax.config import Data
from attn_jax.data.vocabulary import LEVELS, Vocabulary
from attn_jax.errors import InputError, choose
from attn_jax.files import reading, write_whole
from attn_jax.tokens import SPECIALS


def build_vocabulary(level: str, texts: Sequence[str], config: Data) -> Vocabulary:
    """Builds the vocabulary of a training text at a level.

    Raises:
      InputError: there is no such level, the vocabulary would be empty, or SentencePiece cannot
        learn it.
    """
    vocabulary = choose(LEVELS, level, "level of tokens").build(texts, config)
    if len(vocabulary) == len(SPECIALS):
        raise InputError("the vocabulary is empty: the training text has no token")
    return vocabulary


def separate(
    sources: Sequence[str], targets: Sequence[str], config: Data
) -> tuple[Vocabulary, Vocabulary]:
    """A vocabulary for each side.

    Raises:
      InputError: as for `build_vocabulary`; the message names the side.
    """
    built = []
    levels = config.source_level, config.target_level
    for side, level, texts in zip(("source", "target"), levels, (sources, targets), strict=True):
        try:
            built.append(build_vocabulary(level, texts, config))
        except InputError as error:
            raise InputError(f"the {side} side: {error}") from error
    return tuple(built)


def joint(
    sources: Sequence[str], targets: Sequence[str], config: Data
) -> tuple[Vocabulary, Vocabulary]:
    """One vocabulary for both sides, returned twice.

    Raises:
      InputError: the sides have different levels, or as for `build_vocabulary`.
    """
    if config.source_level != config.target_level:
        raise InputError(
            "--data.vocabulary=joint needs both sides at one level, got "
            f"--data.source_level={config.source_level} and "
            f"--data.target_level={config.target_level}"
        )
    both = build_vocabulary(config.source_level, [*sources, *targets], config)
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
