"""Recurrent layers above one another."""

from flax import nnx
from jaxtyping import Array, Float

from attn_jax.config import Model
from attn_jax.errors import choose
from attn_jax.models.recurrent import CELLS


class Stack(nnx.Module):
    """Cells above one another as one cell: each reads what the one below shows.

    Its state is theirs. All begin with the same vector.
    """

    def __init__(
        self, cell: type[nnx.Module], features: int, units: int, layers: int, *, rngs: nnx.Rngs
    ):
        sizes = [features] + [units] * (layers - 1)
        self.cells = nnx.List([cell(size, units, rngs=rngs) for size in sizes])
        self.gates = cell.gates

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

    def __call__(self, state: tuple, projected: Float[Array, "B G"]) -> tuple:
        """The next state, from the inputs as `input` projected them."""
        first, *above = self.cells
        following = (first(state[0], projected),)
        for layer, cell in enumerate(above, start=1):
            below = self.shown(following, layer - 1)
            following += (cell(state[layer], cell.input(below)),)
        return following


class ResidualStack(Stack):
    """Cells above one another, each adding to what those below show.

    Wu et al. 2016, section 3.1.
    """

    def shown(self, state: tuple, layer: int) -> Float[Array, "B H"]:
        """The sum of what the cells up to a layer show."""
        return sum(self.cells[below].output(state[below]) for below in range(layer + 1))


STACKS: dict[str, type[Stack]] = {"plain": Stack, "residual": ResidualStack}


def make_cell(
    config: Model, features: int, units: int, layers: int, *, rngs: nnx.Rngs
) -> nnx.Module:
    """The cell that the options ask for, or a stack of them."""
    cell = choose(CELLS, config.cell, "cell")
    stack = choose(STACKS, config.stack, "stack")
    if layers == 1:
        return cell(features, units, rngs=rngs)
    return stack(cell, features, units, layers, rngs=rngs)
