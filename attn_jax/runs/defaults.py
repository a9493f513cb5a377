"""What a comparison chooses for its data: tokens, sizes, settings to try, and the systems.

Where the sizes come from: docs/comparing.md.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from attn_jax import config
from attn_jax.data.datasets import Corpus, open_corpus, with_defaults
from attn_jax.data.pretokens import cut_pairs
from attn_jax.data.run_vocabularies import cutting
from attn_jax.data.sentences import parted, words_of
from attn_jax.errors import InputError

RATE, DROPOUT = "train.learning_rate", "model.dropout"
STEPS, EVERY, WARMUP = "train.steps", "train.valid_every", "train.warmup_steps"
VALIDATIONS = 12  # of a run

LOOKED_AT = 5000  # training pairs, from the first on, by which tokens are chosen
ALONE = 0.9  # share of lines that are one word, from which on tokens are characters
FEW, OFTEN = 200, 5  # different words, and uses of each on average, of symbols such as phones
SHORT = 40, 4  # characters and words (medians), below which tokens are characters
# Systems of all kinds can be built with it, which is not true of the others.
SOURCES = "concatenated"


class Sizes(NamedTuple):
    """What suits training text of at least so many pairs.

    Attributes:
      pairs: at least.
      options: of all systems.
      units: of additive scores.
      steps: of each run.
      dropouts: to be tried, the most promising first.
    """

    pairs: int
    options: dict[str, Any]
    units: int
    steps: int
    dropouts: tuple[float, ...]


def _options(
    embedding: int, hidden: int, annotation: int, readout: int, batch: int, subwords: int
) -> dict[str, Any]:
    return {
        "data.subwords": subwords,
        "model.embedding_size": embedding,
        "model.hidden_size": hidden,
        "model.annotation_size": annotation,
        "model.readout_size": readout,
        "model.feedforward_size": 4 * hidden,
        "train.batch_size": batch,
        "train.buckets": 3,
    }


TABLE = (
    Sizes(1, _options(64, 128, 128, 64, 32, 1000), 128, 3000, (0.3, 0.5)),
    Sizes(2_000, _options(128, 256, 256, 128, 64, 4000), 128, 4000, (0.3, 0.1)),
    Sizes(15_000, _options(256, 256, 512, 256, 64, 8000), 256, 5000, (0.3, 0.1)),
    Sizes(60_000, _options(256, 256, 512, 256, 64, 8000), 256, 12_000, (0.1, 0.3)),
)


# Learning rate and warm-up of recurrent models and of Transformers.
RECURRENT, TRANSFORMER = (0.0015, 500), (0.0007, 1000)
FACTORS = (1, 0.5, 2)  # of the learning rate, to be tried, the most promising first


def sizes_for(pairs: int) -> Sizes:
    """The sizes for training text of some number of pairs."""
    return [sizes for sizes in TABLE if sizes.pairs <= max(pairs, 1)][-1]


def suited(sizes: Sizes) -> str:
    """The training text that sizes suit, in words."""
    smallest, larger, *_ = TABLE
    if sizes is smallest:
        return f"fewer than {larger.pairs:,} training pairs"
    return f"{sizes.pairs:,} training pairs and more"


def systems_for(sizes: Sizes) -> list[dict[str, Any]]:
    """The shortest useful list: systems are left out from its end.

    So the Transformer is last, whose steps take longest. Of what moves from left to right, `gmm`
    was among the fastest, in steps and in seconds (docs/mechanisms.md).
    """
    units = f"(units={sizes.units})"
    heads = {"model.score": "scaled_dot", "model.heads": 4}
    hard = {"model.decoder": "luong", "model.readout": "marginal", "model.score": "general"}
    transformer = {
        "model.encoder": "transformer",
        "model.decoder": "transformer",
        "model.encoder_layers": 3,
        "model.decoder_layers": 3,
        "model.norm": "pre",
    }
    return [
        {"label": "no attention", "model.score": "last"},
        {"label": "additive", "model.score": f"additive{units}"},
        {"label": "general", "model.score": "general"},
        {"label": "scaled dot (4 heads)", **heads},
        {"label": "location-aware", "model.score": f"location_aware{units}"},
        {"label": "monotonic (gmm)", "model.score": "gmm"},
        {"label": "hard attention", **hard},
        {"label": "Transformer", **heads, **transformer},
    ]


def paced(system: Mapping[str, Any], steps: int) -> dict[str, Any]:
    """The options of training that depend on the kind of a system and on the number of steps.

    The learning rate falls to 0 at the last step, so that a shorter run ends well too. Readouts
    over positions do not allow label smoothing.
    """
    rate, warmup = TRANSFORMER if system.get("model.decoder") == "transformer" else RECURRENT
    return {
        STEPS: steps,
        EVERY: max(1, steps // VALIDATIONS),
        RATE: rate,
        WARMUP: min(warmup, steps * warmup // 5000),
        "train.schedule": f"linear(until={steps})",
        "train.label_smoothing": 0.0 if "model.readout" in system else 0.1,
    }


class Survey(NamedTuple):
    """The data.

    Attributes:
      options: those of the tokens and the second source, where they were not given.
      pairs: of each split.
      lengths: of the training pairs, source and target, in tokens (of subwords: in words), [n, 2].
      levels: of source and target.
      why: each of them was chosen; empty where it was given.
    """

    options: dict[str, Any]
    pairs: dict[str, int]
    lengths: np.ndarray
    levels: tuple[str, str]
    why: tuple[str, str]

    def told(self) -> Iterator[str]:
        """The data in words."""
        counts = (f"{count:,} for {split}" for split, count in self.pairs.items())
        yield f"data: pairs of sentences, {', '.join(counts)}"
        for side, lengths, level, why in zip(
            ("source", "target"), self.lengths.T, self.levels, self.why, strict=True
        ):
            unit = "word" if level == "subword" else level
            yield (
                f"{side}: {level}s{why and ', since '}{why}; a training sentence has "
                f"{np.median(lengths):.0f} {unit}s (median), at most {lengths.max()}"
            )
        if "model.sources" in self.options:
            yield f"two sources: model.sources={self.options['model.sources']} for all systems"


def survey(given: Mapping[str, Any]) -> Survey:
    """Looks at the data that options name.

    Raises:
      InputError: they cannot be opened, or have no test split.
    """
    data = _data(given)
    corpus = open_corpus(data)
    if "test" not in corpus.splits:
        raise InputError("a comparison is decided on a test split: give data.test")
    rules = _rules(corpus, data) if data.name == "parallel" else {}
    options: dict[str, Any] = {f"data.{side}_level": level for side, (level, _) in rules.items()}
    chosen = with_defaults(_data({**given, **options}))
    if data.sources == 2 and "model.sources" not in given:
        options["model.sources"] = SOURCES
    lengths = cut_pairs(corpus.examples("train"), cutting(chosen)).lengths()
    return Survey(
        options,
        {split: len(corpus.examples(split)) for split in ("train", "validation", "test")},
        lengths,
        (chosen.source_level, chosen.target_level),
        (rules.get("source", ("", ""))[1], rules.get("target", ("", ""))[1]),
    )


def _data(options: Mapping[str, Any]) -> config.Data:
    return config.experiment({n: v for n, v in options.items() if n.startswith("data.")}).data


def _rules(corpus: Corpus, data: config.Data) -> dict[str, tuple[str, str]]:
    """The level of each side for which none was given, and why."""
    some = list(itertools.islice(corpus.examples("train"), LOOKED_AT))
    sources = (example.source for example in some)
    texts = {
        "source": sources if data.sources == 1 else (parted(source)[0] for source in sources),
        "target": (example.target for example in some),
    }
    return {
        side: level_of(lines)
        for side, lines in texts.items()
        if getattr(data, f"{side}_level") == "auto"
    }


def level_of(lines: Iterable[str]) -> tuple[str, str]:
    """The level of tokens that suits some lines, and why.

    Single words and short lines are cut into characters, sequences of few different words are
    symbols, such as phones, and all else is sentences, which are cut into subwords.
    """
    lines = list(lines)
    words = [words_of(line) for line in lines]
    alone = sum(len(line) <= 1 for line in words) / len(words)
    if alone >= ALONE:
        return "character", f"{alone:.0%} of lines are one word (at least {ALONE:.0%})"
    uses = Counter(itertools.chain.from_iterable(words))
    if len(uses) <= FEW and uses.total() >= OFTEN * len(uses):
        return "symbol", (
            f"there are {len(uses)} different words, each used {uses.total() / len(uses):.0f} "
            f"times (at most {FEW}, at least {OFTEN} times)"
        )
    length, count = np.median(list(map(len, lines))), np.median(list(map(len, words)))
    most, many = SHORT
    if length < most and count < many:
        return "character", (
            f"the median line has {length:g} characters (below {most}), the median number of words "
            f"is {count:g} (below {many})"
        )
    return "subword", (
        f"the median line has {length:g} characters, the median number of words is {count:g}, and "
        f"there are {len(uses):,} different words"
    )
