"""Stacks of recurrent layers."""

from flax import nnx
from jaxtyping import Array, Float

from attn_jax.config import Model
from attn_jax.errors import InputError, choose
from attn_jax.models.dropout import make_dropout, split
from attn_jax.models.recurrent import CELLS
from attn_jax.names import choose_or_import


class Stack(nnx.Module):
    """One cell or several above one another: each reads what the one below shows.

    Its state is theirs. All begin with the same vector.

    Args:
      config: the kind of cell, and the dropout between cells.
      features: of the inputs.
      units: H, of each cell.
      layers: how many.
    """

    def __init__(self, config: Model, features: int, units: int, layers: int, *, rngs: nnx.Rngs):
        cell = choose_or_import(CELLS, config.cell, "cell")
        if not hasattr(cell, "gates"):
            raise InputError(f"--model.cell={config.cell} is no cell: it does not say its `gates`")
        sizes = [features] + [units] * (layers - 1)
        self.cells = nnx.List([cell(size, units, rngs=rngs) for size in sizes])
        self.dropout = make_dropout(config)
        self.gates, self.units = cell.gates, units

    def input(self, inputs: Float[Array, "*any E"]) -> Float[Array, "*any G"]:
        """What the lowest cell reads of the inputs."""
        return self.cells[0].input(inputs)

    def begin(self, hidden: Float[Array, "B H"]) -> tuple:
        """The state in which each cell shows `hidden`."""
        return tuple(cell.begin(hidden) for cell in self.cells)

    def shown(self, state: tuple, layer: int) -> Float[Array, "B H"]:
        """What the cells up to a layer show to the next."""
        return self.cells[layer].output(state[layer])

    def output(self, state: tuple) -> Float[Array, "B H"]:
        """What the highest cell shows."""
        return self.shown(state, len(self.cells) - 1)

    def __call__(
        self, state: tuple, projected: Float[Array, "B G"], rng: Array | None = None
    ) -> tuple:
        """The next state, from the inputs as `input` projected them."""
        following: tuple = ()
        rngs = split(rng, len(self.cells))
        for layer, (cell, own) in enumerate(zip(self.cells, rngs, strict=True)):
            recurrent, between = split(own, 2)
            if layer:
                below = self.dropout(self.shown(following, layer - 1), between)
                projected = cell.input(below)
            hidden = self.dropout.recurrent(cell.output(state[layer]), recurrent)
            following += (cell(state[layer], projected, hidden),)
        return following


class ResidualStack(Stack):
    """Cells above one another, each adding to what those below show.

    Wu et al. 2016, section 3.1.
    """

    def shown(self, state: tuple, layer: int) -> Float[Array, "B H"]:
        """The sum of what the cells up to a layer show."""
        return sum(self.cells[below].output(state[below]) for below in range(layer + 1))


STACKS: dict[str, type[Stack]] = {"plain": Stack, "residual": ResidualStack}


def make_stack(config: Model, features: int, units: int, layers: int, *, rngs: nnx.Rngs) -> Stack:
    """The stack of cells that the options ask for."""
    return choose(STACKS, config.stack, "stack")(config, features, units, layers, rngs=rngs)
