"""The choice of the sentences that a report shows, and the weights and tokens of one."""

from typing import NamedTuple

import numpy as np

from attn_jax.evaluation.metrics import error_rate
from attn_jax.reporting.runs import Run
from attn_jax.reporting.systems import Systems, first_run
from attn_jax.tokens import written

MOST_STEPS = 40  # most steps drawn of a sentence, which a poorly trained model may never end
FEWEST_TOKENS = 5  # of a target, if possible: fewer show little of an alignment


class Drawn(NamedTuple):
    """What is drawn of a sentence under a system: the first steps, with the end of the sentence."""

    weights: np.ndarray  # [L, N, T, S]
    source: list[str]  # S tokens
    target: list[str]  # of all steps, of which T are drawn

    @property
    def written(self) -> list[str]:
        """The tokens of the steps that are drawn, T."""
        return self.target[: self.weights.shape[2]]

    def cut(self, most: int) -> str:
        """A remark for the caption of a figure of at most `most` steps, if it leaves some out."""
        drawn, steps = min(most, len(self.written)), len(self.target)
        return f"; the first {drawn} of {steps} steps" if drawn < steps else ""


def sentence_of(run: Run, index: int) -> Drawn:
    """A sentence under a system, with at most the first `MOST_STEPS` steps."""
    sentence, weights = run.sentences[index], run.weights[index]
    steps = written(sentence["hypothesis"], weights.shape[2])
    return Drawn(weights[:, :, :MOST_STEPS], sentence["source"], steps)


def telling_sentences(systems: Systems, count: int) -> list[int]:
    """The indices of the sentences on which the systems differ most in their rates of errors.

    They have stored weights, at most `MOST_STEPS` source tokens and, if there are any such, at
    least `FEWEST_TOKENS` target tokens. If all sources are longer, they are the shortest.
    """
    sentences = first_run(systems).sentences

    def length(index: int) -> int:  # systems may split the source into other tokens
        return max(len(runs[0].sentences[index]["source"]) for runs in systems.values())

    def errors(run: Run, index: int) -> float:
        sentence = run.sentences[index]
        return error_rate([sentence["text_tokens"]], [sentence["target"]])

    def spread(index: int) -> float:
        rates = [errors(runs[0], index) for runs in systems.values()]
        return max(rates) - min(rates)

    pictured = range(min(len(runs[0].weights) for runs in systems.values()))
    readable = [index for index in pictured if length(index) <= MOST_STEPS]
    long = [index for index in readable if len(sentences[index]["target"]) >= FEWEST_TOKENS]
    if not readable:
        return sorted(pictured, key=length)[:count]
    return sorted(long or readable, key=spread, reverse=True)[:count]
