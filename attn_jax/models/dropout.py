"""Dropout as pure functions, with a mask drawn at each step or once for all steps of a sentence."""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from attn_jax.config import Model
from attn_jax.errors import choose
from attn_jax.models.randomness import split_stacked

OPTIONS = frozenset({"dropout", "dropout_kind"})  # that are used here


def dropped(
    features: Float[Array, "B ..."],
    rate: float,
    rng: Key[Array, " B"] | None,
    shape: tuple[int, ...],
) -> Float[Array, "B ..."]:
    """Zeroes each feature with probability `rate` and scales up the others to preserve the mean.

    Without `rng`, as outside training, returns the features unchanged.

    Args:
      rng: a random key for each row.
      shape: of the mask that is drawn for a row; it is broadcast to the shape of its features.
    """
    if rng is None or rate == 0:
        return features
    kept = jax.vmap(lambda row: jax.random.bernoulli(row, 1 - rate, shape))(rng)
    return jnp.where(kept, features / (1 - rate), 0)


@dataclasses.dataclass(frozen=True)
class Ordinary:
    """Drawn anew at each step, and not applied to recurrent states.

    Srivastava et al. 2014; for recurrent layers Zaremba, Sutskever and Vinyals 2014.
    """

    rate: float

    def __call__(
        self, features: Float[Array, "B *T F"], rng: Key[Array, " B"] | None
    ) -> Float[Array, "B *T F"]:
        """The features, of one step or of all steps, with dropout."""
        return dropped(features, self.rate, rng, features.shape[1:])

    def steps(
        self, rng: Key[Array, " B"] | None, count: int, layers: int
    ) -> Key[Array, "count B"] | None:
        """Random keys for each of `count` steps of stacked layers; None if none is used."""
        if rng is None or self.rate == 0 or layers == 1:
            return None
        return split_stacked(rng, count)

    def recurrent(
        self, hidden: Float[Array, "B H"], rng: Key[Array, " B"] | None
    ) -> Float[Array, "B H"]:
        """The previous hidden state as the recurrent product reads it: without dropout."""
        return hidden


class Variational(Ordinary):
    """Drawn once for all steps of a sentence, and applied to recurrent states too.

    Gal and Ghahramani 2016, section 4.
    """

    def __call__(
        self, features: Float[Array, "B *T F"], rng: Key[Array, " B"] | None
    ) -> Float[Array, "B *T F"]:
        """The features, of one step or of all steps, with dropout."""
        _, *steps, size = features.shape
        return dropped(features, self.rate, rng, (*[1] * len(steps), size))

    def steps(
        self, rng: Key[Array, " B"] | None, count: int, layers: int
    ) -> Key[Array, "count B"] | None:
        """The same random keys for each of `count` steps; None if none is used."""
        if rng is None or self.rate == 0:
            return None
        return jnp.broadcast_to(rng, (count, *rng.shape))

    def recurrent(
        self, hidden: Float[Array, "B H"], rng: Key[Array, " B"] | None
    ) -> Float[Array, "B H"]:
        """The previous hidden state as the recurrent product reads it: with dropout."""
        return dropped(hidden, self.rate, rng, hidden.shape[1:])


DROPOUTS: dict[str, type[Ordinary]] = {"ordinary": Ordinary, "variational": Variational}


def make_dropout(config: Model) -> Ordinary:
    """The dropout selected by the options."""
    return choose(DROPOUTS, config.dropout_kind, "kind of dropout")(config.dropout)
