"""The options of training."""

from dataclasses import dataclass

from attn_jax.recipe.loss import Loss, Tokens, Unit
from attn_jax.recipe.losses import LOSSES
from attn_jax.recipe.optimizer import Adam, Constant, Optimizer, Schedule
from attn_jax.recipe.orders import Bucketed, Order
from attn_jax.recipe.precision import Float32, Precision
from attn_jax.settings.fields import Duration, option, path


@dataclass(frozen=True)
class Train:
    """How the parameters are trained."""

    steps: int = option(2000, "training steps in all", low=1)
    batch_size: int = option(64, "B, sentence pairs in a step", low=1)
    optimizer: Optimizer = option(
        Adam(),
        "adam, adadelta or sgd; with settings as in adam(beta2=0.98,epsilon=1e-9)",
    )
    learning_rate: float = option(
        0.0, "learning rate after warm-up; 0: the optimizer's default (adam 0.001, others 1)", low=0
    )
    warmup_steps: int = option(100, "steps over which the learning rate rises from zero", low=0)
    schedule: Schedule = option(
        Constant(),
        "after warm-up, in steps: constant, inverse_sqrt, halving(after=5000,every=1000), or "
        "linear(until=5000), down to 0",
    )
    clip_norm: float = option(
        1.0, "gradients with a larger global norm are scaled down to it", low=1e-9
    )
    label_smoothing: float = option(
        0.0, "probability mass spread evenly over the vocabulary", low=0, high=0.9
    )
    losses: tuple[Loss, ...] = option(
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
    mean_over: Unit = option(
        Tokens(), "what the loss is a mean over: token, or sentence as in the older papers"
    )
    microbatches: int = option(
        1, "parts of a batch, computed one after the other (gradient accumulation)", low=1
    )
    compute: Precision = option(
        Float32(),
        "precision of matrix products: float32 (with the device's default: TF32 on a GPU, bfloat16 "
        "on a TPU) or bfloat16",
    )
    average: float = option(
        0.0,
        "decay of the moving average of the parameters, which replaces them in use; 0: off",
        low=0,
        high=0.99999,
    )
    order: Order = option(
        Bucketed(),
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
    save_every: Duration = option(
        Duration("10min"),
        "time between checkpoints, besides those of validations: 90s, 1h; 0: none",
        low=0,
    )
    grace: Duration = option(
        Duration("30s"), "time to save in, once SIGTERM or SIGINT has told the run to end", low=1
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
    initial: str = path("another run whose best parameters to start from, or one checkpoint in it")
