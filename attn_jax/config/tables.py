"""What text of an option may stand for: the values of each kind, by name."""

from attn_jax.attention.head_names import SEVERAL, Heads
from attn_jax.config.reading import PARTS, Tables
from attn_jax.data.orders import ORDERS, Order
from attn_jax.training.losses import LOSSES, UNITS, Loss, Unit
from attn_jax.training.optimizer import OPTIMIZERS, SCHEDULES, Optimizer, Schedule
from attn_jax.training.precision import PRECISIONS, Precision

TABLES: Tables = {
    **PARTS,
    Optimizer: OPTIMIZERS,
    Schedule: SCHEDULES,
    Heads: SEVERAL,
    Loss: LOSSES,
    Unit: UNITS,
    Precision: PRECISIONS,
    Order: ORDERS,
}
