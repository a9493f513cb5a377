"""What systems get wrong: the wrong sentences of a split, and which symbols are confused."""

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from attn_jax.data.sentences import parted
from attn_jax.edits import edit_distance, edit_path
from attn_jax.reporting.breakdowns import breakdowns, quality_table
from attn_jax.reporting.differences import words_of
from attn_jax.reporting.runs import Run
from attn_jax.reporting.sentences import confidence
from attn_jax.reporting.systems import TITLES, Systems, first_run
from attn_jax.tokens import is_second

MOST_SENTENCES = 200  # of a system that writes sentences of words, nearly all of which are wrong
MOST_SIGNS = 1_000_000  # of the texts of a split, which take about as many bytes in the page
MOST_CONFUSIONS = 50
NOTHING, SPACE = "∅", "␣"
TO = " → "  # from what was written to what was wanted

Pair = tuple[list[str], list[str]]  # what was written and what was wanted


def mistakes(name: str, systems: Systems) -> dict[str, Any]:
    """The errors of the first run of each system on a split, as `errors.js` reads them.

    Args:
      name: of the split.
      systems: with their runs on it.
    """
    first, firsts = first_run(systems), {label: runs[0] for label, runs in systems.items()}
    pairs = {label: compared(run) for label, run in firsts.items()}
    wrong = {label: rates(of_run) for label, of_run in pairs.items()}
    listed = within_limits(firsts, wrong)
    places = sorted({place for of_system in listed.values() for place in of_system})
    second = second_column(first)
    items, rows = [], {place: row for row, place in enumerate(places)}
    for place in places:
        one = first.sentences[place]
        texts = parted(one["source_text"]) if second else [one["source_text"]]
        items.append([place + 1, *texts, one["reference"]])
    tables = (quality_table(systems, breakdown) for breakdown in breakdowns(first))
    return {
        "name": name,
        "sentences": len(first.sentences),
        "columns": ["source", *second, "reference"],
        "items": items,
        "systems": [
            {
                "name": label,
                "seed": run.seed,
                "wrong": len(wrong[label]),
                "texts": [
                    run.sentences[place]["text"] if place in wrong[label] else None
                    for place in places
                ],
                "rows": [
                    [
                        rows[place],
                        difference(*pairs[label][place], between(run)),
                        round(wrong[label][place], 1),
                        confidence(run, place),
                    ]
                    for place in listed[label]
                ],
                "confusions": None if run.in_words else confusions(run, pairs[label]),
            }
            for label, run in firsts.items()
        ],
        "measure": TITLES[first.measure],
        "quality": [
            {
                "title": one.title,
                "heading": list(one.table.columns),
                "rows": one.table.to_numpy().tolist(),
                "notes": list(one.notes),
            }
            for one in tables
        ],
    }


def compared(run: Run) -> list[Pair]:
    """What is compared of each sentence: words, or else the symbols of the target."""
    if run.in_words:
        return words_of(run)
    return [(one["text_tokens"], one["target"]) for one in run.sentences]


def between(run: Run) -> str:
    """What stands between the tokens that are compared."""
    return "" if not run.in_words and run.options["data.target_level"] == "character" else " "


def rates(pairs: Sequence[Pair]) -> dict[int, float]:
    """Of each wrong sentence, by its place, the edits in percent of the reference; most first."""
    found = {
        place: 100 * edit_distance(said, wanted) / max(1, len(wanted))
        for place, (said, wanted) in enumerate(pairs)
        if list(said) != list(wanted)
    }
    return dict(sorted(found.items(), key=lambda one: -one[1]))


def within_limits(
    firsts: dict[str, Run], wrong: dict[str, dict[int, float]]
) -> dict[str, list[int]]:
    """The places of the wrong sentences of each system that the page lists, most errors first.

    All are listed if they are not of words and have room.
    """
    first = next(iter(firsts.values()))
    most = MOST_SENTENCES if first.in_words else len(first.sentences)
    while True:
        listed = {label: list(of_system)[:most] for label, of_system in wrong.items()}
        signs = sum(
            len(first.sentences[place]["source_text"])
            + len(first.sentences[place]["reference"])
            + sum(len(run.sentences[place]["text"]) for run in firsts.values())
            for place in {place for of_system in listed.values() for place in of_system}
        )
        if signs <= MOST_SIGNS or most <= 1:
            return listed
        most //= 2


def second_column(run: Run) -> list[str]:
    """What the second source is called, if there is one."""
    if not any(is_second(token) for one in run.sentences for token in one["source"]):
        return []
    return ["tags" if run.options["data.second_level"] == "tag" else "second source"]


def difference(said: Sequence[str], wanted: Sequence[str], between: str) -> str:
    """Where a text differs from its reference, and how: `a → ä; ∅ → te`."""
    return "; ".join(
        TO.join(between.join(tokens) or NOTHING for tokens in one) for one in _apart(said, wanted)
    )


def _apart(said: Sequence[str], wanted: Sequence[str]) -> Iterator[tuple[list[str], list[str]]]:
    """The tokens that were written and those that were wanted, at each place that differs."""

    def is_kept(edit: tuple[int | None, int | None]) -> bool:
        one, other = edit
        return one is not None and other is not None and said[one] == wanted[other]

    for kept, path in itertools.groupby(edit_path(said, wanted), is_kept):
        if not kept:
            edits = list(path)
            yield (
                [_visible(said[one]) for one, _ in edits if one is not None],
                [_visible(wanted[other]) for _, other in edits if other is not None],
            )


def _visible(token: str) -> str:
    return SPACE if token == " " else token


def confusions(run: Run, pairs: Sequence[Pair]) -> list[list[str]]:
    """The symbols that a run has replaced, left out or written in addition, most often first.

    Returns:
      Rows of what it wrote, what the reference has, how often, and the first example.
    """
    counts: Counter[tuple[str, str]] = Counter()
    examples: dict[tuple[str, str], str] = {}
    for sentence, (said, wanted) in zip(run.sentences, pairs, strict=True):
        if list(said) == list(wanted):
            continue
        for one, other in edit_path(said, wanted):
            edit = (
                NOTHING if one is None else _visible(said[one]),
                NOTHING if other is None else _visible(wanted[other]),
            )
            if edit[0] != edit[1]:
                counts[edit] += 1
                examples.setdefault(edit, f"{sentence['text']}{TO}{sentence['reference']}")
    return [
        [*edit, f"{count:,}", examples[edit]] for edit, count in counts.most_common(MOST_CONFUSIONS)
    ]
