"""Quality of hypotheses against references. Rates and shares are percentages."""

from collections.abc import Sequence

import numpy as np
import sacrebleu

from attn_jax.errors import InputError, choose

# Whether a larger value is better.
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
    # The tokenisations for text with spaces would part a date at its hyphens.
    counts = word_counts(references, "none" if tokenizer in SPACED else tokenizer)
    return 2 * sum(count > 1 for count in counts) > len(counts)


def ranking_metric(of_words: bool) -> str:
    """The metric by which systems are ranked: BLEU of sentences, else exact match.

    Args:
      of_words: what `in_words` says of the targets.
    """
    return "bleu" if of_words else "exact_match"


def edit_distance(hypothesis: Sequence, reference: Sequence) -> int:
    """Fewest insertions, deletions and substitutions between two sequences. Levenshtein 1966."""
    row = np.arange(len(reference) + 1)
    steps = np.arange(len(reference) + 1)
    codes: dict = {}
    columns = np.array([codes.setdefault(token, len(codes)) for token in reference], int)
    for token in hypothesis:
        substituted = row[:-1] + (columns != codes.get(token, -1))
        row = row + 1
        row[1:] = np.minimum(row[1:], substituted)
        # Insertions run along the row: the best cell to the left, plus the distance from it.
        row = np.minimum.accumulate(row - steps) + steps
    return int(row[-1])


def error_rate(hypotheses: Sequence[Sequence], references: Sequence[Sequence]) -> float:
    """Edit distance in percent of the length of the references, over all sentences."""
    edits = sum(map(edit_distance, hypotheses, references))
    return 100 * edits / sum(map(len, references))


def exact_match(hypotheses: Sequence, references: Sequence) -> float:
    """Percentage of hypotheses that are equal to their references."""
    return 100 * float(np.mean([h == r for h, r in zip(hypotheses, references, strict=True)]))


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


def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> tuple[float, str]:
    """Corpus chrF (0 to 100) and its signature. Popović 2015."""
    return _of_corpus(sacrebleu.CHRF(), hypotheses, references)


def ter(hypotheses: Sequence[str], references: Sequence[str]) -> tuple[float, str]:
    """Translation edit rate (percent) and its signature. Snover et al. 2006."""
    return _of_corpus(sacrebleu.TER(), hypotheses, references)
