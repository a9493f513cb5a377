"""Dropout as pure functions: drawn at each step, or once for all steps of a sentence."""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from attn_jax.config import Model
from attn_jax.errors import choose


def split(rng: Array | None, count: int) -> list[Array | None]:
    """So many keys of one, or none of none."""
    return [None] * count if rng is None else list(jax.random.split(rng, count))


def dropped(
    features: Float[Array, "..."], rate: float, rng: Array | None, shape: tuple[int, ...]
) -> Float[Array, "..."]:
    """Zeroes a share `rate` of the features and scales the others up, so that means stay.

    Without `rng`, as at use, the features come back as they are.

    Args:
      shape: of what is drawn, which is broadcast to that of the features.
    """
    if rng is None or rate == 0:
        return features
    kept = jax.random.bernoulli(rng, 1 - rate, shape)
    return jnp.where(kept, features / (1 - rate), 0)


@dataclasses.dataclass(frozen=True)
class Ordinary:
    """Drawn anew for each step, on what goes from layer to layer.

    Srivastava et al. 2014; for recurrent layers Zaremba, Sutskever and Vinyals 2014.
    """

    rate: float

    def __call__(
        self, features: Float[Array, "B *T F"], rng: Array | None
    ) -> Float[Array, "B *T F"]:
        """The features, of one step or of all, less those that are dropped."""
        return dropped(features, self.rate, rng, features.shape)

    def steps(self, rng: Array | None, count: int) -> Array | None:
        """A random key for each of so many steps."""
        return None if rng is None else jax.random.split(rng, count)

    def recurrent(self, hidden: Float[Array, "B H"], rng: Array | None) -> Float[Array, "B H"]:
        """What a recurrent product sees of the state before it: all."""
        return hidden


class Variational(Ordinary):
    """Drawn once for all steps of a sentence, on the recurrent state too.

    Gal and Ghahramani 2016, section 4.
    """

    def __call__(
        self, features: Float[Array, "B *T F"], rng: Array | None
    ) -> Float[Array, "B *T F"]:
        """The features, of one step or of all, less those that are dropped."""
        rows, *steps, size = features.shape
        return dropped(features, self.rate, rng, (rows, *[1] * len(steps), size))

    def steps(self, rng: Array | None, count: int) -> Array | None:
        """The same random key for each of so many steps."""
        return None if rng is None else jnp.broadcast_to(rng, (count, *rng.shape))

    def recurrent(self, hidden: Float[Array, "B H"], rng: Array | None) -> Float[Array, "B H"]:
        """What a recurrent product sees of the state before it."""
        return dropped(hidden, self.rate, rng, hidden.shape)


DROPOUTS: dict[str, type[Ordinary]] = {"ordinary": Ordinary, "variational": Variational}


def make_dropout(config: Model) -> Ordinary:
    """The dropout that the options ask for."""
    return choose(DROPOUTS, config.dropout_kind, "kind of dropout")(config.dropout)
