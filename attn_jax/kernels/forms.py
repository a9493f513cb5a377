"""Which form of each kernel a model runs: a value, and so a part of what `jax.jit` compiles for."""

from collections.abc import Callable
from dataclasses import dataclass

from attn_jax.kernels import activations, deferral, lstm, memory, mixture, output_loss, products


@dataclass(frozen=True)
class Forms:
    """A function for each kernel that modules choose, fast or plain.

    `dataclasses.replace(FAST, scan=PLAIN.scan)` is fast but for one of them. The kernels of
    attention, `hidden_sum` and `projection`, are not chosen: they have rules for both modes of
    differentiation.
    """

    product: Callable
    mixture: Callable
    scan: Callable
    sigmoid: Callable
    tanh: Callable
    keeping_values: Callable
    lstm_gates: Callable
    lstm_layer: Callable
    recomputed: Callable
    logits: Callable
    output_loss: Callable


FAST = Forms(
    product=products.product,
    mixture=mixture.mixture,
    scan=deferral.scan,
    sigmoid=activations.sigmoid,
    tanh=activations.tanh,
    keeping_values=activations.keeping_values,
    lstm_gates=lstm.gates,
    lstm_layer=lstm.layer,
    recomputed=memory.recomputed,
    logits=output_loss.logits,
    output_loss=output_loss.output_loss,
)
PLAIN = Forms(
    product=products.plain_product,
    mixture=mixture.plain_mixture,
    scan=deferral.plain_scan,
    sigmoid=activations.plain_sigmoid,
    tanh=activations.plain_tanh,
    keeping_values=activations.plain_keeping_values,
    lstm_gates=lstm.plain_gates,
    lstm_layer=lstm.plain_layer,
    recomputed=memory.plain_recomputed,
    logits=output_loss.plain_logits,
    output_loss=output_loss.plain_output_loss,
)
