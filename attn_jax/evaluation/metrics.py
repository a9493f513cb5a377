"""Quality of hypotheses against references. Rates and shares are percentages."""

from collections.abc import Sequence

import numpy as np
import sacrebleu

from attn_jax.edits import edit_distance
from attn_jax.errors import InputError, choose

# Whether a larger value is better. Errors in target tokens, whatever these are, make up the symbol
# error rate.
METRICS: dict[str, bool] = {
    "perplexity": False,
    "token_accuracy": True,
    "exact_match": True,
    "bleu": True,
    "chrf": True,
    "word_error_rate": False,
    "symbol_error_rate": False,
}


# Tokenisations of BLEU for languages that write spaces between words.
SPACED = ("13a", "intl", "none")


def in_words(level: str, references: Sequence[str], tokenizer: str) -> bool:
    """Whether targets are sentences, which BLEU measures, rather than symbols or single words.

    Args:
      level: of the target tokens.
      references: the targets: sentences if most have several words.
      tokenizer: the tokenisation of BLEU, which tells words apart where no spaces do.
    """
    if level == "symbol":
        return False
    counts = [len(text.split()) for text in spaced(references, tokenizer)]
    return 2 * sum(count > 1 for count in counts) > len(counts)


def ranking_metric(of_words: bool) -> str:
    """The metric by which systems are ranked: BLEU of sentences, else exact match.

    Args:
      of_words: what `in_words` says of the targets.
    """
    return "bleu" if of_words else "exact_match"


def spaced(texts: Sequence[str], tokenizer: str) -> list[str]:
    """Texts with spaces between words, as they are counted: those of the texts if these have any.

    Args:
      texts: hypotheses or references.
      tokenizer: the tokenisation of BLEU, which tells words apart where no spaces do.
    """
    if tokenizer in SPACED:  # which would also part a date at its hyphens
        return list(texts)
    return list(map(make_bleu(tokenizer).tokenizer, texts))


def error_rate(hypotheses: Sequence[Sequence], references: Sequence[Sequence]) -> float:
    """Edit distance in percent of the length of the references, over all sentences."""
    edits = sum(map(edit_distance, hypotheses, references))
    return 100 * edits / sum(map(len, references))


def matching(hypotheses: Sequence[Sequence], references: Sequence[Sequence]) -> list[bool]:
    """Whether each hypothesis has the same tokens as its reference."""
    return [list(h) == list(r) for h, r in zip(hypotheses, references, strict=True)]


def exact_match(hypotheses: Sequence[Sequence], references: Sequence[Sequence]) -> float:
    """Percentage of hypotheses that have the same tokens as their references."""
    return 100 * float(np.mean(matching(hypotheses, references)))


def make_bleu(tokenizer: str) -> sacrebleu.BLEU:
    """sacrebleu's BLEU with a tokenisation.

    Raises:
      InputError: there is no such tokenisation, or it needs something that is not installed.
    """
    choose(dict.fromkeys(sacrebleu.BLEU.TOKENIZERS), tokenizer, "BLEU tokenisation")
    try:
        return sacrebleu.BLEU(tokenize=tokenizer, force=True)
    except (ImportError, RuntimeError, OSError) as error:
        raise InputError(f"the BLEU tokenisation {tokenizer!r} cannot be used: {error}") from error


def word_counts(texts: Sequence[str], tokenizer: str) -> list[int]:
    """The number of words of each text, as BLEU counts them with a tokenisation."""
    tokenized = make_bleu(tokenizer).tokenizer
    return [len(tokenized(text).split()) for text in texts]


def _of_corpus(
    metric: sacrebleu.BLEU | sacrebleu.CHRF | sacrebleu.TER,
    hypotheses: Sequence[str],
    references: Sequence[str],
) -> tuple[float, str]:
    score = metric.corpus_score(list(hypotheses), [list(references)]).score
    return score, str(metric.get_signature())


def bleu(hypotheses: Sequence[str], references: Sequence[str], tokenizer: str) -> tuple[float, str]:
    """Corpus BLEU (0 to 100) and sacrebleu's signature of it. Papineni et al. 2002; Post 2018."""
    return _of_corpus(make_bleu(tokenizer), hypotheses, references)


def bleu_counts(hypotheses: Sequence[str], references: Sequence[str], tokenizer: str) -> np.ndarray:
    """What BLEU counts in each sentence, to be summed over sentences, [N, 10].

    Of n-grams of 1 to 4 words, how many match and how many there are; and both lengths.
    """
    metric = make_bleu(tokenizer)
    scores = (
        metric.corpus_score([text], [[reference]])
        for text, reference in zip(hypotheses, references, strict=True)
    )
    return np.array([[*s.counts, *s.totals, s.sys_len, s.ref_len] for s in scores])


def bleu_of(counts: np.ndarray) -> np.ndarray:
    """BLEU from sums of `bleu_counts`, [..., 10] to [...], with sacrebleu's exponential smoothing.

    It is what `sacrebleu.BLEU.compute_bleu` says of one sum; a bootstrap needs thousands.
    """
    correct, total = counts[..., :4], counts[..., 4:8]
    said, wanted = counts[..., 8], counts[..., 9]
    # An order of n-grams without a match counts as 1/2 of one, the next such one as 1/4, ….
    matched = np.where(correct == 0, 0.5 ** np.cumsum(correct == 0, axis=-1), correct)
    precision = (matched / np.maximum(total, 1)).prod(axis=-1) ** 0.25
    brevity = np.exp(np.minimum(1 - wanted / np.maximum(said, 1), 0))
    known = (correct > 0).any(axis=-1) & (total > 0).all(axis=-1)
    return np.where(known, 100 * brevity * precision, 0)


def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> tuple[float, str]:
    """Corpus chrF (0 to 100) and its signature. Popović 2015."""
    return _of_corpus(sacrebleu.CHRF(), hypotheses, references)


def ter(hypotheses: Sequence[str], references: Sequence[str]) -> tuple[float, str]:
    """Translation edit rate (percent) and its signature. Snover et al. 2006."""
    return _of_corpus(sacrebleu.TER(), hypotheses, references)
