"""The options of an experiment: frozen dataclasses, from which command-line flags are generated.

The dataclasses do not check their values: `config.experiment` makes one from options by name, and
checks them.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any

from attn_jax.attention.catalogue import (
    GATES,
    MIXING,
    NORMALIZERS,
    SCORES,
    SOURCES,
    VALUES,
    WINDOWS,
)
from attn_jax.attention.gates import Ungated
from attn_jax.attention.head_names import SEVERAL, Heads
from attn_jax.attention.mechanism import Mechanism
from attn_jax.attention.mixing import Apart
from attn_jax.attention.protocol import Gate, Mixing, Normalizer, Score, Values, Window
from attn_jax.attention.scores import Additive
from attn_jax.attention.sources import One as OneSource
from attn_jax.attention.sources import Sources
from attn_jax.attention.values import Annotations
from attn_jax.attention.windows import Full
from attn_jax.config import changes, value_text
from attn_jax.config.held_values import One, OneOrAuto, Several, held_option
from attn_jax.data.orders import ORDERS, Bucketed, Order
from attn_jax.settings.fields import Duration, duration, option, path
from attn_jax.settings.value import Value
from attn_jax.training.losses import LOSSES, Loss
from attn_jax.training.means import MEANS, Mean, Token
from attn_jax.training.optimizer import (
    OPTIMIZERS,
    SCHEDULES,
    Adam,
    Constant,
    Optimizer,
    Schedule,
)
from attn_jax.training.precision import PRECISIONS, Float32, Precision

LINKED_LEVELS = {"word", "symbol"}  # whose tokens are what links and gold alignments connect
# What text of an option may stand for.
TABLES: value_text.Tables = {
    **value_text.PARTS,
    Optimizer: OPTIMIZERS,
    Schedule: SCHEDULES,
    Heads: SEVERAL,
    Loss: LOSSES,
    Mean: MEANS,
    Precision: PRECISIONS,
    Order: ORDERS,
}


def value_option(default: Value | None, kind: type[Value], help: str) -> Any:
    """A field that holds a value; in text, None is `auto`."""
    held = (OneOrAuto if default is None else One)(kind, TABLES)
    return held_option(held, default, help)


@dataclass(frozen=True)
class Data:
    """Which sentence pairs to use, and how to split them into tokens."""

    name: str = option(
        "reverse",
        "copy, reverse, sort, dates, parallel (your own text), "
        "or a translation data set of TFDS such as ted_hrlr_translate/pt_to_en",
    )
    train: str = path(
        "parallel: prefix of PREFIX.<source> and PREFIX.<target>, or a TSV; plain or .gz, .bz2, "
        ".xz, .zst"
    )
    valid: str = path("parallel: the same for validation")
    test: str = path("parallel: the same for the final test; may be left out")
    links: str = path(
        "parallel, in words or symbols: links of the training pairs, each a line such as 0-0 2-1"
    )
    columns: str = option(
        "",
        "parallel, a TSV: columns of source, target and perhaps a second source, as in 1,2 or "
        "1,2,3; when empty, it has only two",
    )
    source: str = option("", "source side: file suffix (parallel) or language (TFDS)")
    target: str = option("", "target side: file suffix (parallel) or language (TFDS)")
    second_source: str = option(
        "", "second source, such as tags: file suffix (parallel, in files of a side each)"
    )
    source_level: str = option(
        "auto", "source tokens: word, character, symbol, subword, tag or auto"
    )
    target_level: str = option(
        "auto", "target tokens: word, character, symbol, subword, tag or auto"
    )
    second_level: str = option(
        "tag", "second source tokens: tag (cut at spaces and ;), word, character, symbol or subword"
    )
    words: int = option(0, "word level: how many of the most frequent are known; 0: all", low=0)
    min_count: int = option(2, "word level: occurrences in training that a known word needs", low=1)
    subwords: int = option(8000, "subword level: largest size of the vocabulary", low=8)
    character_coverage: float = option(
        1.0,
        "subword level: share of the training text's characters that must be known, 0.98 to 1",
        low=0.98,
        high=1,
    )
    vocabulary: str = option("separate", "separate for each side, or joint")
    bleu_tokenizer: str = option("13a", "sacrebleu's tokenisation: 13a, none, char, intl, zh, ...")
    examples: int = option(20000, "copy, reverse, sort, dates: training pairs", low=1)
    held_out: int = option(
        1000, "copy, reverse, sort, dates: pairs each for validation and test", low=1
    )
    shortest: int = option(5, "copy, reverse, sort: symbols in the shortest sequence", low=1)
    longest: int = option(20, "copy, reverse, sort: symbols in the longest sequence", low=1)
    symbols: int = option(26, "copy, reverse, sort: distinct symbols", low=1)
    seed: int = option(0, "copy, reverse, sort, dates: seed of the generated pairs", low=0)
    max_length: int = option(
        512, "longest sentence in tokens that is translated or evaluated", low=1
    )
    directory: str = path("where prepared data sets are kept; the user cache folder when empty")

    @property
    def sources(self) -> int:
        """The number of sources: 1 or 2."""
        return 2 if self.second_source or self.columns.count(",") == 2 else 1


@dataclass(frozen=True)
class Model:
    """The encoder-decoder. Capital letters stand for the sizes in type annotations."""

    encoder: str = option(
        "bidirectional",
        "bidirectional, unidirectional, backward (right to left), transformer, or your own",
    )
    cell: str = option(
        "gru",
        "recurrent cell: gru, gru_reset_first (the papers'), lstm, tanh, or your own module:class",
    )
    decoder: str = option(
        "bahdanau",
        "bahdanau: attends from s_{i-1}; luong: from the new state; luong_input_feeding: the same, "
        "and h̃ is fed into the next state; transformer: in each block; or your own",
    )
    first_state: str = option(
        "bridge",
        "first state of a recurrent decoder: bridge (tanh of a linear map of the encoder's "
        "summary), last (the encoder's own last states) or zero",
    )
    readout: str = option(
        "auto",
        "maxout (deep output), linear (straight to the vocabulary), or auto: the paper's; for hard "
        "attention in luong: marginal (the exact sum over positions), monotonic_hmm (a hidden "
        "Markov model that never goes back)",
    )
    score: Score = value_option(
        Additive(),
        Score,
        f"{', '.join(SCORES)}, or your own module:Class; without attention: "
        f"{', '.join(name for name, score in SCORES.items() if score.is_control)}. Settings in "
        "brackets, as in location_aware(width=5)",
    )
    window: Window = value_option(
        Full(), Window, f"{', '.join(WINDOWS)}, or your own; local_m(half_width=3)"
    )
    normalizer: Normalizer | None = value_option(
        None,
        Normalizer,
        f"{', '.join(NORMALIZERS)}, or your own; entmax(alpha=1.25). dropped(softmax,rate=0.1): "
        "with dropout of weights in training. auto: that of the score, usually softmax",
    )
    values: Values = value_option(
        Annotations(),
        Values,
        f"what is summed: {', '.join(VALUES)}, or your own. embeddings: the source word vectors, "
        "sum: annotations and word vectors, key_value: half of an annotation, whose other half is "
        "compared",
    )
    gate: Gate = value_option(
        Ungated(),
        Gate,
        f"gate on the context of each head: {', '.join(GATES)}, or your own. elementwise: a factor "
        "for each feature, computed from the decoder state; headwise: one factor for the head",
    )
    mixing: Mixing = value_option(
        Apart(),
        Mixing,
        f"mixing of heads: {', '.join(MIXING)}, or your own. talking_heads: linear maps of scores "
        "and of weights across heads",
    )
    sources: Sources = value_option(
        OneSource(),
        Sources,
        f"how the decoder attends to sources: {', '.join(SOURCES)}. All but one need data with a "
        "second source; settings give that source a mechanism of its own, as in "
        "hierarchical(score=dot,normalizer=sparsemax) or concatenated(score=dot)",
    )
    heads: int = option(1, "N, heads of queries", low=1)
    self_heads: int = option(0, "transformer: heads of self-attention; 0: N", low=0)
    key_value_heads: int = option(
        0, "cross-attention: heads of keys and values, shared by queries; 0: N", low=0
    )
    head_size: int = option(
        0, "H, cross-attention: features of a head; 0: those of the context over N", low=0
    )
    projection: str = option(
        "auto",
        "projection of queries and annotations for each head: linear, affine (with biases), none, "
        "or auto: none for one head of a recurrent decoder, else linear",
    )
    encoder_layers: int = option(1, "layers of a recurrent encoder, blocks of a transformer", low=1)
    decoder_layers: int = option(1, "layers of a recurrent decoder, blocks of a transformer", low=1)
    stack: str = option("plain", "recurrent layers above the first: plain, or residual (adding)")
    norm: str = option("post", "transformer: layer normalisation post or pre each part")
    positions: str = option("sinusoidal", "transformer: sinusoidal or rotary")
    embeddings: str = option(
        "separate",
        "separate, shared (source and target words), tied (target words and output layer) or "
        "three_way (all)",
    )
    embedding_size: int = option(128, "E, size of the word vectors", low=1)
    annotation_size: int = option(256, "D, size of an annotation, both directions together", low=2)
    hidden_size: int = option(256, "Q, units of the decoder state", low=1)
    readout_size: int = option(128, "maxout units before the output layer", low=1)
    feedforward_size: int = option(512, "transformer: hidden units of the feed-forward maps", low=1)
    initialization: str = option(
        "standard",
        "initial parameters: standard, rnnsearch or luong (as in their papers)",
    )
    dropout: float = option(0.0, "share of features dropped in training", low=0, high=0.95)
    dropout_kind: str = option(
        "ordinary", "ordinary (anew at each step) or variational (the same at all steps)"
    )

    @property
    def mechanism(self) -> Mechanism:
        """How each head of the decoder attends.

        Raises:
          InputError: score, window and normalizer do not fit together.
        """
        return Mechanism(
            self.score, self.window, self.normalizer, values=self.values, gate=self.gate
        )


@dataclass(frozen=True)
class Train:
    """How the parameters are trained."""

    steps: int = option(2000, "training steps in all", low=1)
    batch_size: int = option(64, "B, sentence pairs in a step", low=1)
    optimizer: Optimizer = value_option(
        Adam(),
        Optimizer,
        "adam, adadelta or sgd; with settings as in adam(beta2=0.98,epsilon=1e-9)",
    )
    learning_rate: float = option(
        0.0, "learning rate after warm-up; 0: the optimizer's default (adam 0.001, others 1)", low=0
    )
    warmup_steps: int = option(100, "steps over which the learning rate rises from zero", low=0)
    schedule: Schedule = value_option(
        Constant(),
        Schedule,
        "after warm-up: constant, inverse_sqrt or halving(after=5000,every=1000), in steps",
    )
    clip_norm: float = option(
        1.0, "gradients with a larger global norm are scaled down to it", low=1e-9
    )
    label_smoothing: float = option(
        0.0, "probability mass spread evenly over the vocabulary", low=0, high=0.9
    )
    losses: tuple[Loss, ...] = held_option(
        Several(Loss, TABLES),
        (),
        f"losses of the attention weights, added with +: {', '.join(LOSSES)}, or your own; "
        "diagonal(width=0.2,weight=1)+entropy(weight=0.01)",
    )
    scheduled_sampling: float = option(
        0.0,
        "final share of previous target words that the model has predicted itself",
        low=0,
        high=1,
    )
    sampling_steps: int = option(10000, "steps over which that share rises from zero", low=1)
    mean_over: Mean = value_option(
        Token(), Mean, "what the loss is a mean over: token, or sentence as in the older papers"
    )
    microbatches: int = option(
        1, "parts of a batch, computed one after the other (gradient accumulation)", low=1
    )
    compute: Precision = value_option(
        Float32(),
        Precision,
        "precision of matrix products: float32 (with the device's default: TF32 on a GPU, bfloat16 "
        "on a TPU) or bfloat16",
    )
    average: float = option(
        0.0,
        "decay of the moving average of the parameters, which replaces them in use; 0: off",
        low=0,
        high=0.99999,
    )
    order: Order = value_option(
        Bucketed(),
        Order,
        "how pairs of similar length come into a batch: bucketed, or sorted(batches=20), which "
        "sorts the pairs of 20 random batches",
    )
    max_length: int = option(100, "pairs with more tokens on one side are left out", low=1)
    buckets: int = option(
        6, "largest number of padded shapes of batches, each compiled once", low=1
    )
    valid_every: int = option(500, "steps between validations, each with a checkpoint", low=1)
    keep: int = option(
        2, "how many checkpoints of the last validations are kept, besides the best", low=1
    )
    save_every: Duration = duration(
        "10min",
        "time between checkpoints, besides those of validations: 90s, 1h; 0: none",
        low=0,
    )
    grace: Duration = duration(
        "30s", "time to save in, once SIGTERM or SIGINT has told the run to end", low=1
    )
    skip: int = option(
        10,
        "steps in a row that are left out, as their loss or gradient is not finite, before "
        "training ends with an error",
        low=0,
    )
    patience: int = option(0, "validations without a better metric before stopping; 0: off", low=0)
    metric: str = option(
        "auto",
        "validation metric that picks the best checkpoint: perplexity, token_accuracy, "
        "exact_match, bleu, chrf, word_error_rate, symbol_error_rate, or auto: as reports rank, by "
        "bleu for sentences, else by exact_match. Of equal values, the lower perplexity is better",
    )
    change: str = option(
        "",
        "from now on, or from a step on: learning_rate=1e-4, or optimizer=sgd,batch_size=32@1500; "
        "several are joined by ;. What may change: " + ", ".join(changes.CHANGEABLE),
    )
    initial: str = path("another run whose best parameters to start from, or one checkpoint in it")


@dataclass(frozen=True)
class Experiment:
    """Everything that determines what a run computes, and its label."""

    label: str = option("", "what tables call the system; what it differs in when empty")
    seed: int = option(0, "seed of parameters, dropout and the order of batches", low=0)
    data: Data = dataclasses.field(default_factory=Data)
    model: Model = dataclasses.field(default_factory=Model)
    train: Train = dataclasses.field(default_factory=Train)


# Options that say where data are stored, as opposed to what they are.
PLACES = tuple(f"data.{name}" for name in ("train", "valid", "test", "links", "directory"))

# Options that may change once a run has been trained: they do not change what was learnt.
MAY_CHANGE = {
    "label",
    *(f"train.{name}" for name in ("steps", "valid_every", "keep", "skip", "patience")),
    *(f"train.{name}" for name in ("save_every", "grace", "change")),
    *PLACES,
}
