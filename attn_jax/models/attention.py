"""The attention of a decoder: a mechanism, its parameters and its heads, over a batch."""

from functools import partial

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from attn_jax.attention import steps
from attn_jax.attention.compositions import Pair
from attn_jax.attention.mixing import Apart
from attn_jax.attention.steps import Attended, Memory, Now, Weighed
from attn_jax.config import Model
from attn_jax.errors import InputError
from attn_jax.kernels.forms import FAST
from attn_jax.models import heads
from attn_jax.models.heads import Sizes, Unprojected, make_projections
from attn_jax.models.protocols import Encoded

# That are used here.
OPTIONS = heads.OPTIONS | {"score", "window", "normalizer", "values", "gate", "mixing"}


class Attention(nnx.Module):
    """Any mechanism, with any number of heads, over a batch.

    With an `rng`, a random key for each row, it computes what the mechanism does in training;
    without, what it does in use.

    Args:
      config: the mechanism and its heads.
      query_size: Q.
      annotation_size: D.
      output_size: O, features of the context, which without projections are those of a value; None:
        those of a value.
      projection: what `model.projection=auto` stands for unless the options ask for heads.
      layer: of the decoder, from 0.

    Raises:
      InputError: options cannot be combined.
    """

    forms = FAST

    def __init__(
        self,
        config: Model,
        query_size: int,
        annotation_size: int,
        output_size: int | None = None,
        *,
        projection: str,
        layer: int = 0,
        rngs: nnx.Rngs,
    ):
        self.mechanism, self.layer = config.mechanism, layer
        # A separate key, so that all other parameters start the same under every mechanism.
        rngs = nnx.Rngs(rngs.params())
        of_annotation = annotation_size, config.embedding_size
        sizes = Sizes(query_size, *self.mechanism.values.sizes(*of_annotation))
        self.size = output_size or sizes.C
        self.projections = make_projections(config, sizes, self.size, projection, rngs=rngs)
        heads = jax.random.split(rngs.params(), self.projections.shape)  # each has parameters

        def head(rng: Array) -> PyTree:
            return self.mechanism.init_head(rng, query_size, *self.projections.sizes)

        self.parameters = nnx.Param(widened(jax.vmap(jax.vmap(head))(heads)))  # [K, G, ...]
        self.mixing = config.mixing
        count = self.projections.shape[0] * self.projections.shape[1]
        _check_mixing(config, count)
        # Parameters of all heads together.
        first = {
            "values": self.mechanism.values.init(rngs.params(), *of_annotation),
            "mixing": self.mixing.init(rngs.params(), count),
        }
        self.shared = nnx.Param(widened(first))
        # A leaf of the model only where it is read; training sets it after each step.
        reads = "train_step" in self.mechanism.carried
        self.train_step = nnx.Variable(jnp.zeros((), jnp.float32)) if reads else None

    def check_scores(self) -> None:
        """Raises InputError if a normalizer of two scores would get one and the same."""
        score, normalizer = self.mechanism.score, self.mechanism.normalizer
        without = not jax.tree.leaves(self._p["score"])
        if isinstance(score, Pair) and score.first == score.second and without:
            word = score.first.word
            raise InputError(
                f"the normalizer {normalizer.word} takes two scores, which would be the same, "
                f"since {word} has no parameters: take a score that has some, such as general, "
                f"additive or projected({word})"
            )

    def project(self, encoded: Encoded) -> Attended:
        """The keys and values of one source, or of two in one row."""
        parts, p = self.mechanism.values, self._p["values"]
        vectors, annotations, mask, _, seen = encoded
        seen = annotations if seen is None else seen
        compared = jax.vmap(partial(parts.compared, p))(seen)
        values = jax.vmap(partial(parts.values, p))(annotations, vectors, mask)
        keys, values = self.projections.keys_and_values(compared, values)
        if self.mechanism.makes_keys:
            _, groups = self.projections.shape
            over = jax.vmap(self.mechanism.score.keys, (0, None), axis_size=groups)
            over = jax.vmap(jax.vmap(over), (None, 0))
            keys = over(self._p["score"], keys)
        return Attended(keys, values)

    def begin(self, mask: Bool[Array, "B S"]) -> Memory:
        """The memory before the first query."""
        step = self.train_step
        # Training gives it no gradient.
        done = jnp.zeros(()) if step is None else jax.lax.stop_gradient(step[...])
        shape, size = self.projections.shape, self.projections.sizes.C
        return steps.begin(self.mechanism, self._p, mask, shape, size, done, self.layer)

    @property
    def sizes(self) -> tuple[int]:
        """The features of a context, of the only source."""
        return (self.size,)

    @property
    def sums_values(self) -> bool:
        """Whether contexts are the sums of values, which no head or part has a use for as such."""
        without_heads = isinstance(self.projections, Unprojected)
        return without_heads and not self.mechanism.reads_contexts

    def alone(self, attended: Attended) -> Float[Array, "B S O"]:
        """The contexts if all weight is on one position, for each position. It has one head."""
        values = jnp.swapaxes(attended.values, 1, 2)  # [B, S, 1, C]
        return self.projections.combine(values[..., None, :])

    def value_sizes(self, attended: Attended) -> Float[Array, "B N S"]:
        """The length of what each position adds to the context of a head at a weight of 1.

        Before a gate. Kobayashi, Kuribayashi, Yokoi and Inui 2020, section 2.2: ‖f(x)‖.
        """
        keys, groups = self.projections.shape
        # Contexts [n, ...] in which only head n is not 0: `combine` then gives what it adds.
        only = jnp.eye(keys * groups).reshape(-1, keys, groups)
        contexts = jnp.einsum("nKG,BKSC->nBSKGC", only, attended.values)
        nothing = self.projections.combine(jnp.zeros_like(contexts[:1]))  # what biases add
        alone = self.projections.combine(contexts) - nothing
        return jnp.moveaxis(jnp.linalg.norm(alone, axis=-1), 0, 1)

    def step(
        self,
        memory: Memory,
        query: Float[Array, "B Q"],
        attended: Attended,
        mask: Bool[Array, "B S"],
        rng: Key[Array, " B"] | None = None,
    ) -> tuple[Memory, Float[Array, "B O"], Float[Array, "B N S"]]:
        """The new memory, the context and the weights of one query per sentence."""
        m, p, now = self.mechanism, self._p, Now(memory, mask, self._by_head(rng))
        queries = steps.make_queries(m, p, self.projections.query(query))
        memory, weights = steps.weigh(m, self.mixing, p, attended, queries, now)
        given = m, p, weights, attended.values, now.rng, self.forms.mixture
        contexts, weights = steps.add_up(*given)
        memory = steps.remember(memory, weights, contexts)
        context = self.projections.combine(steps.gate(m, p, query, contexts))
        stops = None if rng is None else steps.stops(m, memory)
        return memory, context, _shown(weights, stops)

    def __call__(
        self,
        queries: Float[Array, "B T Q"],
        attended: Attended,
        mask: Bool[Array, "B S"],
        rng: Key[Array, " B"] | None = None,
    ) -> tuple[Float[Array, "B T O"], Float[Array, "B N T S"]]:
        """The contexts and the weights of T queries, computed in parallel where possible."""
        m, p = self.mechanism, self._p
        now = Now(self.begin(mask), mask, self._by_head(rng, queries.shape[1]))
        made = steps.make_queries(m, p, jnp.moveaxis(self.projections.query(queries), 1, 3))
        weights, stops = steps.weigh_all(m, self.mixing, p, attended, made, now)
        contexts, weights = steps.add_up(m, p, weights, attended.values, now.rng)
        shown = _shown(weights, None if rng is None else stops)
        return self.projections.combine(steps.gate(m, p, queries, contexts)), shown

    @property
    def _p(self) -> PyTree:
        """The parameters by part, leaves [K, G, ...], but for those that all heads share."""
        return self.parameters.get_value() | self.shared.get_value()

    def _by_head(self, rng: Key[Array, " B"] | None, *steps: int) -> Key[Array, "B K G *T"] | None:
        """A key for each head of each row, and for each step if their number is given."""
        shape = *self.projections.shape, *steps
        return None if rng is None else jax.vmap(lambda row: jax.random.split(row, shape))(rng)


