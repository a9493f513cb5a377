"""The protocol of attention: scores, windows, normalizers, values, gates and mixing.

Each is a class whose fields are its settings (plain numbers) and whose methods are pure functions
of one sentence and one head. Its parameters `p` are what its `init` returns, nested as it likes:

    class General(Score):
        def init(self, rng, Q, D):  # the features of a query and of an annotation
            return {"W": scaled_normal(rng, (Q, D))}

        def score(self, p, query, keys, past):  # [Q], [S, D] -> [S]
            return keys @ (query @ p["W"])

`General()` is an ordinary value: equal to another of the same settings, hashable, and a static
argument of `jax.jit`. The base class makes every subclass a frozen dataclass; there is nothing else
to declare, except what a part `reads` of earlier steps.
"""

from collections.abc import Iterator, Sequence
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from attn_jax.attention.past import CARRIED, Past
from attn_jax.errors import InputError
from attn_jax.settings.value import Value


def scaled_normal(rng: Array, shape: tuple[int, ...]) -> Float[Array, "..."]:
    """Draws from N(0, 1 / n), n the first size of the shape: the scale of inputs is kept."""
    return jax.random.normal(rng, shape) * (shape[0] if shape else 1) ** -0.5


def widen(numbers: Float[Array, "..."]) -> Float[Array, "..."]:
    """The numbers, in float32 at least, in which parts compute whatever the precision of inputs."""
    return numbers.astype(jnp.promote_types(numbers.dtype, jnp.float32))


class Part(Value):
    """What all parts have in common: settings, and parameters that its `init` makes.

    Raises:
      InputError: a setting is not of its type or out of bounds, or is an array.
    """

    may_be_own = True

    @classmethod
    def overrides(cls, method: str) -> bool:
        """Whether a class has a method that is not the neutral one of the protocol."""
        found = getattr(cls, method, None)
        return found is not None and found.__module__ != __name__

    def parts(self) -> Iterator["Part"]:
        """This part, and those that its settings hold."""
        yield self
        for value in self.settings().values():
            if isinstance(value, Part):
                yield from value.parts()


class Weigher(Part):
    """What scores, windows and normalizers have in common: they see the past and may have a state.

    Raises:
      InputError: a setting is not of its type or out of bounds, or is an array.
    """

    reads: ClassVar[Sequence[str]] = ()  # of CARRIED, what it reads of earlier steps
    positional: ClassVar[bool] = False  # depends on where words stand, not only on their contents
    surrogate: ClassVar[bool] = False  # has the derivative of something else, on purpose

    def __init_subclass__(cls) -> None:
        """Checks what a class of parts declares."""
        super().__init_subclass__()
        cls.reads = (cls.reads,) if isinstance(cls.reads, str) else tuple(cls.reads)
        unknown = {*cls.reads} - {*CARRIED}
        if unknown:
            raise InputError(
                f"{cls.__name__} reads {', '.join(sorted(unknown))}; a part can read "
                f"{', '.join(CARRIED)}"
            )
        if cls.overrides("advance") != cls.overrides("start"):
            raise InputError(f"{cls.__name__} has only one of `start` and `advance`")

    def __post_init__(self) -> None:
        """Checks that the states of the parts that it holds are handed on."""
        super().__post_init__()
        if self.is_stateful and not self.overrides("start"):
            (first, *_) = (part for part in self.parts() if part.overrides("start"))
            raise InputError(
                f"{self.word} takes no part with a state of its own, got {first.word}: it has no "
                "`start` and `advance`, which would call those of the part"
            )

    @property
    def carried(self) -> set[str]:
        """What this part, and those that it holds, read of earlier steps."""
        return {name for part in self.parts() if isinstance(part, Weigher) for name in part.reads}

    @property
    def is_stateful(self) -> bool:
        """Whether it has a state of its own."""
        return any(part.overrides("start") for part in self.parts())

    def init(self, rng: Array, Q: int, D: int) -> PyTree:
        """The first parameters of one head, for queries and annotations of Q and D features."""
        return {}

    def query(self, p: PyTree, state: Float[Array, " Q"]) -> PyTree:
        """The query, which other methods get, made from a decoder state.

        Computed for all steps at once where their states are known.
        """
        return state

    def start(self, p: PyTree, mask: Bool[Array, " S"]) -> PyTree:
        """The state of the part before the first step. A class that has it has `advance` too.

        That returns arrays of the same structure, shapes and dtypes.
        """
        return ()


