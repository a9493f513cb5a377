"""The initial state of a recurrent decoder, from the encoder's summary."""

import jax.numpy as jnp
from flax import nnx

from attn_jax.config import Model
from attn_jax.errors import InputError, choose
from attn_jax.models.linear import Linear
from attn_jax.models.source import Summary
from attn_jax.models.stacks import Stack


class Bridge(nnx.Module):
    """s_0 = tanh(W_s · summary + b), the same in each layer.

    Bahdanau, Cho and Bengio 2014, appendix A.2.2 (which omits biases).
    """

    def __init__(self, config: Model, summary_size: int, *, rngs: nnx.Rngs):
        self.linear = Linear(summary_size, config.hidden_size, rngs=rngs)

    def __call__(self, summary: Summary, stack: Stack) -> tuple:
        """The initial state of a stack."""
        return stack.begin(jnp.tanh(self.linear(summary.vector)))


class Last(nnx.Module):
    """The last state of each layer of the encoder. Sutskever, Vinyals and Le 2014; Luong 2015.

    Raises:
      InputError: the encoder is not `unidirectional` or `backward`, or differs from the decoder in
        the number of its layers or units.
    """

    def __init__(self, config: Model, summary_size: int, *, rngs: nnx.Rngs):
        encoder = config.encoder_layers, config.annotation_size
        decoder = config.decoder_layers, config.hidden_size
        if config.encoder not in ("unidirectional", "backward") or encoder != decoder:
            raise InputError(
                "model.first_state=last needs a unidirectional or backward encoder with as many "
                "layers and units as the decoder"
            )

    def __call__(self, summary: Summary, stack: Stack) -> tuple:
        """The initial state of a stack."""
        return summary.states


class Zero(nnx.Module):
    """All zeros: the decoder sees the source only through attention."""

    def __init__(self, config: Model, summary_size: int, *, rngs: nnx.Rngs):
        self.units = config.hidden_size

    def __call__(self, summary: Summary, stack: Stack) -> tuple:
        """The initial state of a stack."""
        return stack.begin(jnp.zeros((len(summary.vector), self.units), summary.vector.dtype))


FirstState = Bridge | Last | Zero
FIRST_STATES: dict[str, type[FirstState]] = {"bridge": Bridge, "last": Last, "zero": Zero}


def make_first_state(config: Model, summary_size: int, *, rngs: nnx.Rngs) -> FirstState:
    """The initial state selected by the options."""
    return choose(FIRST_STATES, config.first_state, "first state")(config, summary_size, rngs=rngs)
