"""All measurements of a model on a set of examples."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from attn_jax.alignment.accuracy import by_head, counted
from attn_jax.evaluation import metrics

AT_ONCE = 2048  # examples whose attention weights are held in memory


class Pictured(NamedTuple):
    """A sentence whose weights are kept."""

    hypothesis: Any  # with its weights
    reference: np.ndarray  # the weights [L, N, T, S] of its reference


class Assessment(NamedTuple):
    """The metrics of a model, and the sentences on which they were measured."""

    metrics: dict[str, float]
    signatures: dict[str, str]
    heads: list[dict[str, float | int]]  # as `by_head` returns them
    sentences: list[dict[str, Any]]
    pictured: dict[int, Pictured]  # by the places of their sentences, in order


class Measured(NamedTuple):
    """What is known of each of some examples, in their order."""

    sentences: list[dict[str, Any]]
    pictured: list[tuple[int, Pictured]]  # the first ones, and the first that are wrong
    log_probabilities: list[np.ndarray]  # of the tokens of each reference
    correct: list[np.ndarray]  # which of these tokens are the most probable ones
    of_heads: list[Any]  # as `counted` returns them
    of_means: list[Any]  # the same, of the mean of all heads


def assess(
    translator: Any,
    examples: Sequence[Any],
    bleu_tokenizer: str,
    search: Mapping[str, Any],
    pictured: int = 0,
    wrong: int = 0,
    share: Callable[[int], slice] = slice,
    gathered: Callable[[Measured], Sequence[Measured]] = lambda own: [own],
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
      pictured: the number of sentences, the first ones, whose weights are kept.
      wrong: the number of later ones whose weights are kept too, the first that are wrong.
      share: which of the examples, of so many, this process translates; all if it is left out.
      gathered: maps the measurements of this process to those of all, in their order.
    """
    aligned = all(example.alignment is not None for example in examples)
    numbers = range(len(examples))[share(len(examples))]
    own = _measured(translator, examples, numbers, search, (pictured, wrong), aligned)
    parts = zip(*gathered(own), strict=True)
    found = Measured(*(list(itertools.chain(*part)) for part in parts))

    with np.errstate(over="ignore"):  # by a model that has diverged
        perplexity = float(np.exp(-np.concatenate(found.log_probabilities).mean()))
    measured = {
        "perplexity": perplexity,
        "token_accuracy": 100 * float(np.concatenate(found.correct).mean()),
    }
    written, signatures = of_texts(translator.target, found.sentences, bleu_tokenizer)
    if aligned:
        (mean,) = by_head(found.of_means)
        written |= {name: mean[name] for name in ("alignment_accuracy", "alignment_shift")}
    kept = dict(found.pictured)
    for number in [number for number in kept if number >= pictured][wrong:]:
        del kept[number]  # as many as all may keep are kept by each process
    heads = by_head(found.of_heads)
    return Assessment(measured | written, signatures, heads, found.sentences, kept)


def _measured(
    translator: Any,
    examples: Sequence[Any],
    numbers: range,
    search: Mapping[str, Any],
    kept: tuple[int, int],
    aligned: bool,
) -> Measured:
    """Measures the examples of some consecutive numbers."""
    pictured, wrong = kept
    found = Measured([], [], [], [], [], [])
    for first in numbers[::AT_ONCE]:
        part = examples[first : min(first + AT_ONCE, numbers.stop)]
        sources = [translator.source.cut(example.source) for example in part]
        targets = [translator.target.cut(example.target) for example in part]
        hypotheses = translator.translate(sources, first=first, **search)
        predictions = translator.force(sources, targets)
        gold = [example.alignment for example in part]
        of_part = sources, targets, gold, hypotheses, predictions
        found.sentences.extend(map(partial(_described, translator), *of_part))
        of_part = part, hypotheses, predictions
        for number, (example, hypothesis, forced) in enumerate(zip(*of_part, strict=True), first):
            sentence = found.sentences[number - numbers.start]
            is_wrong = sentence["text_tokens"] != sentence["target"]
            if number < pictured or (is_wrong and wrong):
                wrong -= number >= pictured
                found.pictured.append((number, Pictured(hypothesis, np.asarray(forced.weights))))
            found.log_probabilities.append(forced.log_probabilities)
            found.correct.append(forced.correct)
            gold = example.alignment if aligned else None
            found.of_heads.append(counted(forced.weights, gold))
            if aligned:
                found.of_means.append(counted(forced.alignment[None, None], gold))
    return found


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


def of_texts(
    vocabulary: Any, sentences: Sequence[dict[str, Any]], bleu_tokenizer: str
) -> tuple[dict[str, float], dict[str, str]]:
    """The metrics of hypotheses against references, and sacrebleu's signatures.

    Args:
      vocabulary: of the targets.
      sentences: as `Assessment` has them.
      bleu_tokenizer: sacrebleu's name of a tokenisation.
    """
    texts, targets, tokens, references = (
        [sentence[name] for sentence in sentences]
        for name in ("text", "reference", "text_tokens", "target")
    )

    def words(texts: list[str]) -> list[list[str]]:
        return list(map(vocabulary.words, metrics.spaced(texts, bleu_tokenizer)))

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