class Score(Weigher):
    """How well each annotation matches a query. Bahdanau, Cho and Bengio 2014, section 3.1.

    A score of -∞ excludes a position; it must be a constant, as in `jnp.where`, since the
    derivative of a computed one is NaN.
    """

    scores: ClassVar[int | None] = 1  # for each position; None: one for each feature of a value
    hidden: ClassVar[bool] = False  # has [S, A] units for each query: these go one after another
    is_control: ClassVar[bool] = False  # depends on neither content nor history
    moves: ClassVar[bool] = False  # moves through the source by itself
    gives_logarithms: ClassVar[bool] = False  # of weights, for the normalizer `exponential`
    default_normalizer: ClassVar["type[Normalizer] | None"] = None  # None: softmax

    def keys(self, p: PyTree, annotations: Float[Array, "S D"]) -> PyTree:
        """What queries are compared with, computed once per sentence."""
        return annotations

    def advance(self, p: PyTree, query: PyTree, keys: PyTree, past: Past) -> PyTree:
        """The next state, computed once, before `score`, which sees it as `past.own`."""
        return past.own

    def score(self, p: PyTree, query: PyTree, keys: PyTree, past: Past) -> Float[Array, "*C S"]:
        """The score of each position; [2, S] if it gives two, as a `Pair` does; or [C, S]."""
        raise NotImplementedError


class Window(Weigher):
    """Which positions a step may attend to. Luong, Pham and Manning 2015, section 3.2."""

    def advance(self, p: PyTree, query: PyTree, past: Past) -> PyTree:
        """The next state, computed once, before `bias` and `gain`, which see it as `past.own`."""
        return past.own

    def bias(self, p: PyTree, query: PyTree, past: Past) -> Float[Array, " S"]:
        """What is added to the scores: -∞ excludes a position."""
        return jnp.zeros(past.mask.shape)

    def gain(self, p: PyTree, query: PyTree, past: Past) -> Float[Array, " S"]:
        """What the weights are multiplied with."""
        return jnp.ones(past.mask.shape)


class Normalizer(Weigher):
    """From scores to weights, exactly 0 where the mask is False."""

    scores: ClassVar[int] = 1  # how many it takes for each position
    sums_to_one: ClassVar[bool] = False  # always, where the mask is True anywhere
    non_negative: ClassVar[bool] = True  # its weights; else losses and penalties refuse it
    moves: ClassVar[bool] = False  # moves through the source by itself
    needs_logarithms: ClassVar[bool] = False  # takes only scores that are logarithms of weights

    def advance(
        self, p: PyTree, scores: Float[Array, "*C S"], mask: Bool[Array, " S"], past: Past
    ) -> PyTree:
        """The next state, computed once, before `weights`, which sees it as `past.own`."""
        return past.own

    def weights(
        self, p: PyTree, scores: Float[Array, "*C S"], mask: Bool[Array, " S"], past: Past
    ) -> Float[Array, " S"]:
        """The weight of each position.

        Args:
          p: parameters.
          scores: in float32 at least, and finite where the mask is False.
          mask: True at real positions that neither window nor score exclude.
          past: see `Past`.
        """
        raise NotImplementedError

    def stops(self, own: PyTree) -> Float[Array, " S"] | None:
        """The probabilities of stopping at each position, if weights are spread from these.

        For losses that see where reading stops; None: the weights themselves.

        Args:
          own: the state after a step.
        """
        return None

    def summed(self, weights: Float[Array, " S"], rng: Array) -> Float[Array, " S"]:
        """The weights that are summed in training; all else sees those that it is given.

        Args:
          weights: after mixing, and after the gain of the window.
          rng: a random key, for dropout.
        """
        return weights


