"""What the loss of a batch is a mean over."""

from jaxtyping import Array, Int

from attn_jax.settings.value import Value
from attn_jax.tokens import PAD


class Mean(Value):
    """What is counted."""

    def count(self, target: Int[Array, "B T"]) -> Int[Array, ""]:
        """The number of them in a batch of target sentences."""
        raise NotImplementedError


class Token(Mean):
    """Target tokens, the end of each sentence included."""

    def count(self, target: Int[Array, "B T"]) -> Int[Array, ""]:
        """The number of tokens."""
        return (target != PAD).sum()


class Sentence(Mean):
    """Sentences, as in the older papers."""

    def count(self, target: Int[Array, "B T"]) -> Int[Array, ""]:
        """The number of sentences with any token."""
        return (target != PAD).any(axis=1).sum()


MEANS: dict[str, type[Mean]] = {one.name: one for one in (Token, Sentence)}
