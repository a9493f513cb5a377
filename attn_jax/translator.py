"""What a trained model is used through: translate, align and score."""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from attn_jax import config
from attn_jax.data.pipeline import pad
from attn_jax.data.vocabulary import Vocabulary, load_vocabulary
from attn_jax.decoding.search import Found, greedy
from attn_jax.errors import InputError
from attn_jax.models.seq2seq import Seq2Seq, initialize
from attn_jax.tokens import EOS, PAD
from attn_jax.training.checkpoint import Checkpoints
from attn_jax.training.losses import cross_entropy

BATCH = 64  # sentences decoded together


@dataclasses.dataclass(frozen=True)
class Hypothesis:
    """A translation, and what the model looked at when it wrote each token."""

    text: str
    tokens: list[str]
    log_probability: float  # of the tokens and the end of the sentence, in nats
    weights: np.ndarray  # [L, N, T, S], of each layer and head; the last row ends the sentence

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


@functools.partial(jax.jit, static_argnames="max_length")
def decode_batch(model: Seq2Seq, source: jax.Array, *, max_length: int) -> Found:
    """Greedy translations of a padded batch [B, S]."""
    encoded = model.encode(source)

    def step(state, token):
        return model.step(state, token, encoded)

    return greedy(step, model.start(encoded, max_length), encoded.mask, max_length)


@jax.jit
def force_batch(model: Seq2Seq, source: jax.Array, target: jax.Array) -> Forced:
    """The pass over known targets of a padded batch [B, S], [B, T]."""
    features, alignment = model(source, target)
    logits = model.words.logits(features)
    return Forced(-cross_entropy(logits, target), logits.argmax(axis=-1) == target, alignment)


class Translator:
    """A model with its vocabularies."""

    def __init__(
        self, model: Seq2Seq, source: Vocabulary, target: Vocabulary, max_length: int = 512
    ):
        self.model = model
        self.source = source
        self.target = target
        self.max_length = max_length

    def translate(self, sentences: Sequence[str]) -> list[Hypothesis]:
        """The greedy translation of each sentence.

        Raises:
          InputError: a sentence is empty or longer than `max_length` tokens.
        """
        sources = self._encode(self.source, sentences, "source")

        def decode(indices: np.ndarray, length: int) -> Iterator[Hypothesis]:
            batch = _batch([sources[i] for i in indices], length)
            limit = min(2 * length + 50, self.max_length + 1)
            found = jax.device_get(decode_batch(self.model, batch, max_length=limit))
            for row, index in enumerate(indices):
                steps = np.count_nonzero(found.tokens[row] != PAD)
                tokens = self.target.decode(found.tokens[row, :steps].tolist())
                yield Hypothesis(
                    self.target.join(tokens),
                    tokens,
                    float(found.log_probability[row]),
                    # A copy, since a view would hold on to the weights of the whole batch.
                    np.moveaxis(
                        found.alignment[row, :steps, ..., : len(sources[index])], 0, -2
                    ).copy(),
                )

        return _in_order(list(map(len, sources)), decode)

    def force(self, sources: Sequence[str], targets: Sequence[str]) -> list[Forced]:
        """What the model makes of given translations.

        Raises:
          InputError: there are not as many targets as sources, or a sentence is empty or longer
            than `max_length` tokens.
        """
        if len(sources) != len(targets):
            raise InputError(f"{len(sources)} sources, but {len(targets)} targets")
        source_ids = self._encode(self.source, sources, "source")
        target_ids = [[*ids, EOS] for ids in self._encode(self.target, targets, "target")]

        def force(indices: np.ndarray, length: int) -> Iterator[Forced]:
            source = _batch([source_ids[i] for i in indices], length)
            target = _batch([target_ids[i] for i in indices], length)
            forced = jax.device_get(force_batch(self.model, source, target))
            for row, index in enumerate(indices):
                steps, width = len(target_ids[index]), len(source_ids[index])
                yield Forced(
                    forced.log_probabilities[row, :steps],
                    forced.correct[row, :steps],
                    forced.weights[row, ..., :steps, :width].copy(),
                )

        lengths = [max(map(len, pair)) for pair in zip(source_ids, target_ids, strict=True)]
        return _in_order(lengths, force)

    def align(self, sources: Sequence[str], targets: Sequence[str]) -> list[np.ndarray]:
        """The weights [T, S] behind each token of given translations, end of sentence included."""
        return [forced.alignment for forced in self.force(sources, targets)]

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> np.ndarray:
        """The log-probability [n] of each given translation, in nats."""
        return np.array([f.log_probabilities.sum() for f in self.force(sources, targets)])

    def _encode(self, vocabulary: Vocabulary, sentences: Sequence[str], side: str):
        encoded = [vocabulary.encode(sentence) for sentence in sentences]
        for number, ids in enumerate(encoded, start=1):
            if not ids:
                raise InputError(f"{side} sentence {number} is empty")
            if len(ids) > self.max_length:
                raise InputError(
                    f"{side} sentence {number} has {len(ids)} tokens, more than the "
                    f"{self.max_length} of --data.max_length"
                )
        return encoded


