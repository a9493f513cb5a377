"""The interface to a trained model: translate, align and score."""

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, overload

import jax
import numpy as np
from jaxtyping import Int

from attn_jax.data.pairs import pad
from attn_jax.data.sentences import Sentence
from attn_jax.data.vocabulary import Vocabulary, copies
from attn_jax.decoding.batches import BATCH, in_flight, in_order, shapes
from attn_jax.decoding.decode import decode
from attn_jax.decoding.ensemble import COMBINATIONS
from attn_jax.decoding.explanations import Explained, explain
from attn_jax.decoding.forced import Forced, force, posterior, value_sizes, viterbi
from attn_jax.decoding.options import Search, search_of
from attn_jax.decoding.search import SearchResult
from attn_jax.decoding.unknown import replaced
from attn_jax.errors import InputError, choose
from attn_jax.kernels.factors import BFLOAT16
from attn_jax.models.seq2seq import Seq2Seq
from attn_jax.tokens import EOS, PAD
from attn_jax.translation.hypothesis import Hypothesis

if TYPE_CHECKING:
    from attn_jax.reporting.style import Picture

Text = str | Sentence  # a sentence is not cut into tokens again

# A posterior is refused if a position with more than this probability has less than this weight
# when there is no other.
PROBABLE, WHOLE = 1e-3, 0.99
USUAL = 64  # tokens of the longest sentence for which `warm_up` compiles unless it is told to


