"""Which sentences a report shows, of those whose weights are stored."""

from functools import partial

from attn_jax.evaluation.metrics import error_rate
from attn_jax.reporting.systems import Systems, first_run

MOST_DRAWN = 40  # most steps drawn of a sentence, which a poorly trained model may never end
FEWEST_TOKENS = 5  # of a target, if possible: fewer show little of an alignment


def telling_sentences(systems: Systems, count: int, sentence: str = "") -> list[int]:
    """The indices of the sentences on which the systems differ most in their rates of errors.

    They have stored weights, at most `MOST_DRAWN` source tokens and, if there are any such, at
    least `FEWEST_TOKENS` target tokens. If all sources are longer, they are the shortest. Before
    all others is the one that `asked_for` finds.
    """
    known, sentences = readable(systems), first_run(systems).sentences
    long = [index for index in known if len(sentences[index]["target"]) >= FEWEST_TOKENS]
    telling = sorted(long or known, key=partial(spread, systems), reverse=True)
    if not known:
        telling = sorted(pictured(systems), key=partial(source_length, systems))
    return list(dict.fromkeys([*asked_for(systems, sentence), *telling]))[:count]


def shown_sentences(systems: Systems, count: int) -> list[int]:
    """Those of the viewer: the same, but wrong ones of any length, and before right ones."""

    def wrong(index: int) -> bool:
        of_systems = [runs[0].sentences[index] for runs in systems.values()]
        return any(one["text_tokens"] != one["target"] for one in of_systems)

    telling = telling_sentences(systems, len(pictured(systems)))
    errors = list(filter(wrong, readable(systems)))
    if not errors:
        return telling[:count]
    return sorted(
        dict.fromkeys([*telling, *errors]),
        key=lambda index: (spread(systems, index), index in errors),
        reverse=True,
    )[:count]


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


def pictured(systems: Systems) -> range:
    """The indices of the sentences whose weights all systems have stored."""
    return range(min(len(runs[0].weights) for runs in systems.values()))


def readable(systems: Systems) -> list[int]:
    """Those of them that are not too long to be read."""
    return [i for i in pictured(systems) if source_length(systems, i) <= MOST_DRAWN]


def source_length(systems: Systems, index: int) -> int:
    """The largest number of source tokens of a sentence, which systems may cut differently."""
    return max(len(runs[0].sentences[index]["source"]) for runs in systems.values())


def spread(systems: Systems, index: int) -> float:
    """How far the rates of errors of systems are apart on a sentence."""
    sentences = [runs[0].sentences[index] for runs in systems.values()]
    rates = [error_rate([one["text_tokens"]], [one["target"]]) for one in sentences]
    return max(rates) - min(rates)
