"""What text of an option may stand for: the values of each kind, by name."""

from attn_jax.attention.head_names import SEVERAL, Heads
from attn_jax.config.reading import PARTS, Tables
from attn_jax.recipe.losses import LOSSES, UNITS, Loss, Unit
from attn_jax.recipe.optimizer import OPTIMIZERS, SCHEDULES, Optimizer, Schedule
from attn_jax.recipe.orders import ORDERS, Order
from attn_jax.recipe.precision import PRECISIONS, Precision

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
