"""Sources: what a decoder attends to besides the first source, such as the tags of a lemma.

Flat attention is one mechanism over the annotations of both sources. Otherwise each source has a
mechanism of its own, and these classes say what becomes of the two contexts.
"""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from attn_jax.attention.normalizers import Softmax
from attn_jax.attention.protocol import Normalizer, Part, Score, scaled_normal, widen
from attn_jax.attention.scores import Additive
from attn_jax.settings.value import setting


class Sources(Part):
    """How many sources there are, and how a decoder attends to them."""

    name = "way to attend to sources"  # for error messages
    count: ClassVar[int] = 2


class One(Sources):
    """There is one source.

    Paper: Bahdanau, Cho and Bengio 2014, section 3.1.
    Cost: none.
    """

    count = 1


class Flat(Sources):
    """One mechanism over both sources, which compares U_aᵏ hᵏ_j with a query, and sums U_cᵏ hᵏ_j.

    Each source k has its own U_aᵏ and U_cᵏ, which map to the size of annotations. An additive score
    has a further U, of both sources, to its hidden units: U U_aᵏ stands for the paper's U_aᵏ. The
    paper also tries U_aᵏ = U_cᵏ.

    Paper: Libovický and Helcl 2017, section 3.1.
    Cost: time S D², memory S D.
    """


class Combined(Sources):
    """Each source has a mechanism of its own: the first that of the model, the second this one.

    Attributes:
      score: how well annotations of the second source match a query.
      normalizer: from these scores to weights.
    """

    score: Score = Additive()
    normalizer: Normalizer = Softmax()

    def size(self, first: int, second: int) -> int:
        """The features of a combined context, unless the decoder asks for others."""
        raise NotImplementedError

    def init(self, rng: Array, Q: int, C1: int, C2: int, O: int) -> Any:  # noqa: E741
        """The first parameters.

        Args:
          rng: a random key.
          Q: features of a decoder state.
          C1, C2: features of the context of each source.
          O: features of the combined context.
        """
        raise NotImplementedError

    def combined(
        self,
        p: Any,
        state: Float[Array, " Q"],
        first: Float[Array, " C1"],
        second: Float[Array, " C2"],
    ) -> tuple[Float[Array, " O"], Float[Array, "2"]]:
        """The combined context, and what the weights of each source are multiplied with in it."""
        raise NotImplementedError


class Concatenated(Combined):
    """c = [c¹; c²]; for a decoder that wants O features, W [c¹; c²].

    Paper: Zoph and Knight 2016, the multi-source attention.
    Cost: none, or time T C O.
    """

    def size(self, first: int, second: int) -> int:
        return first + second

    def init(self, rng: Array, Q: int, C1: int, C2: int, O: int) -> dict[str, Array]:  # noqa: E741
        return {} if O == C1 + C2 else {"W": scaled_normal(rng, (C1 + C2, O))}

    def combined(
        self,
        p: Any,
        state: Float[Array, " Q"],
        first: Float[Array, " C1"],
        second: Float[Array, " C2"],
    ) -> tuple[Float[Array, " O"], Float[Array, "2"]]:
        both = jnp.concatenate([first, second])
        return (both @ p["W"] if p else both), jnp.ones(2, both.dtype)


class Hierarchical(Combined):
    """c = Σ_k β_k V_k cᵏ, β = softmax_k(v · tanh(W s + U_k cᵏ)): attention to the two contexts.

    Attributes:
      units: A, hidden units of the score of a context.

    Paper: Libovický and Helcl 2017, section 3.2; V is their U_c.
    Cost: time T (Q A + C A + C O), memory T A.
    """

    units: int = setting(256, low=1)

    def size(self, first: int, second: int) -> int:
        return first

    def init(self, rng: Array, Q: int, C1: int, C2: int, O: int) -> dict[str, Array]:  # noqa: E741
        shapes = {
            "W": (Q, self.units),
            "U1": (C1, self.units),
            "U2": (C2, self.units),
            "v": (self.units,),
            "V1": (C1, O),
            "V2": (C2, O),
        }
        rngs = jax.random.split(rng, len(shapes))
        return {
            name: scaled_normal(one, shape)
            for one, (name, shape) in zip(rngs, shapes.items(), strict=True)
        }

    def combined(
        self,
        p: Any,
        state: Float[Array, " Q"],
        first: Float[Array, " C1"],
        second: Float[Array, " C2"],
    ) -> tuple[Float[Array, " O"], Float[Array, "2"]]:
        of_state = state @ p["W"]
        scores = [
            jnp.tanh(of_state + first @ p["U1"]) @ p["v"],
            jnp.tanh(of_state + second @ p["U2"]) @ p["v"],
        ]
        shares = jax.nn.softmax(widen(jnp.stack(scores))).astype(first.dtype)
        context = shares[0] * (first @ p["V1"]) + shares[1] * (second @ p["V2"])
        return context, shares


class Gated(Combined):
    """c = c¹ + tanh(g) c², g = 0 at first: the second source has no share until g is learned.

    The weights of the second source are shown times |tanh(g)|.

    In the paper, a layer with such a gate stands before the self-attention of each block of a
    trained decoder, of which nothing else is trained, followed by a feed-forward map with a gate
    of its own. Here, both contexts are of one query, where the decoder has its cross-attention.
    There is no feed-forward map, and everything is trained from the start. The first state of a
    recurrent decoder reads both sources, unless `model.first_state` is `zero`. Both contexts have
    the same features in all decoders.

    Paper: Rouditchenko et al. 2024, section 2, after Alayrac et al. 2022, section 2.2.
    Cost: time T C, memory T C.
    """

    def size(self, first: int, second: int) -> int:
        return first

    def init(self, rng: Array, Q: int, C1: int, C2: int, O: int) -> dict[str, Array]:  # noqa: E741
        return {"g": jnp.zeros(())}

    def combined(
        self,
        p: Any,
        state: Float[Array, " Q"],
        first: Float[Array, " C1"],
        second: Float[Array, " C2"],
    ) -> tuple[Float[Array, " O"], Float[Array, "2"]]:
        gate = jnp.tanh(p["g"]).astype(first.dtype)
        return first + gate * second, jnp.stack([jnp.ones_like(gate), jnp.abs(gate)])
