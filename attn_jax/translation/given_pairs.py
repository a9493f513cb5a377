"""What a trained model says of sentence pairs: it forces, aligns, explains and scores."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, overload

import jax
import numpy as np

from attn_jax.data.copying import copyable
from attn_jax.data.sentences import Sentence, pad
from attn_jax.data.vocabulary import Vocabulary
from attn_jax.decoding.batches import in_order
from attn_jax.decoding.ensemble import COMBINATIONS
from attn_jax.decoding.explanations import Explained, explain
from attn_jax.decoding.forced import (
    Forced,
    force,
    posterior,
    self_attention,
    value_sizes,
    viterbi,
)
from attn_jax.errors import InputError, choose
from attn_jax.kernels.factors import BFLOAT16
from attn_jax.models.seq2seq import SelfWeights, Seq2Seq
from attn_jax.tokens import EOS
from attn_jax.translation.hypothesis import Hypothesis

Text = str | Sentence  # a sentence is not cut into tokens again

# A posterior is refused if a position with more than this probability has less than this weight
# when there is no other.
PROBABLE, WHOLE = 1e-3, 0.99


def _without_padding(results: Any, row: int, real: tuple[int, int]) -> Any:
    """A row of a batch of results, [T] or [..., T, S], for so many target and source tokens."""
    steps, width = real

    def of_row(leaf: np.ndarray) -> np.ndarray:
        values = leaf[row]
        # A copy, since a view would keep the whole batch in memory.
        return (values[:steps] if values.ndim == 1 else values[..., :steps, :width]).copy()

    return jax.tree.map(of_row, results)


def _squares(results: SelfWeights, row: int, real: tuple[int, int]) -> SelfWeights:
    """A row of the weights of self-attention, [L, N, S, S] and [L, N, T, T]."""
    steps, width = real
    each = zip(results, (width, steps), strict=True)
    return SelfWeights(
        *(None if leaf is None else leaf[row, ..., :size, :size].copy() for leaf, size in each)
    )


class GivenPairs:
    """A model, or an ensemble of models, and what it says of given sentence pairs.

    The arguments, and what is refused, are as of `Translator`.
    """

    def __init__(
        self,
        models: Sequence[Seq2Seq],
        source: Vocabulary,
        target: Vocabulary,
        max_length: int = 512,
        combination: str = "log_probabilities",
    ):
        choose(COMBINATIONS, combination, "combination of models")
        if not models:
            raise InputError("no model was given to translate with")
        types = {str(leaf.dtype) for leaf in jax.tree.leaves(tuple(models))}
        if types - {"float32"}:
            raise InputError(
                f"models have parameters of float32, not {' and '.join(sorted(types))}; for "
                f'products of bfloat16, jax.config.update("jax_default_matmul_precision", '
                f'"{BFLOAT16}")'
            )
        for model in models:
            sizes = model.source_sizes, model.target_size
            if sizes != (source.sizes, len(target)):
                raise InputError(
                    f"a model of {_plus(sizes[0])} source and {sizes[1]} target tokens "
                    f"does not go with vocabularies of {_plus(source.sizes)} and {len(target)}"
                )
        if len({model.copies for model in models}) > 1:
            raise InputError("a model that copies words and one that does not have other words")
        self.models = tuple(models)
        self.copies = self.models[0].copies
        self._heads = sum(model.heads for model in models)
        self.source = source
        self.target = target
        self.max_length = max_length
        self.combination = combination
        self._expansion = max(1, target.per_word // source.per_word)

    def force(self, sources: Sequence[Text], targets: Sequence[Text | Hypothesis]) -> list[Forced]:
        """The model's predictions for given translations (forced decoding).

        Args:
          sources: the source sentences, as text or cut into tokens.
          targets: their translations, as text, which is cut into tokens, or as sentences or
            hypotheses, whose tokens are used.

        Raises:
          InputError: the numbers of sources and targets differ, a text is empty, or a sentence has
            more than `max_length` tokens.
        """
        return self._over_pairs(force, sources, targets)

    def align(
        self, sources: Sequence[Text], targets: Sequence[Text | Hypothesis], of: str = "weights"
    ) -> list[np.ndarray]:
        """Soft alignments [T, S] of given translations, including the end of the sentence.

        Args:
          sources, targets: as in `force`.
          of: `weights`, the mean over layers and heads of what the model attended to when it
            predicted the token; `posterior`, the probability of each source position given the
            target token as well, which costs a decoder step per target token and source position,
            or given the whole target, of a model that sums over alignments; or `viterbi`, 1 on the
            most probable alignment of such a model.

        Raises:
          InputError: as in `force`, there is no such `of`, or the model has no posterior.
        """
        kinds = {"weights": self._weights, "posterior": self._posterior, "viterbi": self._viterbi}
        return choose(kinds, of, "kind")(sources, targets)

    def _weights(self, sources: Sequence, targets: Sequence) -> list[np.ndarray]:
        return [np.asarray(forced.alignment) for forced in self.force(sources, targets)]

    def _check_signs(self, what: str) -> None:
        """Raises InputError if weights may be negative, and so are no shares of anything."""
        if not all(model.weights_are_non_negative for model in self.models):
            raise InputError(
                f"{what} needs weights that are not negative, as those of this model may be"
            )

    def _posterior(self, sources: Sequence, targets: Sequence) -> list[np.ndarray]:
        self._check_signs("a posterior")
        apart = (model for model in self.models if model.attends_apart)
        if not all(model.sums_over_alignments for model in apart):
            raise InputError(
                "this model has no posterior: it attends to each of two sources by itself; take "
                "the weights"
            )
        if len({model.sums_over_alignments for model in self.models}) > 1:
            raise InputError(
                "these models have no common posterior: only some of them sum over alignments, as "
                "those of model.readout=marginal do; take the weights"
            )
        results = self._over_pairs(posterior, sources, targets)
        if any(np.any((alignment > PROBABLE) & (alone < WHOLE)) for alignment, alone in results):
            raise InputError(
                "this model has no posterior: its attention does not put all weight on a position "
                "when there is no other; take the weights"
            )
        return [alignment for alignment, _ in results]

    def _viterbi(self, sources: Sequence, targets: Sequence) -> list[np.ndarray]:
        model, *others = self.models
        if others or not model.sums_over_alignments:
            raise InputError(
                "only one model that sums over alignments, as model.readout=marginal does, has a "
                "most probable one; take the weights or the posterior"
            )
        return self._over_pairs(viterbi, sources, targets)

    def explain(
        self, sources: Sequence[Text], targets: Sequence[Text | Hypothesis]
    ) -> list[Explained]:
        """What the predictions for given translations depend on, which tells if weights matter.

        The log-probabilities of the target tokens if a source position is hidden from attention, or
        if all weights are equal; and |gradient × input| of each source token. It costs some decoder
        steps and a derivative of the whole model for each target token.

        Raises:
          InputError: as in `force`, or `check_explains` does.
        """
        self.check_explains()
        return self._over_pairs(explain, sources, targets)

    def value_sizes(self, sources: Sequence[Text]) -> list[np.ndarray] | None:
        """The length of what each head sums of each source position, [L, N, 1, S].

        Weights times these tell how much each position adds to the context (Kobayashi et al. 2020).

        Returns:
          None if the model sums no values as such: an ensemble, and models that attend to each of
          two sources by itself, of readouts over positions, or of attention of one's own.

        Raises:
          InputError: as in `force`.
        """
        if len(self.models) > 1:
            return None
        cut = self._cut(self.source, sources, "source")
        sizes = self._over_pairs(value_sizes, cut, cut)  # of any targets
        return None if any(of_sentence is None for of_sentence in sizes) else sizes

    def self_attention(
        self, sources: Sequence[Text], targets: Sequence[Text | Hypothesis]
    ) -> list[SelfWeights]:
        """What words attend to in their own sentence, in a Transformer.

        Arguments and errors are those of `force`, with a pass of its own over given translations.

        Returns:
          For each pair `encoder` [L, N, S, S], of source words to each other, and `decoder` [L, N,
          T, T], of the steps of the target, with the end of the sentence, to the words that they
          have read: the start symbol, and the target without its last word. None where the encoder
          or the decoder is no Transformer.
        """
        heads = max(self._heads, sum(model.self_heads for model in self.models))
        return self._over_pairs(self_attention, sources, targets, _squares, heads)

    @property
    def sums_over_alignments(self) -> bool:
        """Whether alignments are latent variables of the models, which have a posterior."""
        return all(model.sums_over_alignments for model in self.models)

    def check_explains(self) -> None:
        """Raises InputError if there is nothing that `explain` could change, or no one way to."""
        model, *others = self.models
        refusals = {
            "there are several models: take one": bool(others),
            "the weights of a control, mean or last, are fixed": model.is_control,
            "this model sums over alignments: take the posterior": model.sums_over_alignments,
            "this model has two sources": len(model.source_sizes) > 1,
            "its decoder attends by none of the package's mechanisms": not model.attentions,
        }
        for why, refused in refusals.items():
            if refused:
                raise InputError(f"cannot tell whether weights matter: {why}")

    def score(self, sources: Sequence[Text], targets: Sequence[Text | Hypothesis]) -> np.ndarray:
        """The log-probability of each given translation, [n], in nats.

        Arguments and errors are those of `force`.
        """

        def log_probabilities(*batch: Any, **how: Any) -> jax.Array:
            return force(*batch, **how).log_probabilities

        by_pair = self._over_pairs(log_probabilities, sources, targets)
        return np.array([of_pair.sum() for of_pair in by_pair])

    def _over_pairs(
        self,
        run: Callable,
        sources: Sequence[Text],
        targets: Sequence[Text | Hypothesis],
        of_pair: Callable = _without_padding,
        heads: int = 0,
    ) -> list[Any]:
        """The results of a compiled pass for each pair, [T] or [..., T, S], without padding.

        Args:
          run: the pass.
          sources, targets: as in `force`.
          of_pair: takes a pair out of the results of a batch.
          heads: of how many the results have weights, if not of those that attend to the source.
        """
        source_cut = self._cut(self.source, sources, "source")
        target_cut = self._cut(self.target, targets, "target")
        source_ids = [self.source.ids(sentence.tokens) for sentence in source_cut]
        target_ids = [[*self.target.ids(sentence.tokens), EOS] for sentence in target_cut]
        if len(source_ids) != len(target_ids):
            raise InputError(f"got {len(source_ids)} sources, but {len(target_ids)} targets")

        def over(indices: np.ndarray, rows: int, length: int) -> Iterator[Any]:
            source = padded_batch([source_ids[i] for i in indices], rows, length)
            target = padded_batch([target_ids[i] for i in indices], rows, length)
            if self.copies:
                texts = [
                    [of_side[i].tokens for i in indices] for of_side in (source_cut, target_cut)
                ]
                source, target = copyable(source, texts[0], self.target, texts[1])
            results = jax.device_get(run(self.models, source, target, combination=self.combination))
            for row, index in enumerate(indices):
                real = len(target_ids[index]), len(source_ids[index])
                yield of_pair(results, row, real)

        lengths = [max(map(len, pair)) for pair in zip(source_ids, target_ids, strict=True)]
        return in_order(lengths, over, heads or self._heads)

    @overload
    def _cut(  # pyright: ignore[reportOverlappingOverload]
        self, vocabulary: Vocabulary, sentences: Sequence[Text], side: str, first: int = 0
    ) -> list[Sentence]: ...

    @overload
    def _cut(
        self,
        vocabulary: Vocabulary,
        sentences: Sequence[Text | Hypothesis],
        side: str,
        first: int = 0,
    ) -> list[Sentence | Hypothesis]: ...

    def _cut(
        self,
        vocabulary: Vocabulary,
        sentences: Sequence[Text | Hypothesis],
        side: str,
        first: int = 0,
    ) -> list[Sentence] | list[Sentence | Hypothesis]:
        refuse_one(sentences, side)
        cut = []
        for number, sentence in enumerate(sentences, start=first + 1):
            is_hypothesis = isinstance(sentence, Hypothesis)
            if not is_hypothesis and not isinstance(sentence, str | Sentence):
                raise InputError(f"{side} sentence {number} is not text: {sentence!r}")
            place = f"{side} sentence {number}"
            found = sentence if is_hypothesis else vocabulary.cut_at(place, sentence)
            # A hypothesis may be empty.
            if not found.tokens and not is_hypothesis:
                raise InputError(f"{place} is empty")
            if len(found.tokens) > self.max_length:
                raise InputError(
                    f"{side} sentence {number} has {len(found.tokens)} tokens, more than the "
                    f"{self.max_length} of data.max_length: {found.text[:40]!r} …"
                )
            cut.append(found)
        return cut


def refuse_one(sentences: Any, side: str) -> None:
    """Raises InputError if there is one sentence where several are expected."""
    if isinstance(sentences, str | Sentence):
        text = sentences if isinstance(sentences, str) else sentences.text
        raise InputError(f"expected a list of {side} sentences, got one: {text[:60]!r}")


def _plus(sizes: tuple[int, ...]) -> str:
    return " + ".join(map(str, sizes))


def padded_batch(sentences: list[list[int]], rows: int, length: int) -> np.ndarray:
    """Padded ids; empty rows fill up a short batch, so that its shape is already compiled."""
    return pad(sentences + [[]] * (rows - len(sentences)), length)
