"""From the options of training to what its steps need."""

from attn_jax.config import Train
from attn_jax.training.objective import Objective
from attn_jax.training.optimizer import make_optimizer
from attn_jax.training.step import Recipe


def recipe_of(config: Train) -> Recipe:
    """The recipe that the options describe."""
    return Recipe(
        loss=Objective(
            label_smoothing=config.label_smoothing,
            losses=config.losses,
            sampling=config.scheduled_sampling,
            sampling_steps=config.sampling_steps,
        ),
        optimizer=make_optimizer(
            config.optimizer,
            config.schedule,
            config.learning_rate,
            config.warmup_steps,
            config.clip_norm,
        ),
        average=config.average,
        mean=config.mean_over,
        microbatches=config.microbatches,
        precision=config.compute,
    )
