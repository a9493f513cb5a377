"""SentencePiece's unigram model, which knows every character of the text it is learned from."""

import io
import re
import warnings
from collections.abc import Collection, Iterable

import sentencepiece

from attn_jax.config import Data
from attn_jax.errors import InputError
from attn_jax.tokens import BOS, EOS, PAD, SPECIALS, UNK

SPACE = "▁"  # in place of a space
RESERVED = "▅"  # inside SentencePiece, an unknown character; it leaves out lines that have one
LONGEST = 2**30  # the longest line in bytes that it can be told not to leave out

_normalizer = sentencepiece.SentencePieceNormalizer(rule_name="nmt_nfkc")


def learn(words: Collection[str], sentences: Iterable[list[str]], config: Data) -> bytes:
    """Learns a model from training text; warns of characters that its options leave unknown.

    SentencePiece keeps all of the text in memory while it learns.

    Args:
      words: the different words of the text.
      sentences: its words, which are gone through once.
      config: the options of the data.

    Raises:
      InputError: the text has no character, or more than the vocabulary can hold.
    """
    characters, spaced, spelt = set(), False, {}
    for word in words:
        text = without_null(word)
        normalized = _normalizer.normalize(text)
        characters.update(normalized)
        spaced = spaced or SPACE in text
        if (learnable := _learnable(text, normalized)) != word:
            spelt[word] = learnable
    if spelt:
        sentences = ([spelt.get(word, word) for word in sentence] for sentence in sentences)
    if spaced:
        warnings.warn(
            f"{SPACE} in the training text is read as a space, which it stands for in subwords",
            stacklevel=2,
        )
    characters -= {SPACE}
    reserved = characters & {RESERVED}
    if characters == reserved:
        raise InputError("the vocabulary is empty: the training text has no character to learn")
    # SentencePiece adds up the coverage in single precision: without this, a large text would seem
    # to be covered before its rarest characters are.
    required = characters - reserved if config.character_coverage == 1 else set()
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=map(" ".join, sentences),
            model_writer=model,
            vocab_size=config.subwords,
            hard_vocab_limit=False,  # a small text may not fill the vocabulary
            character_coverage=config.character_coverage,
            required_chars="".join(sorted(required)),
            user_defined_symbols=list(reserved),
            max_sentence_length=LONGEST,
            pad_id=PAD,
            unk_id=UNK,
            bos_id=BOS,
            eos_id=EOS,
            unk_surface=SPECIALS[UNK],
            minloglevel=2,
        )
    except (RuntimeError, OSError) as error:
        raise InputError(_refusal(str(error), config)) from error
    _warn_of_unknown(model.getvalue(), characters, config)
    return model.getvalue()


def without_null(text: str) -> str:
    """A text without the only control character that SentencePiece does not remove by itself."""
    return text.replace("\0", "")


def _learnable(text: str, normalized: str) -> str:
    """A word, or if signs of SentencePiece's own are in it, one from which it learns the same.

    It would leave out lines with `RESERVED`, which is given to it as a symbol instead, and would
    not count the characters of what looks like a special token, such as `</s>`.
    """
    if not any(sign in normalized for sign in (RESERVED, *SPECIALS)):
        return text
    for special in SPECIALS:
        normalized = normalized.replace(special, f"{special[:-1]} {special[-1]}")
    return normalized.replace(SPACE, " ").replace(RESERVED, " ")


def _refusal(message: str, config: Data) -> str:
    """Why SentencePiece does not learn, from its error, with the options that help."""
    needed = re.search(r"smaller than required_chars\. \d+ vs (\d+)", message)
    if needed:
        coverage, all_known = config.character_coverage, config.character_coverage == 1
        covered = "" if all_known else f" that data.character_coverage={coverage} asks for"
        more = "rare characters" if all_known else "more characters"
        such = ", such as 0.9995" if all_known else " (at least 0.98)"
        return (
            f"data.subwords={config.subwords} is less than the {needed[1]} characters of the "
            f"training text and special tokens{covered}: give at least that many, or leave "
            f"{more} unknown with a smaller data.character_coverage{such}"
        )
    reason = message.rpartition("] ")[2]  # without the line of C++ and its condition
    return f"SentencePiece cannot learn data.subwords={config.subwords}: {reason}"


def _warn_of_unknown(model: bytes, characters: set[str], config: Data) -> None:
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    known = set(map(processor.id_to_piece, range(processor.get_piece_size())))
    unknown = sorted(characters - known)
    if unknown:
        some = f"{' '.join(unknown[:5])}{' …' * (len(unknown) > 5)}"
        warnings.warn(
            f"{len(unknown)} of {len(characters)} characters of the training text are unknown "
            f"({some}), by data.character_coverage={config.character_coverage}",
            stacklevel=2,
        )
