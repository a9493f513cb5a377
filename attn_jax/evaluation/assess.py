"""All measurements of a model on a set of examples."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from attn_jax.alignment.accuracy import by_head, counted
from attn_jax.evaluation import metrics

AT_ONCE = 2048  # examples whose attention weights are held in memory


class Assessment(NamedTuple):
    """The metrics of a model, and the sentences on which they were measured."""

    metrics: dict[str, float]
    signatures: dict[str, str]
    heads: list[dict[str, float | int]]  # as `by_head` returns them
    sentences: list[dict[str, Any]]
    hypotheses: list[Any]  # the first ones, with their weights
    references: list[np.ndarray]  # the weights [L, N, T, S] of the references of the same sentences

    @property
    def weights(self) -> list[np.ndarray]:
        """Those of the first hypotheses, [L, N, T, S]."""
        return [hypothesis.weights for hypothesis in self.hypotheses]


def assess(
    translator: Any,
    examples: Sequence[Any],
    bleu_tokenizer: str,
    search: Mapping[str, Any],
    pictured: int = 0,
) -> Assessment:
    """Translates and scores the examples.

    Words are separated by ASCII spaces or tabs, or by the tokenisation of BLEU where there are
    none; a sequence of symbols is a single word, as when phones spell one. If the examples have
    gold alignments, the model's alignments of the references are compared with them.

    Args:
      translator: has `translate`, `force`, and vocabularies `source` and `target`.
      examples: have `source` and `target`, as text or cut into tokens, and `alignment`.
      bleu_tokenizer: sacrebleu's name of a tokenisation.
      search: options of `translate`.
      pictured: the number of hypotheses whose weights are kept.
    """
    aligned = all(example.alignment is not None for example in examples)
    sentences, log_probabilities, correct, of_heads, of_means = [], [], [], [], []
    first_hypotheses: list[Any] = []
    references: list[np.ndarray] = []
    for first in range(0, len(examples), AT_ONCE):
        part = examples[first : first + AT_ONCE]
        sources = [translator.source.cut(example.source) for example in part]
        targets = [translator.target.cut(example.target) for example in part]
        hypotheses = translator.translate(sources, first=first, **search)
        few = slice(max(0, pictured - first))
        first_hypotheses += hypotheses[few]
        predictions = translator.force(sources, targets)
        references += [np.asarray(forced.weights) for forced in predictions[few]]
        gold = [example.alignment for example in part]
        of_part = sources, targets, gold, hypotheses, predictions
        described = map(partial(_described, translator), *of_part)
        sentences += described
        for example, forced in zip(part, predictions, strict=True):
            log_probabilities.append(forced.log_probabilities)
            correct.append(forced.correct)
            gold = example.alignment if aligned else None
            of_heads.append(counted(forced.weights, gold))
            if aligned:
                of_means.append(counted(forced.alignment[None, None], gold))

    with np.errstate(over="ignore"):  # by a model that has diverged
        perplexity = float(np.exp(-np.concatenate(log_probabilities).mean()))
    measured = {
        "perplexity": perplexity,
        "token_accuracy": 100 * float(np.concatenate(correct).mean()),
    }
    of_texts, signatures = _of_texts(translator, sentences, bleu_tokenizer)
    if aligned:
        (mean,) = by_head(of_means)
        of_texts |= {name: mean[name] for name in ("alignment_accuracy", "alignment_shift")}
    kept = sentences, first_hypotheses, references
    return Assessment(measured | of_texts, signatures, by_head(of_heads), *kept)


def _described(
    translator: Any,
    source: Any,
    target: Any,
    gold: Sequence[int] | None,
    hypothesis: Any,
    forced: Any,
) -> dict[str, Any]:
    """A sentence, as it is stored."""
    return {
        "source_text": source.text,
        "source": source.tokens,
        "target": target.tokens,
        "hypothesis": hypothesis.tokens,
        "reference": target.text,
        "text": hypothesis.text,
        # Those of the hypothesis may be others for the same text, or, with unknown=copy, for
        # another text.
        "text_tokens": translator.target.cut(hypothesis.text).tokens,
        "log_probability": hypothesis.log_probability,
        # Of the reference, with the end of the sentence: what perplexity and accuracy count.
        "reference_log_probability": float(np.sum(forced.log_probabilities)),
        "reference_correct": int(np.sum(forced.correct)),
        "gold": None if gold is None else list(map(int, gold)),
    }


def _of_texts(
    translator: Any, sentences: Sequence[dict[str, Any]], bleu_tokenizer: str
) -> tuple[dict[str, float], dict[str, str]]:
    """The metrics of hypotheses against references, and sacrebleu's signatures."""
    texts, targets, tokens, references = (
        [sentence[name] for sentence in sentences]
        for name in ("text", "reference", "text_tokens", "target")
    )

    def words(texts: list[str]) -> list[list[str]]:
        return list(map(translator.target.words, metrics.spaced(texts, bleu_tokenizer)))

    bleu, bleu_signature = metrics.bleu(texts, targets, bleu_tokenizer)
    chrf, chrf_signature = metrics.chrf(texts, targets)
    measured = {
        "exact_match": metrics.exact_match(tokens, references),
        "bleu": bleu,
        "chrf": chrf,
        "word_error_rate": metrics.error_rate(words(texts), words(targets)),
        "symbol_error_rate": metrics.error_rate(tokens, references),
    }
    return measured, {"bleu": bleu_signature, "chrf": chrf_signature}
