"""What a comparison tries by default: the systems, and sizes for the size of the data.

Where the sizes come from:

- under 2,000 and from 60,000 pairs: measured with 1,000 and 118,830 pairs (docs/comparing.md).
- 2,000 to 15,000 pairs: measured with 8,000, and the preset `g2p-french.flags`, 3,600 pairs.
- 15,000 to 60,000 pairs: the presets `multi30k*.flags`, 29,000 pairs.
"""

from typing import Any, NamedTuple

# The shortest useful list: systems are left out from its end. So the Transformer is last, whose
# steps take five times as long as those of the others. Of what moves from left to right, `gmm` was
# among the fastest, in steps and in seconds (docs/mechanisms.md).
SYSTEMS: tuple[dict[str, Any], ...] = (
    {"label": "no attention", "model.score": "last"},
    {"label": "additive", "model.score": "additive"},
    {"label": "general", "model.score": "general"},
    {"label": "scaled dot (4 heads)", "model.score": "scaled_dot", "model.heads": 4},
    {"label": "location-aware", "model.score": "location_aware"},
    {"label": "monotonic (gmm)", "model.score": "gmm"},
    {
        "label": "hard attention",
        "model.decoder": "luong",
        "model.readout": "marginal",
        "model.score": "general",
    },
    {
        "label": "Transformer",
        "model.encoder": "transformer",
        "model.decoder": "transformer",
        "model.score": "scaled_dot",
        "model.heads": 4,
        "model.encoder_layers": 3,
        "model.decoder_layers": 3,
        "model.norm": "pre",
    },
)

RATES, DROPOUTS = "train.learning_rate", "model.dropout"
STEPS, EVERY, WARMUP = "train.steps", "train.valid_every", "train.warmup_steps"
VALIDATIONS = 12  # of a run
LEAST_STEPS = 0.25  # of those that the data deserve: with fewer, systems have not learnt enough


class Sizes(NamedTuple):
    """What suits training text of at least so many pairs.

    Attributes:
      pairs: at least.
      options: of all systems.
      steps: of each run, at most.
      dropouts: to be tried, the most promising first.
    """

    pairs: int
    options: dict[str, Any]
    steps: int
    dropouts: tuple[float, ...]


def _options(embedding: int, hidden: int, batch: int, subwords: int) -> dict[str, Any]:
    return {
        "data.subwords": subwords,
        "model.embedding_size": embedding,
        "model.annotation_size": hidden,
        "model.hidden_size": hidden,
        "model.readout_size": hidden // 2,
        "model.feedforward_size": 4 * hidden,
        "train.batch_size": batch,
        "train.schedule": "inverse_sqrt",
        "train.buckets": 3,
        "train.patience": 4,
    }


TABLE = (
    Sizes(1, _options(64, 128, 32, 1000), 3000, (0.3, 0.5)),
    Sizes(2_000, _options(128, 256, 64, 4000), 4000, (0.3, 0.1)),
    Sizes(15_000, _options(256, 256, 64, 8000), 8000, (0.3, 0.1)),
    Sizes(60_000, _options(256, 256, 64, 8000), 12_000, (0.1, 0.3)),
)
LEARNING_RATES = (0.001, 0.002, 0.0005)  # to be tried, the most promising first


def sizes_for(pairs: int) -> Sizes:
    """The sizes for training text of some number of pairs."""
    return [sizes for sizes in TABLE if sizes.pairs <= max(pairs, 1)][-1]


def suited(sizes: Sizes) -> str:
    """The training text that sizes suit, in words."""
    smallest, larger, *_ = TABLE
    if sizes is smallest:
        return f"fewer than {larger.pairs:,} training pairs"
    return f"{sizes.pairs:,} training pairs and more"


def paced(steps: int) -> dict[str, int]:
    """The options that depend on the number of steps."""
    return {
        STEPS: steps,
        EVERY: max(1, steps // VALIDATIONS),
        WARMUP: min(500, steps // 10),
    }
