"""Dropout as pure functions, with a mask drawn at each step or once for all steps of a sentence."""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from attn_jax.config import Model
from attn_jax.errors import choose


def split(rng: Array | None, count: int) -> list[Array | None]:
    """Splits a random key into `count` keys; without a key, returns None `count` times."""
    return [None] * count if rng is None else list(jax.random.split(rng, count))


def dropped(
    features: Float[Array, "..."], rate: float, rng: Array | None, shape: tuple[int, ...]
) -> Float[Array, "..."]:
    """Zeroes each feature with probability `rate` and scales up the others to preserve the mean.

    Without `rng`, as outside training, returns the features unchanged.

    Args:
      shape: of the mask that is drawn; it is broadcast to the shape of the features.
    """
    if rng is None or rate == 0:
        return features
    kept = jax.random.bernoulli(rng, 1 - rate, shape)
    return jnp.where(kept, features / (1 - rate), 0)


@dataclasses.dataclass(frozen=True)
class Ordinary:
    """Drawn anew at each step, and not applied to recurrent states.

    Srivastava et al. 2014; for recurrent layers Zaremba, Sutskever and Vinyals 2014.
    """

    rate: float

    def __call__(
        self, features: Float[Array, "B *T F"], rng: Array | None
    ) -> Float[Array, "B *T F"]:
        """The features, of one step or of all steps, with dropout."""
        return dropped(features, self.rate, rng, features.shape)

    def steps(self, rng: Array | None, count: int, layers: int) -> Array | None:
        """A random key for each of `count` steps of stacked layers; None if none is used."""
        if rng is None or self.rate == 0 or layers == 1:
            return None
        return jax.random.split(rng, count)

    def recurrent(self, hidden: Float[Array, "B H"], rng: Array | None) -> Float[Array, "B H"]:
        """The previous hidden state as the recurrent product reads it: without dropout."""
        return hidden


class Variational(Ordinary):
    """Drawn once for all steps of a sentence, and applied to recurrent states too.

    Gal and Ghahramani 2016, section 4.
    """

    def __call__(
        self, features: Float[Array, "B *T F"], rng: Array | None
    ) -> Float[Array, "B *T F"]:
        """The features, of one step or of all steps, with dropout."""
        rows, *steps, size = features.shape
        return dropped(features, self.rate, rng, (rows, *[1] * len(steps), size))

    def steps(self, rng: Array | None, count: int, layers: int) -> Array | None:
        """The same random key for each of `count` steps; None if none is used."""
        if rng is None or self.rate == 0:
            return None
        return jnp.broadcast_to(rng, (count, *rng.shape))

    def recurrent(self, hidden: Float[Array, "B H"], rng: Array | None) -> Float[Array, "B H"]:
        """The previous hidden state as the recurrent product reads it: with dropout."""
        return dropped(hidden, self.rate, rng, hidden.shape)


DROPOUTS: dict[str, type[Ordinary]] = {"ordinary": Ordinary, "variational": Variational}


def make_dropout(config: Model) -> Ordinary:
    """The dropout selected by the options."""
    return choose(DROPOUTS, config.dropout_kind, "kind of dropout")(config.dropout)
