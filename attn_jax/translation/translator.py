"""The interface to a trained model: translate, align and score."""

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, overload

import jax
import numpy as np
from jaxtyping import Int

from attn_jax.data.copying import copyable
from attn_jax.data.sentences import Sentence
from attn_jax.data.vocabulary import Vocabulary, copies
from attn_jax.decoding.batches import BATCH, in_flight, in_order, shapes
from attn_jax.decoding.decode import decode
from attn_jax.decoding.options import Search, replaced, search_of
from attn_jax.decoding.search import SearchResult
from attn_jax.errors import InputError
from attn_jax.tokens import PAD, Copyable
from attn_jax.translation.given_pairs import GivenPairs, Text, padded_batch, refuse_one
from attn_jax.translation.hypothesis import Hypothesis

if TYPE_CHECKING:
    from attn_jax.drawing.style import Picture

USUAL = 64  # tokens of the longest sentence for which `warm_up` compiles unless it is told to


class Translator(GivenPairs):
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
        refuse_one(sentences, "source")
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
            batch = np.zeros(shape, np.int32)
            batch = Copyable(batch, batch) if self.copies else batch
            self._decoded(batch, np.arange(shape[0]), search)

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
            batch = padded_batch([sources[i] for i in indices], rows, length)
            if self.copies:
                texts = [sentences[i].tokens for i in indices]
                batch, _ = copyable(batch, texts, self.target)
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
        self,
        batch: Int[np.ndarray, "B S"] | Copyable,
        places: Int[np.ndarray, " B"],
        search: Search,
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
          **options: as for `translate`, for both; not `n_best`.

        Raises:
          InputError: as in `translate`, or both names are the same.
        """
        # Translating does without figures.
        from attn_jax.drawing.beside import Panel, beside

        if len({*names}) < 2:
            raise InputError(f"both models are called {names[0]!r}: give two names")
        if "n_best" in options:
            raise InputError("one translation of each model is drawn: leave out n_best")
        text = sentence.text if isinstance(sentence, Sentence) else sentence
        panels = {}
        for name, model in zip(names, (self, other), strict=True):
            (found,) = model.translate([text], **options)
            wanted = model.target.cut(reference).tokens if reference else found.tokens
            panel = Panel(found.alignment, found.source.tokens, found.steps, wanted)
            panels[f"{name}: {found.text}"] = panel
        return beside(panels)


def hypothesis_of(result: SearchResult, source: Sentence, target: Vocabulary) -> Hypothesis:
    """A hypothesis from one result, [T] and [L, N, T, S], of a search for a source sentence."""
    steps = np.count_nonzero(result.tokens != PAD)
    tokens = target.decode(result.tokens[:steps].tolist(), source.tokens)
    return Hypothesis(
        target.join(tokens),
        tokens,
        float(result.log_probability),
        float(result.score),
        # A copy, since a view would keep the weights of the whole batch in memory.
        np.array(result.weights[:, :, :steps, : len(source.tokens)]),
        source,
    )
