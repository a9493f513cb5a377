"""All measurements of a model on a set of examples."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from attn_jax.alignment.accuracy import alignment_accuracy
from attn_jax.evaluation import metrics


class Assessment(NamedTuple):
    """The metrics of a model, and the sentences on which they were measured."""

    metrics: dict[str, float]
    signatures: dict[str, str]
    sentences: list[dict[str, Any]]
    weights: list[np.ndarray]  # of the hypotheses, [L, N, T, S]
    of_references: list[np.ndarray]  # weights for the references


def assess(
    translator: Any, examples: Sequence[Any], bleu_tokenizer: str, search: Mapping[str, Any]
) -> Assessment:
    """Translates and scores the examples.

    Words are separated by spaces; a sequence of symbols is a single word, as when phones spell one.
    If the examples have gold alignments, the model's alignments of the references are compared
    with them.

    Args:
      translator: has `translate`, `force`, and vocabularies `source` and `target`.
      examples: have `source`, `target` and `alignment`.
      bleu_tokenizer: sacrebleu's name of a tokenisation.
      search: options of `translate`.
    """
    sources = [example.source for example in examples]
    targets = [example.target for example in examples]
    hypotheses = translator.translate(sources, **search)
    forced = translator.force(sources, targets)
    texts = [hypothesis.text for hypothesis in hypotheses]
    references = [translator.target.split(target) for target in targets]
    bleu, bleu_signature = metrics.bleu(texts, targets, bleu_tokenizer)
    chrf, chrf_signature = metrics.chrf(texts, targets)
    words, text_tokens = translator.target.words, list(map(translator.target.split, texts))
    log_probabilities = np.concatenate([f.log_probabilities for f in forced])
    with np.errstate(over="ignore"):  # by a model that has diverged
        perplexity = float(np.exp(-log_probabilities.mean()))
    measured = {
        "perplexity": perplexity,
        "token_accuracy": 100 * float(np.concatenate([f.correct for f in forced]).mean()),
        "exact_match": metrics.exact_match(texts, list(map(translator.target.join, references))),
        "bleu": bleu,
        "chrf": chrf,
        "word_error_rate": metrics.error_rate(list(map(words, texts)), list(map(words, targets))),
        "symbol_error_rate": metrics.error_rate(text_tokens, references),
    }
    golds = [example.alignment for example in examples]
    if all(gold is not None for gold in golds):
        accuracy, shift = alignment_accuracy([f.alignment for f in forced], golds)
        measured |= {"alignment_accuracy": accuracy, "alignment_shift": shift}
    sentences = [
        {
            "source_text": example.source,
            "source": translator.source.split(example.source),
            "target": reference,
            "hypothesis": hypothesis.tokens,
            "reference": example.target,
            "text": hypothesis.text,
            "text_tokens": tokens,  # with unknown=copy, not those of the hypothesis
            "log_probability": hypothesis.log_probability,
            "gold": None if example.alignment is None else list(map(int, example.alignment)),
        }
        for example, reference, hypothesis, tokens in zip(
            examples, references, hypotheses, text_tokens, strict=True
        )
    ]
    return Assessment(
        measured,
        {"bleu": bleu_signature, "chrf": chrf_signature},
        sentences,
        [hypothesis.weights for hypothesis in hypotheses],
        [f.weights for f in forced],
    )
