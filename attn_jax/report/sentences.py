"""The sentence that a report draws, and its panels."""

from attn_jax.evaluation.metrics import edit_distance
from attn_jax.report.cells import Cell
from attn_jax.report.systems import Systems, first_run
from attn_jax.tokens import EOS, SPECIALS

MOST_STEPS = 40  # drawn of a sentence: a model that has learned little may not find an end
FEWEST_TOKENS = 5  # of a target, where there is one: fewer show little of an alignment


def sentence_of(cell: Cell, index: int) -> tuple:
    """The weights [L, N, T, S], the source tokens and the tokens written of a sentence."""
    sentence, weights = cell.sentences[index], cell.weights[index]
    written = [*sentence["hypothesis"], SPECIALS[EOS]][: weights.shape[2]]
    return weights[:, :, :MOST_STEPS], sentence["source"], written[:MOST_STEPS]


def telling_sentence(systems: Systems) -> int:
    """The pictured sentence on which the systems differ most, among those that can be read.

    It has some tokens to align, where one of them does.
    """
    sentences = first_run(systems).sentences

    def length(index: int) -> int:
        return len(sentences[index]["source"])

    def errors(cell: Cell, index: int) -> int:
        sentence = cell.sentences[index]
        return edit_distance(sentence["hypothesis"], sentence["target"])

    def spread(index: int) -> int:
        counts = [errors(cells[0], index) for cells in systems.values()]
        return max(counts) - min(counts)

    pictured = range(min(len(cells[0].weights) for cells in systems.values()))
    readable = [index for index in pictured if length(index) <= MOST_STEPS]
    long = [index for index in readable if len(sentences[index]["target"]) >= FEWEST_TOKENS]
    return max(long or readable, key=spread) if readable else min(pictured, key=length)