class Values(Part):
    """What is compared with queries and what is summed: by default, both are the annotations.

    Both are computed once per sentence, before they are projected for heads.
    """

    name = "kind of values"  # for error messages
    reads_embeddings: ClassVar[bool] = False  # otherwise, they are None

    def init(self, rng: Array, D: int, E: int) -> PyTree:
        """The first parameters, for annotations of D features and word vectors of E."""
        return {}

    def compared(self, p: PyTree, annotations: Float[Array, "S D"]) -> Float[Array, "S K"]:
        """What the score sees as annotations."""
        return annotations

    def values(
        self,
        p: PyTree,
        annotations: Float[Array, "S D"],
        embeddings: Float[Array, "S E"] | None,
        mask: Bool[Array, " S"],
    ) -> Float[Array, "S C"]:
        """What is summed to a context of C features.

        Args:
          p: parameters.
          annotations: of the encoder.
          embeddings: the vectors of the source words that the encoder has read.
          mask: True at the real positions of the sentence.
        """
        return annotations

    def sizes(self, D: int, E: int) -> tuple[int, int]:
        """The features of what is compared and of a value: those that the methods return.

        Raises:
          InputError: the values are made of word vectors, whose size is 0.
        """
        if self.reads_embeddings and not E:
            raise InputError(f"the values {self.word} are made of word vectors: give E, their size")

        def made(rng: Array) -> tuple[Array, Array]:
            p, annotations = self.init(rng, D, E), jnp.zeros((1, D))
            embeddings = jnp.zeros((1, E)) if self.reads_embeddings else None
            mask = jnp.ones(1, bool)
            return self.compared(p, annotations), self.values(p, annotations, embeddings, mask)

        compared, values = jax.eval_shape(made, jax.random.key(0))
        return compared.shape[-1], values.shape[-1]


class Gate(Part):
    """How the context of a head comes about, and what becomes of it before heads are combined.

    By default it is the sum of the values, as it is.
    """

    def init(self, rng: Array, Q: int, C: int) -> PyTree:
        """The first parameters of one head, for decoder states of Q features and contexts of C."""
        return {}

    def context(
        self, p: PyTree, weights: Float[Array, " S"], values: Float[Array, "S C"]
    ) -> Float[Array, " C"]:
        """The context: Σ_j α_j v_j."""
        return weights @ values

    def gate(
        self, p: PyTree, state: Float[Array, " Q"], context: Float[Array, " C"]
    ) -> Float[Array, " C"]:
        """The context that is handed on.

        Args:
          p: parameters.
          state: of the decoder, as it is before it is projected for heads.
          context: what `context` returned, usually the sum of the values.
        """
        return context


class Mixing(Part):
    """What the heads of a step tell one another: by default, nothing."""

    name = "way to mix heads"  # for error messages
    non_negative: ClassVar[bool] = True  # weights stay so; else losses and penalties refuse it

    def init(self, rng: Array, N: int) -> PyTree:
        """The first parameters of N heads together."""
        return {}

    def scores(self, p: PyTree, scores: Float[Array, "N S"]) -> Float[Array, "N S"]:
        """The scores that windows and normalizers get of those of all heads.

        Args:
          p: parameters.
          scores: in float32 at least, and 0 where a head excludes a position, which it still does
            afterwards.
        """
        return scores

    def weights(self, p: PyTree, weights: Float[Array, "N S"]) -> Float[Array, "N S"]:
        """The weights that are summed, before the gain of windows; 0 where there is padding."""
        return weights
