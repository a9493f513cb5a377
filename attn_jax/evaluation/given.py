"""What another toolkit has written, with its weights, measured as runs are."""

from collections.abc import Sequence
from typing import Any

from attn_jax.alignment.accuracy import by_head, counted
from attn_jax.evaluation.assess import Assessment, of_texts
from attn_jax.evaluation.metrics import in_words, ter
from attn_jax.pairs import Weighed, text_of, word_indices


def assess_given(
    pairs: Sequence[Weighed],
    sources: Sequence[str],
    references: Sequence[str],
    vocabulary: Any,
    bleu_tokenizer: str,
    level: str,
) -> Assessment:
    """Scores the targets of pairs, which a toolkit has written.

    Args:
      pairs: at least one.
      sources: their source texts.
      references: what was wanted.
      vocabulary: cuts texts into the symbols of which errors are counted.
      bleu_tokenizer: sacrebleu's name of a tokenisation.
      level: of the symbols, as `in_words` takes it.

    Returns:
      The assessment, whose weights are those of the pairs.
    """
    texts, sentences = [], []
    for pair, source, reference in zip(pairs, sources, references, strict=True):
        target, words = list(pair.target), word_indices(pair.target, pair.target_words)
        text = text_of(target, words)
        texts.append(text)
        sentences.append(
            {
                "source_text": source,
                "source": list(pair.source),
                "target": vocabulary.cut(reference).tokens,
                "hypothesis": target[:-1] if words[-1] < 0 else target,  # without its end
                "reference": reference,
                "text": text,
                "text_tokens": vocabulary.cut(text).tokens,
                "gold": None,
            }
        )
    metrics, signatures = of_texts(vocabulary, sentences, bleu_tokenizer)
    if in_words(level, references, bleu_tokenizer):
        metrics["ter"], signatures["ter"] = ter(texts, references)
    heads = by_head(counted(pair.weights, None) for pair in pairs)
    return Assessment(metrics, signatures, heads, sentences, {})
