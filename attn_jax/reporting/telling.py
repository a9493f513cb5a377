"""Which sentences a report shows, of those whose weights are stored."""

from collections.abc import Iterable
from functools import partial

from attn_jax.evaluation.metrics import error_rate
from attn_jax.reporting.runs import Run
from attn_jax.reporting.systems import Systems, first_run

MOST_DRAWN = 40  # most steps drawn of a sentence, which a poorly trained model may never end
FEWEST_TOKENS = 5  # of a target, if possible: fewer show little of an alignment


def telling_sentences(systems: Systems, count: int, sentence: str = "") -> list[int]:
    """The indices of the sentences on which the systems differ most in their rates of errors.

    They have stored weights, at most `MOST_DRAWN` source tokens and, if there are any such, at
    least `FEWEST_TOKENS` target tokens. If all sources are longer, they are the shortest. Before
    all others is the one that `asked_for` finds.
    """
    known, sentences = readable(systems, pictured(systems)), first_run(systems).sentences
    long = [index for index in known if len(sentences[index]["target"]) >= FEWEST_TOKENS]
    telling = sorted(long or known, key=partial(spread, systems), reverse=True)
    if not known:
        telling = sorted(pictured(systems), key=partial(source_length, systems))
    return list(dict.fromkeys([*asked_for(systems, sentence), *telling]))[:count]


def shown_sentences(systems: Systems, count: int) -> list[int]:
    """Those of the viewer: wrong ones of any length too, and before right ones.

    Of a wrong one, a system that wrote it has stored its weights. Those that the best system has
    stored come first, as the viewer begins with it.
    """

    def is_wrong(run: Run, index: int) -> bool:
        return run.sentences[index]["text_tokens"] != run.sentences[index]["target"]

    def place(index: int) -> tuple:
        return index in firsts[0].weights, spread(systems, index), index in errors

    firsts = [runs[0] for runs in systems.values()]
    wrong = {index for run in firsts for index in run.weights if is_wrong(run, index)}
    errors = sorted(readable(systems, sorted(wrong)), key=partial(spread, systems), reverse=True)
    telling = telling_sentences(systems, len(pictured(systems)))
    chosen = list(dict.fromkeys([*telling[:1], *errors, *telling]))[:count]
    return sorted(chosen, key=place, reverse=True)


def asked_for(systems: Systems, sentence: str) -> list[int]:
    """The index of a sentence with stored weights, if there is such a one.

    Args:
      systems: with their sentences.
      sentence: its number, from 1, or a text that occurs in its source; or nothing.
    """
    if not sentence:
        return []
    known = pictured(systems)
    if sentence.isdecimal():
        return [index for index in known if index == int(sentence) - 1]
    texts = [one["source_text"] for one in first_run(systems).sentences]
    return [index for index in known if sentence in texts[index]][:1]


def pictured(systems: Systems) -> list[int]:
    """The indices of the sentences whose weights all systems have stored."""
    return sorted(set.intersection(*({*runs[0].weights} for runs in systems.values())))


def readable(systems: Systems, indices: Iterable[int]) -> list[int]:
    """Those of some sentences that are not too long to be read."""
    return [index for index in indices if source_length(systems, index) <= MOST_DRAWN]


def source_length(systems: Systems, index: int) -> int:
    """The largest number of source tokens of a sentence, which systems may cut differently."""
    return max(len(runs[0].sentences[index]["source"]) for runs in systems.values())


def spread(systems: Systems, index: int) -> float:
    """How far the rates of errors of systems are apart on a sentence."""
    sentences = [runs[0].sentences[index] for runs in systems.values()]
    rates = [error_rate([one["text_tokens"]], [one["target"]]) for one in sentences]
    return max(rates) - min(rates)