class Translator:
    """A model, or an ensemble of models, with its vocabularies.

    Several threads may use it at the same time. Batches run in threads of their own, too: set
    options of JAX with `jax.config.update`, since contexts such as `with jax.debug_nans(True)`
    apply only to the calling thread.

    Args:
      models: one or more, with the same vocabularies and with parameters in float32.
      source: the source vocabulary.
      target: the target vocabulary.
      max_length: most tokens of a source or target sentence.
      combination: how an ensemble predicts: by the mean of the `log_probabilities` or of the
        `probabilities` of its models.

    Raises:
      InputError: there is no model or no such combination, parameters are not float32, or the
        vocabularies and a model differ in size.
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
            sizes = model.source_sizes, model.words.target_size
            if sizes != (source.sizes, len(target)):
                raise InputError(
                    f"a model of {_plus(sizes[0])} source and {sizes[1]} target tokens "
                    f"does not go with vocabularies of {_plus(source.sizes)} and {len(target)}"
                )
        self.models = tuple(models)
        self._heads = sum(model.heads for model in models)
        self.source = source
        self.target = target
        self.max_length = max_length
        self.combination = combination
        self._expansion = max(1, target.per_word // source.per_word)

    def __repr__(self) -> str:
        return (
            f"Translator({len(self.models)} model{'s' * (len(self.models) > 1)}, "
            f"{len(self.source)} source and {len(self.target)} target tokens, "
            f"sentences of at most {self.max_length})"
        )

    @property
    def settings(self) -> dict[str, Any]:
        """What `decode` needs to know, besides the options of a search."""
        return {
            "combination": self.combination,
            "longest": self.max_length,
            "expansion": self._expansion,
        }

    @overload
    def translate(
        self, sentences: Sequence[Text], *, n_best: int, first: int = 0, **options: Any
    ) -> list[list[Hypothesis]]: ...

    @overload
    def translate(
        self, sentences: Sequence[Text], *, n_best: None = None, first: int = 0, **options: Any
    ) -> list[Hypothesis]: ...

    def translate(self, sentences, *, n_best=None, first=0, **options):
        """Translates sentences: one hypothesis for each; with `n_best`, a list for each.

        Lists have the best hypothesis first, or samples in the order in which they were drawn. The
        translation of a sentence does not depend on the other sentences. Samples depend on the seed
        and on the index of the sentence.

        Args:
          sentences: the source sentences, as text or cut into tokens by the vocabulary `source`.
          n_best: hypotheses for each sentence; there may be fewer if the beam does not find enough.
          first: the index of the first sentence, when several calls translate one text.
          **options: of `attn_jax.decoding.options.Search`, such as `beam_size=5`,
            `length_penalty="average"`, or `temperature=1.0` for sampling.

        Raises:
          InputError: a sentence is empty or longer than `max_length` tokens, an option is invalid,
            or the model's probabilities are not finite.
        """
        search = self._wanted(n_best, options)
        hypotheses = self._found(self._cut(self.source, sentences, "source", first), search, first)
        return [of_sentence[0] for of_sentence in hypotheses] if n_best is None else hypotheses

    @overload
    def translate_stream(
        self, sentences: Iterable[Text], *, n_best: int, buffer: int = BATCH, **options: Any
    ) -> Iterator[list[Hypothesis]]: ...

    @overload
    def translate_stream(
        self, sentences: Iterable[Text], *, n_best: None = None, buffer: int = BATCH, **options: Any
    ) -> Iterator[Hypothesis]: ...

    def translate_stream(
        self,
        sentences: Iterable[Text],
        *,
        n_best: int | None = None,
        buffer: int = BATCH,
        **options: Any,
    ) -> Iterator[Hypothesis] | Iterator[list[Hypothesis]]:
        """Translates sentences one after another, also if there is no end of them.

        Yields what `translate` would return, in order. It takes `buffer` sentences, waiting for
        them if need be, yields their translations, and only then takes more. With `buffer=1`, each
        sentence is translated as soon as it has come, as suits a conversation; larger buffers
        translate more sentences per second.

        Args:
          sentences: the source sentences, such as the lines of a file or of a socket.
          n_best: as for `translate`.
          buffer: most sentences that are held and translated together.
          **options: as for `translate`.

        Raises:
          InputError: at once, an option is invalid; or in the place of the translation, after
            those of all sentences before it, a sentence is empty or longer than `max_length`
            tokens, or the model's probabilities are not finite. What the sentences themselves raise
            comes in its place, too.
        """
        search = self._wanted(n_best, options)
        if buffer < 1:
            raise InputError(f"buffer must be at least 1, got {buffer}")
        if isinstance(sentences, str):
            raise InputError(f"expected source sentences, got one: {sentences[:60]!r}")
        translations = self._stream(iter(sentences), search, buffer)
        return (found[0] for found in translations) if n_best is None else translations

    def _stream(
        self, sentences: Iterator[Text], search: Search, buffer: int
    ) -> Iterator[list[Hypothesis]]:
        first, failure, more = 0, None, True
        while more:
            held: list[Sentence] = []
            try:
                for sentence in itertools.islice(sentences, buffer):
                    held += self._cut(self.source, [sentence], "source", first + len(held))
            except Exception as error:
                failure = error
            yield from self._found(held, search, first)
            if failure:
                raise failure
            first += len(held)
            more = len(held) == buffer

    def warm_up(
        self,
        lengths: Iterable[int] | None = None,
        rows: Iterable[int] = (1, BATCH),
        *,
        n_best: int | None = None,
        **options: Any,
    ) -> None:
        """Compiles what translating needs, so that the first request is as fast as later ones.

        Each pair of a padded length (8, 16, 32, …) and a number of rows (1, 2, 4, … 64) is a
        program, which takes seconds to compile, or less than one if an earlier process has kept
        it in the cache of compiled programs. By default these are eight.

        Args:
          lengths: of the sentences to come, in source tokens; by default all of at most 64.
          rows: how many sentences come in a call of `translate`, or the `buffer` of
            `translate_stream`; calls of more than 64 have the programs of 64.
          n_best: as for `translate`; programs depend on it and on all other options but the seed.
          **options: as for `translate`.

        Raises:
          InputError: a length is not from 1 to `max_length`, there are less than 1 rows, or an
            option is invalid.
        """
        search = self._wanted(n_best, options)
        lengths = list(range(1, min(USUAL, self.max_length) + 1) if lengths is None else lengths)
        rows = list(rows)
        for length in lengths:
            if not 1 <= length <= self.max_length:
                raise InputError(f"lengths must be from 1 to {self.max_length}, got {length}")
        if min(rows, default=1) < 1:
            raise InputError(f"rows must be at least 1, got {min(rows)}")

        def run(shape: tuple[int, int]) -> None:
            # Sentences without a token, whose translations end at once.
            self._decoded(np.zeros(shape, np.int32), np.arange(shape[0]), search)

        in_flight(run, shapes(lengths, rows, self._per_pair(search)))

    def _wanted(self, n_best: int | None, options: dict[str, Any]) -> Search:
        """The search with these options, which this model can do."""
        search = search_of(options if n_best is None else {**options, "n_best": n_best})
        search.check_lengths(self.max_length)
        if search.unknown == "copy" and any(model.is_control for model in self.models):
            raise InputError(
                "unknown=copy needs attention: the weights of a control, mean or last, do not "
                "show which source word to copy"
            )
        if search.coverage_penalty:
            self._check_signs("coverage_penalty")
        return search

    def _found(
        self, sentences: Sequence[Sentence], search: Search, first: int
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each sentence."""
        sources = [self.source.ids(sentence.tokens) for sentence in sentences]

        def of_batch(indices: np.ndarray, rows: int, length: int) -> Iterator[list[Hypothesis]]:
            batch = _batch([sources[i] for i in indices], rows, length)
            results = self._decoded(batch, first + np.resize(indices, rows), search)
            for row, index in enumerate(indices):
                hypotheses = [
                    hypothesis_of(
                        jax.tree.map(itemgetter((row, nth)), results),
                        sentences[index],
                        self.target,
                    )
                    for nth in range(search.n_best)
                    if np.isfinite(results.score[row, nth])
                ]
                if not hypotheses:
                    raise InputError(
                        "the model's probabilities are not finite: its training failed"
                    )
                if search.unknown == "copy":
                    words = copies(self.source, self.target, sentences[index])
                    hypotheses = [self._with_copies(hypothesis, words) for hypothesis in hypotheses]
                yield hypotheses

        return in_order(list(map(len, sources)), of_batch, self._per_pair(search))

    def _per_pair(self, search: Search) -> int:
        """Weights of a source and a target token: of all hypotheses, layers and heads."""
        return max(search.beam_size, search.n_best) * self._heads * self._expansion

    def _decoded(
        self, batch: Int[np.ndarray, "B S"], places: Int[np.ndarray, " B"], search: Search
    ) -> SearchResult:
        """The results of a padded batch, whose samples depend on the places of its sentences."""
        rngs = None
        if search.temperature:
            rngs = jax.vmap(jax.random.fold_in, (None, 0))(jax.random.key(search.seed), places)
        # Without the seed, which would only have the program compiled again.
        unseeded = dataclasses.replace(search, seed=0)
        results = decode(self.models, batch, rngs, search=unseeded, **self.settings)
        return jax.device_get(results)

    def _with_copies(self, hypothesis: Hypothesis, words: Sequence[str]) -> Hypothesis:
        tokens = replaced(hypothesis.tokens, hypothesis.alignment[:-1, : len(words)], words)
        return dataclasses.replace(hypothesis, text=self.target.join(tokens))

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
                f"{what} needs weights that are not negative: mixed heads may give such"
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
        if len(self.models) > 1 or not self.models[0].sums_over_alignments:
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

    def compare(
        self,
        other: "Translator",
        sentence: Text,
        reference: str = "",
        *,
        names: tuple[str, str] = ("this", "other"),
        **options: Any,
    ) -> "Picture":
        """Draws a sentence as this model and another translate it, side by side.

        Args:
          other: the other model, whose vocabularies may differ.
          sentence: the source sentence.
          reference: its translation; where given, errors are marked: tokens that are wrong or too
            many in red, and a red line where tokens are missing.
          names: what the panels are called, before their translations.
          **options: as for `translate`, for both.

        Raises:
          InputError: as in `translate`, or both names are the same.
        """
        # Translating does without figures.
        from attn_jax.reporting.beside import Panel, beside

        if len({*names}) < 2:
            raise InputError(f"both models are called {names[0]!r}: give two names")
        text = sentence.text if isinstance(sentence, Sentence) else sentence
        panels = {}
        for name, model in zip(names, (self, other), strict=True):
            (found,) = model.translate([text], **options)
            wanted = model.target.cut(reference).tokens if reference else found.tokens
            panel = Panel(found.alignment, found.source.tokens, found.steps, wanted)
            panels[f"{name}: {found.text}"] = panel
        return beside(panels)

    def _over_pairs(
        self, run: Callable, sources: Sequence[Text], targets: Sequence[Text | Hypothesis]
    ) -> list[Any]:
        """The results of a compiled pass for each pair, [T] or [..., T, S], without padding."""
        source_cut = self._cut(self.source, sources, "source")
        target_cut = self._cut(self.target, targets, "target")
        source_ids = [self.source.ids(sentence.tokens) for sentence in source_cut]
        target_ids = [[*self.target.ids(sentence.tokens), EOS] for sentence in target_cut]
        if len(source_ids) != len(target_ids):
            raise InputError(f"got {len(source_ids)} sources, but {len(target_ids)} targets")

        def over(indices: np.ndarray, rows: int, length: int) -> Iterator[Any]:
            source = _batch([source_ids[i] for i in indices], rows, length)
            target = _batch([target_ids[i] for i in indices], rows, length)
            results = jax.device_get(run(self.models, source, target, combination=self.combination))
            for row, index in enumerate(indices):
                real = len(target_ids[index]), len(source_ids[index])
                yield jax.tree.map(partial(_without_padding, row=row, real=real), results)

        lengths = [max(map(len, pair)) for pair in zip(source_ids, target_ids, strict=True)]
        return in_order(lengths, over, self._heads)

    @overload
    def _cut(
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
        if isinstance(sentences, str | Sentence):
            text = sentences if isinstance(sentences, str) else sentences.text
            raise InputError(f"expected a list of {side} sentences, got one: {text[:60]!r}")
        cut = []
        for number, sentence in enumerate(sentences, start=first + 1):
            is_hypothesis = isinstance(sentence, Hypothesis)
            if not is_hypothesis and not isinstance(sentence, str | Sentence):
                raise InputError(f"{side} sentence {number} is not text: {sentence!r}")
            found = sentence if is_hypothesis else vocabulary.cut(sentence)
            # A hypothesis may be empty.
            if not found.tokens and not is_hypothesis:
                raise InputError(f"{side} sentence {number} is empty")
            if len(found.tokens) > self.max_length:
                raise InputError(
                    f"{side} sentence {number} has {len(found.tokens)} tokens, more than the "
                    f"{self.max_length} of data.max_length: {found.text[:40]!r} …"
                )
            cut.append(found)
        return cut


def hypothesis_of(result: SearchResult, source: Sentence, target: Vocabulary) -> Hypothesis:
    """A hypothesis from one result, [T] and [L, N, T, S], of a search for a source sentence."""
    steps = np.count_nonzero(result.tokens != PAD)
    tokens = target.decode(result.tokens[:steps].tolist())
    return Hypothesis(
        target.join(tokens),
        tokens,
        float(result.log_probability),
        float(result.score),
        # A copy, since a view would keep the weights of the whole batch in memory.
        np.array(result.weights[:, :, :steps, : len(source.tokens)]),
        source,
    )


def _plus(sizes: tuple[int, ...]) -> str:
    return " + ".join(map(str, sizes))


def _without_padding(leaf: np.ndarray, row: int, real: tuple[int, int]) -> np.ndarray:
    """A row [T] or [..., T, S] of a batch, without padding."""
    steps, width = real
    values = leaf[row]
    # A copy, since a view would keep the whole batch in memory.
    return (values[:steps] if values.ndim == 1 else values[..., :steps, :width]).copy()


def _batch(sentences: list[list[int]], rows: int, length: int) -> np.ndarray:
    """Padded ids; empty rows fill up a short batch, so that its shape is already compiled."""
    return pad(sentences + [[]] * (rows - len(sentences)), length)
