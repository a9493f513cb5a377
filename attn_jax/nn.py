"""Cross-attention as a module of Flax NNX, for a decoder of somebody else's.

B sentences, S positions, T queries, Q features of a query, D of an annotation, O of an output, N
heads.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Key, PyTree

from attn_jax.attention.mechanism import Mechanism
from attn_jax.attention.mixing import Apart
from attn_jax.attention.protocol import Mixing, Score
from attn_jax.attention.scores import ScaledDot
from attn_jax.attention.steps import Attended, Memory
from attn_jax.attention.windows import Full
from attn_jax.config import Model
from attn_jax.errors import InputError
from attn_jax.models.attention import Attention
from attn_jax.models.protocols import Encoded, Summary
from attn_jax.models.randomness import by_row


class Decoding(NamedTuple):
    """What goes from one query to the next: the keys and values, and what a mechanism remembers."""

    attended: Attended
    mask: Bool[Array, "B S"]
    memory: Memory


class OfVariables(Attention):
    """Attention with a variable for each array, which NNX's optimizers need, by its path."""

    def __init__(self, *arguments: Any, **options: Any):
        super().__init__(*arguments, **options)
        leaves, self.structure = jax.tree.flatten_with_path(super()._p)
        self.paths = tuple(
            jax.tree_util.keystr(path, simple=True, separator="_") for path, _ in leaves
        )
        arrays = (leaf for _, leaf in leaves)
        self.parts = nnx.Dict(zip(self.paths, map(nnx.Param, arrays), strict=True))
        del self.parameters, self.shared

    @property
    def _p(self) -> PyTree:
        """The parameters by part."""
        return jax.tree.unflatten(self.structure, [self.parts[path][...] for path in self.paths])


class CrossAttention(nnx.Module):
    """Multi-head attention of a decoder to its source, by any mechanism.

    Takes the place of `flax.nnx.MultiHeadAttention`, whose arguments have the same names, where
    queries come from the decoder, and keys and values from the encoder. With `ScaledDot`, the
    default, it computes the same from the same parameters, which stand in
    `attention.projections`: `queries` [Q, N H], `keys` and `values` [D, N H], `output` [N H, O].
    It is a pytree: in Linen and Equinox it can be a parameter, see docs/attention.md.

    Args:
      num_heads: N.
      in_features: Q.
      qkv_features: N H, features of all heads; by default Q.
      out_features: O; by default Q.
      in_kv_features: D; by default Q.
      mechanism: of each head; a score alone has its usual normalizer.
      mixing: of heads, such as `TalkingHeads()`.
      num_key_value_heads: heads of keys and values, which divide N; by default N.
      use_bias: whether the linear maps have biases.
      rngs: for the parameters.

    Raises:
      InputError: arguments do not fit together.
    """

    def __init__(
        self,
        num_heads: int,
        in_features: int,
        qkv_features: int | None = None,
        out_features: int | None = None,
        in_kv_features: int | None = None,
        *,
        mechanism: Mechanism | Score | Callable = ScaledDot(),  # noqa: B008  a value
        mixing: Mixing = Apart(),  # noqa: B008
        num_key_value_heads: int | None = None,
        use_bias: bool = True,
        rngs: nnx.Rngs,
    ):
        size = qkv_features or in_features
        if size % num_heads:
            raise InputError(f"num_heads={num_heads} does not divide the {size} qkv_features")
        m = mechanism if isinstance(mechanism, Mechanism) else Mechanism(mechanism, Full())
        config = Model(
            score=m.score,
            window=m.window,
            normalizer=m.normalizer,
            values=m.values,
            gate=m.gate,
            mixing=mixing,
            heads=num_heads,
            key_value_heads=num_key_value_heads or num_heads,
            head_size=size // num_heads,
            projection="affine" if use_bias else "linear",
        )
        self.attention = OfVariables(
            config,
            in_features,
            in_kv_features or in_features,
            out_features or in_features,
            projection="linear",
            rngs=rngs,
        )

    def __call__(
        self,
        inputs_q: Float[Array, "B T Q"],
        inputs_kv: Float[Array, "B S D"],
        *,
        mask: Bool[Array, "B S"] | Bool[Array, "B 1 1 S"] | None = None,
        rng: Key[Array, ""] | None = None,
        sow_weights: bool = False,
    ) -> Float[Array, "B T O"]:
        """The outputs of all queries.

        Args:
          inputs_q: states of the decoder.
          inputs_kv: annotations, of which keys and values are made.
          mask: True where there is no padding; None: everywhere.
          rng: a random key for what a mechanism does in training; None: what it does in use.
          sow_weights: whether to sow the weights, as `attention_weights` for `nnx.capture`;
            `attend` returns them.
        """
        outputs, weights = self.attend(inputs_q, inputs_kv, mask=mask, rng=rng)
        if sow_weights:
            self.sow(nnx.Intermediate, "attention_weights", weights)
        return outputs

    def attend(
        self,
        inputs_q: Float[Array, "B T Q"],
        inputs_kv: Float[Array, "B S D"],
        *,
        mask: Bool[Array, "B S"] | Bool[Array, "B 1 1 S"] | None = None,
        rng: Key[Array, ""] | None = None,
    ) -> tuple[Float[Array, "B T O"], Float[Array, "B N T S"]]:
        """The outputs, and the weights of each head. The arguments are those of a call."""
        attended, mask, _ = self.begin(inputs_kv, mask=mask)
        rngs = None if rng is None else by_row(rng, len(inputs_q))
        return self.attention(inputs_q, attended, mask, rngs)

    def begin(
        self,
        inputs_kv: Float[Array, "B S D"],
        *,
        mask: Bool[Array, "B S"] | Bool[Array, "B 1 1 S"] | None = None,
    ) -> Decoding:
        """What `step` takes at the first query: keys and values are computed once."""
        shape = inputs_kv.shape[:2]
        mask = jnp.ones(shape, bool) if mask is None else mask
        if mask.shape not in (shape, (shape[0], 1, 1, shape[1])):
            raise InputError(
                f"the mask of {shape} annotations must be {shape} or "
                f"{(shape[0], 1, 1, shape[1])}, the same for all queries, got {mask.shape}"
            )
        mask = mask.reshape(shape).astype(bool)
        nothing = Summary(jnp.zeros((shape[0], 0)), ())
        attended = self.attention.project(Encoded(inputs_kv, inputs_kv, mask, nothing))
        return Decoding(attended, mask, self.attention.begin(mask))

    def step(
        self, decoding: Decoding, query: Float[Array, "B Q"]
    ) -> tuple[Decoding, Float[Array, "B O"], Float[Array, "B N S"]]:
        """One query in use: what the next one takes, the output, and the weights of each head."""
        attended, mask, memory = decoding
        memory, output, weights = self.attention.step(memory, query, attended, mask)
        return Decoding(attended, mask, memory), output, weights