def _in_row(weights: Float[Array, "B K G *T S"]) -> Float[Array, "B N *T S"]:
    """The weights of all heads in one row."""
    return weights.reshape(len(weights), -1, *weights.shape[3:])


def _shown(weights: Array, stops: Array | None) -> PyTree:
    """What decoders pass on: weights, in training with where reading stops if that is another."""
    return _in_row(weights) if stops is None else Weighed(_in_row(weights), _in_row(stops))


def _check_mixing(config: Model, heads: int) -> None:
    """Raises InputError if there is nothing to mix, or nothing that may be mixed."""
    if config.mixing == Apart():
        return
    told = f"model.mixing={config.mixing.brief()}"
    if heads == 1:
        raise InputError(f"{told} mixes heads, and there is one: give model.heads")
    if config.score.is_control:
        raise InputError(
            f"{told} would change the fixed weights of model.score={config.score.brief()}"
        )


def widened(parameters: PyTree) -> PyTree:
    """Parameters in float32, as all are, whatever JAX's usual type is."""
    return jax.tree.map(lambda leaf: leaf.astype(jnp.float32), parameters)


def after_training(model: PyTree, done: Int[Array, ""]) -> PyTree:
    """A model with the same arrays, whose mechanisms see that so many training steps are done."""
    model = jax.tree.map(lambda leaf: leaf, model)
    for _, module in nnx.iter_modules(model):
        if isinstance(module, Attention) and module.train_step is not None:
            module.train_step[...] = done.astype(jnp.float32)
    return model