def _batch(rows: list[list[int]], length: int) -> np.ndarray:
    """Padded ids; a short batch is filled with empty rows, to keep the compiled shape."""
    return pad(rows + [[]] * (BATCH - len(rows)), length)


def _in_order(lengths: Sequence[int], run: Callable) -> list:
    """`run` over batches of sentences of like length, its results in the order of the sentences.

    Lengths are padded to a power of two, so that few shapes are compiled.
    """
    results = [None] * len(lengths)
    order = np.argsort(lengths, kind="stable")
    for indices in np.split(order, range(BATCH, len(order), BATCH)):
        if len(indices):
            longest = max(lengths[i] for i in indices)
            length = max(8, 1 << (longest - 1).bit_length())
            for index, result in zip(indices, run(indices, length), strict=True):
                results[index] = result
    return results


def load(workdir: str | Path, checkpoint: str = "best") -> Translator:
    """The translator that a run has trained; needs nothing but the run's folder.

    Args:
      workdir: of the run.
      checkpoint: `best` by the validation metric, or `last`.

    Raises:
      InputError: the folder holds no checkpoint of a run, or a damaged one.
    """
    workdir = Path(workdir)
    if not (workdir / "flags.txt").is_file():
        raise InputError(f"{workdir} is not the folder of a run: it has no flags.txt")
    experiment = config.read(workdir / "flags.txt")
    source, target = load_vocabularies(workdir)
    shapes = jax.eval_shape(
        functools.partial(initialize, experiment.model, len(source), len(target)),
        jax.random.key(0),
    )
    model = load_parameters(workdir, shapes, checkpoint)
    return Translator(model, source, target, experiment.data.max_length)


def load_parameters(workdir: Path, model: Seq2Seq, checkpoint: str = "best") -> Seq2Seq:
    """The model with the parameters that a run has trained.

    Raises:
      InputError: the folder holds no checkpoint of a run, or one of another model.
    """
    if not (workdir / "checkpoints").is_dir():
        raise InputError(f"{workdir} has no checkpoint of a run")
    checkpoints = Checkpoints(workdir / "checkpoints")
    try:
        step = checkpoints.best if checkpoint == "best" else checkpoints.latest
        if step is None:
            raise InputError(f"{workdir} has no checkpoint yet")
        return checkpoints.restore(step, "model", model)
    finally:
        checkpoints.close()


def load_vocabularies(workdir: Path) -> tuple[Vocabulary, Vocabulary]:
    """The vocabularies of a run: source and target."""
    return tuple(
        load_vocabulary(workdir / f"vocabulary.{side}.json") for side in ("source", "target")
    )
