"""The edits that turn a hypothesis into its reference. Levenshtein 1966."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from attn_jax.tokens import EOS, SPECIALS


def edit_distance(hypothesis: Sequence, reference: Sequence) -> int:
    """Fewest insertions, deletions and substitutions between two sequences."""
    if list(hypothesis) == list(reference):  # as most are, of a good system
        return 0
    (*_, last) = _rows(hypothesis, reference)
    return int(last[-1])


def edit_path(hypothesis: Sequence, reference: Sequence) -> list[tuple[int | None, int | None]]:
    """The places, in both sequences, of each token that is kept, replaced, inserted or deleted.

    The errors of the path are as many as `edit_distance` says: places of tokens that differ, and
    places with None on the other side. Of several such paths, it is one with the most tokens kept,
    and where these can be paired in several ways, each is paired as early as possible.
    """
    edit = min(len(hypothesis), len(reference)) + 1  # more than all substitutions of a path
    # With substitutions a little dearer, the cheapest path has the fewest errors, and then the
    # fewest substitutions, which is the most tokens kept. Costs are those of what is left to do.
    costs = np.stack([*_rows(hypothesis[::-1], reference[::-1], edit, edit + 1)])[::-1, ::-1]
    path: list[tuple[int | None, int | None]] = []
    said = wanted = 0
    while said < len(hypothesis) or wanted < len(reference):
        left = costs[said, wanted]
        if said < len(hypothesis) and wanted < len(reference):
            change = 0 if hypothesis[said] == reference[wanted] else edit + 1
            if left == change + costs[said + 1, wanted + 1]:
                path.append((said, wanted))
                said, wanted = said + 1, wanted + 1
                continue
        if said < len(hypothesis) and left == edit + costs[said + 1, wanted]:
            path.append((said, None))
            said += 1
        else:
            path.append((None, wanted))
            wanted += 1
    return path


class Edits(NamedTuple):
    """How a sentence differs from its reference, by the edits that its error rate counts."""

    kept: list[tuple[int, int]]  # the places of a token in both
    wrong: list[tuple[int, int | None]]  # of one that replaces another, or that is too many
    missing: list[tuple[int, int]]  # the place before which a token is missing, and its own


def edits_of(said: Sequence[str], reference: Sequence[str]) -> Edits:
    """The edits of what a system wrote.

    Args:
      said: with or without the end of the sentence, which is no error.
      reference: without the end of the sentence.
    """
    if said and said[-1] == SPECIALS[EOS]:
        said = said[:-1]
    edits, following = Edits([], [], []), 0
    for place, wanted in edit_path(said, reference):
        if place is None:
            assert wanted is not None  # an edit has a place on one side
            edits.missing.append((following, wanted))
            continue
        following = place + 1
        if wanted is not None and said[place] == reference[wanted]:
            edits.kept.append((place, wanted))
        else:
            edits.wrong.append((place, wanted))
    return edits


def _rows(
    hypothesis: Sequence, reference: Sequence, edit: int = 1, substitution: int = 1
) -> Iterator[np.ndarray]:
    """The lowest cost of turning each beginning of the hypothesis into each of the reference.

    Args:
      hypothesis, reference: the sequences, of tokens that can be hashed.
      edit: the cost of an insertion or deletion.
      substitution: the cost of a substitution, at most that of two edits.
    """
    steps = edit * np.arange(len(reference) + 1)
    row = steps
    codes: dict = {}
    columns = np.array([codes.setdefault(token, len(codes)) for token in reference], int)
    yield row
    for token in hypothesis:
        substituted = row[:-1] + substitution * (columns != codes.get(token, -1))
        row = row + edit
        row[1:] = np.minimum(row[1:], substituted)
        # Insertions run along the row: the best cell to the left, plus the distance from it.
        row = np.minimum.accumulate(row - steps) + steps
        yield row
