"""The attention of a decoder: a mechanism, its parameters and its heads, over a batch."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from attn_jax.attention import steps
from attn_jax.attention.compositions import Pair
from attn_jax.attention.mixing import Apart
from attn_jax.attention.steps import OVER_STEPS, Memory, Now, Queries
from attn_jax.config import Model
from attn_jax.errors import InputError
from attn_jax.kernels.forms import FAST
from attn_jax.models.heads import Sizes, Unprojected, make_projections
from attn_jax.models.source import Encoded


class KeysAndValues(NamedTuple):
    """What a batch of sentences is compared by, and what is summed, computed once per sentence.

    Each of K heads of keys and values is shared by G heads of queries.
    """

    keys: PyTree[Float[Array, "B K ..."]]  # [B, K, G, ...] if the score makes keys
    values: Float[Array, "B K S C"]


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
        rngs: nnx.Rngs,
    ):
        self.mechanism = config.mechanism
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
        without = not jax.tree.leaves(self.parameters.get_value()["score"])
        if isinstance(score, Pair) and score.first == score.second and without:
            word = score.first.word
            raise InputError(
                f"the normalizer {normalizer.word} takes two scores, which would be the same, "
                f"since {word} has no parameters: take a score that has some, such as general, "
                f"additive or projected({word})"
            )

    def project(self, encoded: Encoded) -> KeysAndValues:
        """The keys and values of one source, or of two in one row."""
        parts, p = self.mechanism.values, self.shared.get_value()["values"]
        vectors, annotations, mask, _ = encoded
        compared = jax.vmap(partial(parts.compared, p))(annotations)
        values = jax.vmap(partial(parts.values, p))(annotations, vectors, mask)
        keys, values = self.projections.keys_and_values(compared, values)
        if self.mechanism.makes_keys:
            _, groups = self.projections.shape
            over = jax.vmap(self.mechanism.score.keys, (0, None), axis_size=groups)
            over = jax.vmap(jax.vmap(over), (None, 0))
            keys = over(self.parameters.get_value()["score"], keys)
        return KeysAndValues(keys, values)

    def begin(self, mask: Bool[Array, "B S"]) -> Memory:
        """The memory before the first query, [B, K, G, ...]."""
        heads, groups = self.projections.shape
        size = self.projections.sizes.C

        def head(p: PyTree, mask: Bool[Array, " S"]) -> Memory:
            return steps.begin(self.mechanism, p, mask, size, self._done)

        over = jax.vmap(jax.vmap(head, (0, None), axis_size=groups), (0, None), axis_size=heads)
        return jax.vmap(over, (None, 0))(self.parameters.get_value(), mask)

    @property
    def sizes(self) -> tuple[int]:
        """The features of a context, of the only source."""
        return (self.size,)

    @property
    def sums_values(self) -> bool:
        """Whether contexts are the sums of values, which no head or part has a use for as such."""
        without_heads = isinstance(self.projections, Unprojected)
        return without_heads and not self.mechanism.reads_contexts

    def alone(self, attended: KeysAndValues) -> Float[Array, "B S O"]:
        """The contexts if all weight is on one position, for each position. It has one head."""
        values = jnp.swapaxes(attended.values, 1, 2)  # [B, S, 1, C]
        return self.projections.combine(values[..., None, :])

    def value_sizes(self, attended: KeysAndValues) -> Float[Array, "B N S"]:
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

    @property
    def _done(self) -> Float[Array, ""]:
        """The number of training steps done, without a gradient."""
        step = self.train_step
        return jnp.zeros(()) if step is None else jax.lax.stop_gradient(step[...])

    def step(
        self,
        memory: Memory,
        query: Float[Array, "B Q"],
        attended: KeysAndValues,
        mask: Bool[Array, "B S"],
        rng: Key[Array, " B"] | None = None,
    ) -> tuple[Memory, Float[Array, "B O"], Float[Array, "B N S"]]:
        """The new memory, the context and the weights of one query per sentence."""
        queries = self._queries(self.projections.query(query))
        now = Now(memory, mask, self._by_head(rng))
        memory, contexts, weights = self._follow(queries, attended, now)
        contexts = self._gate(query, contexts)
        rows, *_, length = weights.shape
        return memory, self.projections.combine(contexts), weights.reshape(rows, -1, length)

    def __call__(
        self,
        queries: Float[Array, "B T Q"],
        attended: KeysAndValues,
        mask: Bool[Array, "B S"],
        rng: Key[Array, " B"] | None = None,
    ) -> tuple[Float[Array, "B T O"], Float[Array, "B N T S"]]:
        """The contexts and the weights of T queries, computed in parallel where possible."""
        count = queries.shape[1]
        heads = self._queries(jnp.moveaxis(self.projections.query(queries), 1, 3))
        attend = self._one_by_one if self.mechanism.looks_back else self._all_at_once
        rngs, values = self._by_head(rng, count), attended.values
        weights = attend(heads, attended, mask, rngs)
        summed = self._dropped(weights, rngs).astype(values.dtype)
        contexts = jnp.einsum("BKGTS,BKSC->BTKGC", summed, values)
        contexts = self._gate(queries, contexts)
        rows, *_, source_length = weights.shape
        return self.projections.combine(contexts), weights.reshape(rows, -1, count, source_length)

    def _follow(
        self, queries: Queries, attended: KeysAndValues, now: Now
    ) -> tuple[Memory, Float[Array, "B K G C"], Float[Array, "B K G S"]]:
        """One step of all heads, stage by stage up to the sums."""
        m, p = self.mechanism, self.parameters.get_value()
        scored = self._over_heads(partial(steps.score, m), keys=True)
        memory, scores = scored(p, queries, attended.keys, now)
        scores = self._mixed_scores(scores)
        weighed = self._over_heads(partial(steps.weigh, m))
        memory, weights = weighed(p, queries, scores, now._replace(memory=memory))
        weights = self._mixed_weights(weights, now.mask)
        amplified = self._over_heads(partial(steps.amplify, m))
        weights = amplified(p, queries, weights, now._replace(memory=memory))
        contexts = self.forms.mixture(self._dropped(weights, now.rng), attended.values)
        return steps.remember(memory, weights, contexts), contexts, weights

    def _one_by_one(
        self,
        queries: Queries,
        attended: KeysAndValues,
        mask: Bool[Array, "B S"],
        rngs: Key[Array, "B K G T"] | None,
    ) -> Float[Array, "B K G T S"]:
        """The weights of queries each of which depends on the previous ones."""

        def following(memory: Memory, inputs: tuple) -> tuple[Memory, Float[Array, "B K G S"]]:
            queries, rngs = inputs
            memory, _, weights = self._follow(queries, attended, Now(memory, mask, rngs))
            return memory, weights

        inputs = jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 3, 0), (queries, rngs))
        _, weights = jax.lax.scan(following, self.begin(mask), inputs)
        return jnp.moveaxis(weights, 0, 3)

    def _all_at_once(
        self,
        queries: Queries,
        attended: KeysAndValues,
        mask: Bool[Array, "B S"],
        rngs: Key[Array, "B K G T"] | None,
    ) -> Float[Array, "B K G T S"]:
        """The weights of queries that do not depend on one another: the stages of `_follow`."""
        m, p = self.mechanism, self.parameters.get_value()
        count = jax.tree.leaves(queries)[0].shape[3]
        now = Now(steps.at_each(m, count, self._done), mask, rngs)
        scored = self._over_heads(partial(steps.score_all, m), keys=True, memory=None)
        scores = self._mixed_scores(scored(p, queries, attended.keys, now))
        weigh, amplify = (
            self._over_heads(jax.vmap(partial(stage, m), OVER_STEPS), memory=None)
            for stage in (steps.weigh, steps.amplify)
        )
        _, weights = weigh(p, queries, scores, now)
        return amplify(p, queries, self._mixed_weights(weights, mask), now)

    def _mixed_scores(self, scores: Float[Array, "B K G *T S"]) -> Float[Array, "B K G *T S"]:
        """The scores of all heads, of a step or of all, each of a pair by itself."""
        if not self.mixing.overrides("scores"):
            return scores
        mix = partial(steps.mix_scores, self.mixing, self.shared.get_value()["mixing"])
        return jax.vmap(_over_heads_together(mix, scores.ndim - 4))(scores)

    def _mixed_weights(
        self, weights: Float[Array, "B K G *T S"], mask: Bool[Array, "B S"]
    ) -> Float[Array, "B K G *T S"]:
        """The weights of all heads, of a step or of all."""
        if not self.mixing.overrides("weights"):
            return weights
        mix = partial(steps.mix_weights, self.mixing, self.shared.get_value()["mixing"])

        def of_row(weights: Array, mask: Array) -> Array:
            over = _over_heads_together(lambda of_step: mix(of_step, mask), weights.ndim - 3)
            return over(weights)

        return jax.vmap(of_row)(weights, mask)

    def _dropped(
        self, weights: Float[Array, "B K G *T S"], rngs: Key[Array, "B K G *T"] | None
    ) -> Float[Array, "B K G *T S"]:
        """The weights that are summed."""
        drop = partial(steps.drop, self.mechanism)
        for _ in weights.shape[:-1]:
            drop = jax.vmap(drop)
        return drop(weights, rngs)

    def _gate(
        self, states: Float[Array, "B *T Q"], contexts: Float[Array, "B *T K G C"]
    ) -> Float[Array, "B *T K G C"]:
        """What each head hands on of its context."""
        over = jax.vmap(partial(steps.gate, self.mechanism), (0, None, 0))
        over = jax.vmap(over, (0, None, 0))
        for _ in states.shape[:-1]:
            over = jax.vmap(over, (None, 0, 0))
        return over(self.parameters.get_value(), states, contexts)

    def _queries(self, states: Float[Array, "B K G *T Q"]) -> Queries:
        """What the score and the window of each head make of the queries."""
        over = partial(steps.query, self.mechanism)
        if states.ndim == 5:
            over = jax.vmap(over, (None, 0))
        over = jax.vmap(jax.vmap(jax.vmap(over)), (None, 0))  # over B, of K, of G
        return over(self.parameters.get_value(), states)

    def _over_heads(
        self, stage: Callable, *, keys: bool = False, memory: int | None = 0
    ) -> Callable:
        """Vectorises a stage, which takes p, queries, keys or scores or weights, and a `Now`.

        Args:
          stage: of one head and one sentence.
          keys: whether the third argument is keys, which G heads of queries may share.
          memory: 0, or None if all heads and sentences have one memory.
        """
        shared = keys and not self.mechanism.makes_keys
        # Memory, mask and rng: a sentence has one mask.
        of_head, of_row = Now._make((memory, None, 0)), Now._make((memory, 0, 0))
        over = jax.vmap(stage, (0, 0, None if shared else 0, of_head))
        return jax.vmap(jax.vmap(over, (0, 0, 0, of_head)), (None, 0, 0, of_row))

    def _by_head(self, rng: Key[Array, " B"] | None, *steps: int) -> Key[Array, "B K G *T"] | None:
        """A key for each head of each row, and for each step if their number is given."""
        shape = *self.projections.shape, *steps
        return None if rng is None else jax.vmap(lambda row: jax.random.split(row, shape))(rng)


def _over_heads_together(mix: Callable, times: int) -> Callable:
    """Applies a function of [N, S] to [K, G, *T, S], with so many axes *T."""
    for _ in range(times):
        mix = jax.vmap(mix, 1, 1)

    def of_heads(numbers: Float[Array, "K G *T S"]) -> Float[Array, "K G *T S"]:
        return mix(numbers.reshape(-1, *numbers.shape[2:])).reshape(numbers.shape)

    return of_heads


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
