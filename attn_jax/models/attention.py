"""The attention of a decoder: a mechanism, its parameters and its heads, over a batch."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Key

from attn_jax.attention import steps
from attn_jax.attention.catalogue import Mechanism, mechanism
from attn_jax.attention.parts import Memory, Part, name_of
from attn_jax.attention.scores import stacked
from attn_jax.config import Model
from attn_jax.errors import InputError
from attn_jax.models.heads import Heads, Unprojected, make_projections
from attn_jax.models.mixture import mixture


class Projected(NamedTuple):
    """The keys and values of a batch of annotations, computed once per sentence.

    Each of K heads of keys and values is shared by G heads of queries.
    """

    # For each score [B, K, S, A], or [B, K, G, S, A] if the score computes keys.
    keys: tuple[Float[Array, "B K ..."], ...]
    values: Float[Array, "B K S H"]


def scaled_normal(rng: Array, heads: tuple[int, ...], shape: tuple[int, ...]) -> Array:
    """Samples [*heads, *shape] of N(0, 1 / n), n the first size of `shape`."""
    inputs = shape[0] if shape else 1
    return jax.random.normal(rng, (*heads, *shape), jnp.float32) * inputs**-0.5


def draw(part: Part, projections: Unprojected | Heads, rngs: nnx.Rngs) -> Mapping[str, nnx.Param]:
    """The initial parameters of a part, [K, G, ...], separate for each head.

    Raises:
      InputError: the part names a parameter that its shapes do not list, or its shapes list one
        that it does not name.
    """
    heads = projections.key_value_heads, projections.groups
    shapes = part.shapes(projections.sizes)
    unlisted = [name for name in part.required if name not in shapes]
    if unlisted:
        raise InputError(
            f"{name_of(part.function)} names {', '.join(unlisted)}, which its shapes do not list: "
            "decorate it with attn_jax.part(shapes=...)"
        )
    untaken = [name for name in shapes if name not in part.taken]
    if untaken:
        raise InputError(
            f"the shapes of {name_of(part.function)} list {', '.join(untaken)}, which it does not "
            "name after a *"
        )
    return nnx.Dict(
        {
            name: nnx.Param(
                jnp.full((*heads, *shape), part.traits.initial[name], jnp.float32)
                if name in part.traits.initial
                else scaled_normal(rngs.params(), heads, shape)
            )
            for name, shape in shapes.items()
        }
    )


class Attention(nnx.Module):
    """Any mechanism, with any number of heads, over a batch.

    With an `rng`, a random key for each sentence, it computes what the mechanism does in training;
    without, what it does in decoding.

    Args:
      config: the mechanism and its heads.
      query_size: Q.
      annotation_size: D.
      output_size: O, features of the context; must be D if there are no projections.
      projection: what `--model.projection=auto` stands for unless the options ask for heads.

    Raises:
      InputError: an option is unknown, or options cannot be combined.
    """

    def __init__(
        self,
        config: Model,
        query_size: int,
        annotation_size: int,
        output_size: int,
        *,
        projection: str,
        rngs: nnx.Rngs,
    ):
        self.mechanism = mechanism(config.score, config.window, config.normalizer)
        # A separate key, so that all other parameters start the same under every mechanism.
        rngs = nnx.Rngs(rngs.params())
        self.projections = make_projections(
            config, query_size, annotation_size, output_size, projection, rngs=rngs
        )
        score, window, normalizer = self.mechanism
        self.scores = nnx.List(
            [draw(score, self.projections, rngs) for _ in range(normalizer.traits.score_count)]
        )
        self.window = draw(window, self.projections, rngs)
        self.normalizer = draw(normalizer, self.projections, rngs)

    def check_scores(self) -> None:
        """Raises InputError if a normalizer of several scores would get one and the same."""
        score, _, normalizer = self.mechanism
        if len(self.scores) > 1 and not jax.tree.leaves(self.scores):
            raise InputError(
                f"the normalizer {name_of(normalizer.function)} takes {len(self.scores)} scores, "
                f"which would be the same, since {name_of(score.function)} has no parameters: take "
                "a score that has some, such as general or additive"
            )

    def project(self, annotations: Float[Array, "B S D"]) -> Projected:
        """The keys and values of the annotations."""
        keys, values = self.projections.source(annotations)
        score = self.mechanism.score
        if not score.makes_keys:
            return Projected((keys,) * len(self.scores), values)
        over = self._over_heads(score.keys, len(keys), (None, 0), (0, 0), (0, None))
        return Projected(
            tuple(over(keys, _arrays(parameters)) for parameters in self.scores), values
        )

    def begin(self, mask: Bool[Array, "B S"]) -> Memory | None:
        """The memory before the first query, [B, K, G, ...]; None if the mechanism needs none."""

        def head(parameters: list, mask: Array) -> Memory | None:
            return steps.begin(_bound(self.mechanism, parameters), mask)

        over = self._over_heads(head, len(mask), (0, None), (0, None), (None, 0))
        return over(self._parameters(), mask)

    def step(
        self,
        memory: Memory | None,
        query: Float[Array, "B Q"],
        projected: Projected,
        mask: Bool[Array, "B S"],
        rng: Key[Array, " B"] | None = None,
    ) -> tuple[Memory | None, Float[Array, "B O"], Float[Array, "B N S"]]:
        """The new memory, the context and the weights of one query per sentence."""
        queries = self.projections.query(query)
        memory, weights = self._weigh(steps.weigh, memory, queries, projected.keys, mask, rng)
        contexts = mixture(weights, projected.values)
        rows, *_, length = weights.shape
        return memory, self.projections.combine(contexts), weights.reshape(rows, -1, length)

    def __call__(
        self,
        queries: Float[Array, "B T Q"],
        projected: Projected,
        mask: Bool[Array, "B S"],
        rng: Key[Array, " B"] | None = None,
    ) -> tuple[Float[Array, "B T O"], Float[Array, "B N T S"]]:
        """The contexts and the weights of T queries, computed in parallel where possible."""

        def weigh_all(parts: Mechanism, _: None, *inputs: Any) -> Float[Array, "T S"]:
            return steps.weigh_all(parts, *inputs)

        queries = jnp.moveaxis(self.projections.query(queries), 1, 3)
        weights = self._weigh(weigh_all, None, queries, projected.keys, mask, rng)
        values = projected.values
        contexts = jnp.einsum("BKGTS,BKSH->BTKGH", weights.astype(values.dtype), values)
        rows, *_, length, source_length = weights.shape
        return self.projections.combine(contexts), weights.reshape(rows, -1, length, source_length)

    def _over_heads(self, head: Callable, rows: int, *axes: tuple[int | None, ...]) -> Callable:
        """Vectorises a function of one head and one sentence.

        Args:
          head: the function.
          rows: B.
          *axes: the `in_axes` of `jax.vmap` over G query heads, over K heads of keys and values and
            over B sentences.
        """
        sizes = self.projections.groups, self.projections.key_value_heads, rows
        for in_axes, size in zip(axes, sizes, strict=True):
            head = jax.vmap(head, in_axes=in_axes, axis_size=size)
        return head

    def _parameters(self) -> list[dict[str, Array]]:
        return [_arrays(group) for group in (self.window, self.normalizer, *self.scores)]

    def _weigh(
        self,
        weigh: Callable,
        memory: Memory | None,
        queries: Float[Array, "B K G *T Q"],
        keys: tuple[Float[Array, "B K ..."], ...],
        mask: Bool[Array, "B S"],
        rng: Key[Array, " B"] | None,
    ) -> Any:
        """Applies a function of one head in one sentence to all heads and sentences."""
        parts = self.mechanism.decoding if rng is None else self.mechanism
        rngs = None
        if rng is not None:  # a key for each sentence and head
            heads = queries.shape[1:3]
            rngs = jax.vmap(lambda row: jax.random.split(row, heads))(rng)

        def head(parameters, memory, queries, keys, mask, rng):
            keys = keys if len(self.scores) > 1 else keys[0]
            return weigh(_bound(parts, parameters), memory, queries, keys, mask, rng)

        over_groups = 0 if self.mechanism.score.makes_keys else None
        over = self._over_heads(
            head,
            len(mask),
            # parameters, memory, queries, keys, mask, rng
            (0, 0, 0, over_groups, None, 0),  # over query heads
            (0, 0, 0, 0, None, 0),  # over heads of keys and values
            (None, 0, 0, 0, 0, 0),  # over sentences
        )
        return over(self._parameters(), memory, queries, keys, mask, rngs)


def _arrays(parameters: Mapping[str, nnx.Param]) -> dict[str, Array]:
    return {name: parameter[...] for name, parameter in parameters.items()}


def _bound(parts: Mechanism, parameters: list[dict[str, Array]]) -> Mechanism:
    """The mechanism, bound to the parameters of one head."""
    window, normalizer, *scores = parameters
    bound = [parts.score.bound(parameters) for parameters in scores]
    return Mechanism(
        Part(bound[0] if len(bound) == 1 else stacked(bound)),
        Part(parts.window.bound(window)),
        Part(parts.normalizer.bound(normalizer)),
    )
