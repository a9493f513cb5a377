"""What text of an option may stand for: the values of each kind, by name."""

from typing import Any

from attn_jax.attention.head_names import SEVERAL, Heads
from attn_jax.config import value_text
from attn_jax.config.held_values import One, OneOrAuto, held_option
from attn_jax.data.orders import ORDERS, Order
from attn_jax.settings.value import Value
from attn_jax.training.losses import LOSSES, Loss
from attn_jax.training.means import MEANS, Mean
from attn_jax.training.optimizer import OPTIMIZERS, SCHEDULES, Optimizer, Schedule
from attn_jax.training.precision import PRECISIONS, Precision

TABLES: value_text.Tables = {
    **value_text.PARTS,
    Optimizer: OPTIMIZERS,
    Schedule: SCHEDULES,
    Heads: SEVERAL,
    Loss: LOSSES,
    Mean: MEANS,
    Precision: PRECISIONS,
    Order: ORDERS,
}


def value_option(default: Value | None, kind: type[Value], help: str) -> Any:
    """A field that holds a value; in text, None is `auto`."""
    held = (OneOrAuto if default is None else One)(kind, TABLES)
    return held_option(held, default, help)
