"""The interface to a trained model: translate, align and score."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, overload

import jax
import numpy as np

from attn_jax.data.pipeline import pad
from attn_jax.data.vocabulary import Vocabulary, copies
from attn_jax.decoding import compiled
from attn_jax.decoding.batches import in_order
from attn_jax.decoding.ensemble import COMBINATIONS
from attn_jax.decoding.options import Search, search_of
from attn_jax.decoding.search import Found
from attn_jax.decoding.unknown import replaced
from attn_jax.errors import InputError, choose
from attn_jax.models.seq2seq import Seq2Seq
from attn_jax.tokens import EOS, PAD


@dataclasses.dataclass(frozen=True, eq=False)
class Hypothesis:
    """A translation, and what the model looked at when it wrote each token."""

    text: str
    tokens: list[str]  # as the model wrote them, though the text may have copies for `<unk>`
    log_probability: float  # of the tokens and the end of the sentence, in nats
    score: float  # what a search ranks hypotheses of one sentence by
    # [L, N, T, S], of each layer and head; the last row ends the sentence.
    weights: np.ndarray = dataclasses.field(repr=False)

    @property
    def alignment(self) -> np.ndarray:
        """The mean [T, S] over layers and heads."""
        return self.weights.mean(axis=(0, 1))


class Forced(NamedTuple):
    """What a model makes of a target that is given to it."""

    log_probabilities: np.ndarray  # [T], of each token, end of sentence included, in nats
    correct: np.ndarray  # [T], whether the model ranked the token first
    weights: np.ndarray  # [L, N, T, S], of each layer and head

    @property
    def alignment(self) -> np.ndarray:
        """The mean [T, S] over layers and heads."""
        return self.weights.mean(axis=(0, 1))


class Translator:
    """One model, or several that write together, with their vocabularies.

    Batches are done in threads, so that JAX's settings hold by `jax.config.update` and not by
    contexts such as `with jax.debug_nans(True)`, which are of the caller's thread alone.

    Args:
      models: one or more, all of these vocabularies; their parameters are float32.
      source: vocabulary of the source.
      target: vocabulary of the target.
      max_length: most tokens of a sentence.
      combination: how several models write together: by the mean of their `log_probabilities` or
        of their `probabilities`.

    Raises:
      InputError: there is no model or no such combination, parameters are not float32, or the
        vocabularies are of other sizes than a model.
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
                'products of bfloat16, jax.config.update("jax_default_matmul_precision", '
                '"BF16_BF16_F32")'
            )
        for words in (model.words for model in models):
            if (words.source_size, words.target_size) != (len(source), len(target)):
                raise InputError(
                    f"a model of {words.source_size} source and {words.target_size} target tokens "
                    f"does not go with vocabularies of {len(source)} and {len(target)}"
                )
        self.models = tuple(models)
        self.source = source
        self.target = target
        self.max_length = max_length
        self.combination = combination

    @overload
    def translate(self, sentences: Sequence[str], **options) -> list[Hypothesis]: ...

    @overload
    def translate(
        self, sentences: Sequence[str], *, n_best: int, **options
    ) -> list[list[Hypothesis]]: ...

    def translate(self, sentences, *, n_best=None, **options):
        """A translation of each sentence; with `n_best`, a list of so many of each, best first.

        Args:
          sentences: to be translated.
          n_best: hypotheses of each sentence; fewer where the beam has not found as many.
          **options: of `attn_jax.decoding.options.Search`, such as `beam_size=5`,
            `length_penalty="average"`, or `temperature=1.0` to draw at random. What comes of a
            sentence does not depend on those beside it; what is drawn depends on the seed and on
            its place among them, and stands in the order of drawing.

        Raises:
          InputError: a sentence is empty or longer than `max_length` tokens, or an option is wrong.
        """
        wanted = search_of(options if n_best is None else {**options, "n_best": n_best})
        found = self._search(sentences, wanted)
        return [own[0] for own in found] if n_best is None else found

    def _search(self, sentences: Sequence[str], search: Search) -> list[list[Hypothesis]]:
        search.check_lengths(self.max_length)
        if search.unknown == "copy" and any(model.is_control for model in self.models):
            raise InputError(
                "unknown=copy needs attention: the weights of a control, mean or last, do not tell "
                "which source word to copy"
            )
        sources = self._encode(self.source, sentences, "source")
        own = jax.random.split(jax.random.key(search.seed), max(len(sources), 1))
        compiled_for = dataclasses.replace(search, seed=0)

        def decode(indices: np.ndarray, rows: int, length: int) -> Iterator[list[Hypothesis]]:
            found = compiled.decode(
                self.models,
                _batch([sources[i] for i in indices], rows, length),
                own[np.resize(indices, rows)],
                combination=self.combination,
                search=compiled_for,
                longest=self.max_length,
            )
            found = jax.device_get(found)
            for row, index in enumerate(indices):
                hypotheses = [
                    self._hypothesis(Found(*(leaf[row, nth] for leaf in found)), sources[index])
                    for nth in range(search.n_best)
                    if np.isfinite(found.score[row, nth])
                ]
                if not hypotheses:
                    raise InputError("the model gives no finite probabilities: its training failed")
                if search.unknown == "copy":
                    words = copies(self.source, self.target, sentences[index])
                    hypotheses = [self._with_copies(one, words) for one in hypotheses]
                yield hypotheses

        return in_order(list(map(len, sources)), decode, max(search.beam_size, search.n_best))

    def _hypothesis(self, found: Found, source: Sequence[int]) -> Hypothesis:
        steps = np.count_nonzero(found.tokens != PAD)
        tokens = self.target.decode(found.tokens[:steps].tolist())
        return Hypothesis(
            self.target.join(tokens),
            tokens,
            float(found.log_probability),
            float(found.score),
            # A copy, since a view would hold on to the weights of the whole batch.
            np.moveaxis(found.weights[:steps, ..., : len(source)], 0, -2).copy(),
        )

    def _with_copies(self, found: Hypothesis, words: Sequence[str]) -> Hypothesis:
        tokens = replaced(found.tokens, found.alignment[:-1], words)
        return dataclasses.replace(found, text=self.target.join(tokens))

    def force(self, sources: Sequence[str], targets: Sequence[str | Hypothesis]) -> list[Forced]:
        """What the model makes of given translations.

        Args:
          sources: to be translated.
          targets: texts, which are cut into tokens, or hypotheses, whose tokens are taken as they
            are; the same in `align` and `score`.

        Raises:
          InputError: there are not as many targets as sources, or a sentence is empty or longer
            than `max_length` tokens.
        """
        return [Forced(*one) for one in self._over_pairs(compiled.force, sources, targets)]

    def align(
        self, sources: Sequence[str], targets: Sequence[str | Hypothesis], of: str = "weights"
    ) -> list[np.ndarray]:
        """Where each token of given translations came from, [T, S], end of sentence included.

        Args:
          sources, targets: as many of one as of the other.
          of: `weights`, what the model attended to before it knew the token, mean over layers and
            heads; or `posterior`, how probable each source token is given the target token too,
            which costs a step for each.

        Raises:
          InputError: as `force` does, or `of` is neither.
        """
        return choose({"weights": self._weights, "posterior": self._posterior}, of, "kind")(
            sources, targets
        )

    def _weights(self, sources: Sequence, targets: Sequence) -> list[np.ndarray]:
        return [forced.alignment for forced in self.force(sources, targets)]

    def _posterior(self, sources: Sequence, targets: Sequence) -> list[np.ndarray]:
        given = self._over_pairs(compiled.posterior, sources, targets)
        if any(np.any((posterior > 1e-3) & (alone < 0.99)) for posterior, alone in given):
            raise InputError(
                "this model has no posterior: its attention does not put all weight on a position "
                "when there is no other; take the weights"
            )
        return [posterior for posterior, _ in given]

    def score(self, sources: Sequence[str], targets: Sequence[str | Hypothesis]) -> np.ndarray:
        """The log-probability [n] of each given translation, in nats."""

        def log_probabilities(*given: Any, **how: Any) -> jax.Array:
            return compiled.force(*given, **how).log_probabilities

        own = self._over_pairs(log_probabilities, sources, targets)
        return np.array([one.sum() for one in own])

    def _over_pairs(
        self, run: Callable, sources: Sequence[str], targets: Sequence[str | Hypothesis]
    ) -> list[Any]:
        """What a compiled pass gives for each pair, [T] or [..., T, S] without padding."""
        if len(sources) != len(targets):
            raise InputError(f"{len(sources)} sources, but {len(targets)} targets")
        source_ids = self._encode(self.source, sources, "source")
        target_ids = [[*ids, EOS] for ids in self._encode(self.target, targets, "target")]

        def over(indices: np.ndarray, rows: int, length: int) -> Iterator[Any]:
            source = _batch([source_ids[i] for i in indices], rows, length)
            target = _batch([target_ids[i] for i in indices], rows, length)
            given = jax.device_get(run(self.models, source, target, combination=self.combination))
            for row, index in enumerate(indices):
                real = len(target_ids[index]), len(source_ids[index])
                yield jax.tree.map(partial(_cut, row=row, real=real), given)

        lengths = [max(map(len, pair)) for pair in zip(source_ids, target_ids, strict=True)]
        return in_order(lengths, over)

    def _encode(
        self, vocabulary: Vocabulary, sentences: Sequence[str | Hypothesis], side: str
    ) -> list[list[int]]:
        if isinstance(sentences, str):
            raise InputError(f"expected a list of {side} sentences, got one: {sentences[:60]!r}")
        encoded = []
        for number, sentence in enumerate(sentences, start=1):
            found = isinstance(sentence, Hypothesis)
            if not found and not isinstance(sentence, str):
                raise InputError(f"{side} sentence {number} is no text: {sentence!r}")
            ids = vocabulary.ids(sentence.tokens) if found else vocabulary.encode(sentence)
            # A search may find nothing to be the best translation.
            if not ids and not found:
                raise InputError(f"{side} sentence {number} is empty")
            if len(ids) > self.max_length:
                text = sentence.text if found else sentence
                raise InputError(
                    f"{side} sentence {number} has {len(ids)} tokens, more than the "
                    f"{self.max_length} of --data.max_length: {text[:40]!r} …"
                )
            encoded.append(ids)
        return encoded


def _cut(leaf: np.ndarray, row: int, real: tuple[int, int]) -> np.ndarray:
    """A row [T] or [..., T, S] of a batch, without padding."""
    steps, width = real
    own = leaf[row]
    # A copy, since a view would hold on to the whole batch.
    return (own[:steps] if own.ndim == 1 else own[..., :steps, :width]).copy()


def _batch(sentences: list[list[int]], rows: int, length: int) -> np.ndarray:
    """Padded ids; a short batch is filled with empty rows, to keep the compiled shape."""
    return pad(sentences + [[]] * (rows - len(sentences)), length)
