"""The choice of the sentences that a report shows, and the weights and tokens of one."""

from attn_jax.evaluation.metrics import edit_distance
from attn_jax.report.runs import Run
from attn_jax.report.systems import Systems, first_run
from attn_jax.tokens import EOS, SPECIALS

MOST_STEPS = 40  # most steps drawn of a sentence, which a poorly trained model may never end
FEWEST_TOKENS = 5  # of a target, if possible: fewer show little of an alignment


def sentence_of(run: Run, index: int) -> tuple:
    """The weights [L, N, T, S], the source tokens and the written tokens of a sentence.

    At most the first `MOST_STEPS` steps; the end of the sentence is included.
    """
    sentence, weights = run.sentences[index], run.weights[index]
    written = [*sentence["hypothesis"], SPECIALS[EOS]][: weights.shape[2]]
    return weights[:, :, :MOST_STEPS], sentence["source"], written[:MOST_STEPS]


def telling_sentences(systems: Systems, count: int) -> list[int]:
    """The indices of the sentences on which the systems differ most in their numbers of errors.

    They have stored weights, at most `MOST_STEPS` source tokens and, if there are any such, at
    least `FEWEST_TOKENS` target tokens. If all sources are longer, they are the shortest.
    """
    sentences = first_run(systems).sentences

    def length(index: int) -> int:
        return len(sentences[index]["source"])

    def errors(run: Run, index: int) -> int:
        sentence = run.sentences[index]
        return edit_distance(sentence["hypothesis"], sentence["target"])

    def spread(index: int) -> int:
        counts = [errors(runs[0], index) for runs in systems.values()]
        return max(counts) - min(counts)

    pictured = range(min(len(runs[0].weights) for runs in systems.values()))
    readable = [index for index in pictured if length(index) <= MOST_STEPS]
    long = [index for index in readable if len(sentences[index]["target"]) >= FEWEST_TOKENS]
    if not readable:
        return sorted(pictured, key=length)[:count]
    return sorted(long or readable, key=spread, reverse=True)[:count]
