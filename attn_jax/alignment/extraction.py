"""Links from weights between words: of one direction, and of both as one set.

Links are sets of (source, target) positions, counted from 0, without the end of the sentence.
"""

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from attn_jax.data.alignment_files import Links
from attn_jax.settings.value import Value, setting


class Extraction(Value):
    """A way to make links from weights."""

    name = "way to make links"

    def __call__(self, weights: np.ndarray) -> Links:
        """The links, from weights [T, S]."""
        raise NotImplementedError


class Argmax(Extraction):
    """Links each target word to the source word with the largest weight.

    A target word has no link if at least as much weight is on no source word, as with a null
    normalizer or a window.
    """

    def __call__(self, weights: np.ndarray) -> Links:
        """The links, from weights [T, S]."""
        nothing = 1 - weights.sum(axis=1)
        linked = weights.max(axis=1) > nothing
        return {(int(row.argmax()), step) for step, row in enumerate(weights) if linked[step]}


class Threshold(Extraction):
    """Links each target word to all source words with a weight of `least` or more, if any."""

    least: float = setting(0.3, above=0, high=1)

    def __call__(self, weights: np.ndarray) -> Links:
        """The links, from weights [T, S]."""
        targets, sources = np.nonzero(weights >= self.least)
        return set(zip(sources.tolist(), targets.tolist(), strict=True))


class Monotonic(Extraction):
    """The links of the largest product of weights among those that go from left to right.

    Each word of the longer side has one link, to the same word as the word before it or to the next
    one, and no word of the shorter side is left out. Kim, Kim, Kong and Yoon 2020, algorithm 1
    (monotonic alignment search), where the target is longer.
    """

    def __call__(self, weights: np.ndarray) -> Links:
        """The links, from weights [T, S]."""
        if not weights.size:
            return set()
        if len(weights) < weights.shape[1]:
            return turned(self(weights.T))
        logarithms = np.log(np.maximum(weights, 1e-30))
        best = np.full(weights.shape, -np.inf)  # of links so far, of which the last is this one
        best[0, 0] = logarithms[0, 0]
        for step in range(1, len(best)):
            moved = np.append(-np.inf, best[step - 1, :-1])
            best[step] = np.maximum(best[step - 1], moved) + logarithms[step]
        links, at = set(), weights.shape[1] - 1
        for step in reversed(range(len(best))):
            links.add((at, step))
            if at and best[step - 1, at - 1] > best[step - 1, at]:
                at -= 1
        return links


EXTRACTIONS: dict[str, type[Extraction]] = {one.name: one for one in (Argmax, Threshold, Monotonic)}


def turned(links: Links) -> Links:
    """Links of the opposite direction, with source and target swapped."""
    return {(target, source) for source, target in links}


def intersection(forward: Links, backward: Links) -> Links:
    """Links of both directions."""
    return forward & backward


def union(forward: Links, backward: Links) -> Links:
    """Links of either direction."""
    return forward | backward


def grow_diag(forward: Links, backward: Links) -> Links:
    """The intersection, and links of either direction that are adjacent to accepted links.

    A link is added if one of its words has no link yet. Koehn, Och and Marcu 2003, section 4.5.
    """
    either, links = forward | backward, set(forward & backward)
    sources, targets = _linked(links)
    before = None
    while before != len(links):
        before = len(links)
        for link in sorted(either):
            for beside in _around(*link) if link in links else ():
                free = beside[0] not in sources or beside[1] not in targets
                if free and beside in either:
                    links.add(beside)
                    sources.add(beside[0])
                    targets.add(beside[1])
    return links


def grow_diag_final(forward: Links, backward: Links) -> Links:
    """`grow_diag`, then links of either direction of which at least one word has no link yet."""
    return _final(grow_diag(forward, backward), forward, backward, any)


def grow_diag_final_and(forward: Links, backward: Links) -> Links:
    """`grow_diag`, then links of either direction of which neither word has a link yet."""
    return _final(grow_diag(forward, backward), forward, backward, all)


def _final(links: Links, forward: Links, backward: Links, free: Callable) -> Links:
    sources, targets = _linked(links)
    links = set(links)
    for direction in (forward, backward):
        for source, target in sorted(direction):
            if free((source not in sources, target not in targets)):
                links.add((source, target))
                sources.add(source)
                targets.add(target)
    return links


def _linked(links: Links) -> tuple[set[int], set[int]]:
    return {source for source, _ in links}, {target for _, target in links}


def _around(source: int, target: int) -> list[tuple[int, int]]:
    """The eight neighbours of a link, horizontal and vertical ones first."""
    steps = [(-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)]
    return [(source + down, target + right) for down, right in steps]


class Symmetrization(Value):
    """A way to combine both directions."""

    def __call__(self, forward: np.ndarray, backward: np.ndarray, extract: Extraction) -> Links:
        """The links, from weights [T, S] and [S, T], and the way to make links of each."""
        raise NotImplementedError


class _OfLinks(Symmetrization):
    """A way to combine the links of both directions."""

    combine: ClassVar[Callable[[Links, Links], Links]]

    def __call__(self, forward: np.ndarray, backward: np.ndarray, extract: Extraction) -> Links:
        """The links, from weights [T, S] and [S, T], and the way to make links of each."""
        return type(self).combine(extract(forward), turned(extract(backward)))


class Intersection(_OfLinks):
    """See `intersection`."""

    combine = staticmethod(intersection)


class Union(_OfLinks):
    """See `union`."""

    combine = staticmethod(union)


class GrowDiag(_OfLinks):
    """See `grow_diag`."""

    combine = staticmethod(grow_diag)


class GrowDiagFinal(_OfLinks):
    """See `grow_diag_final`."""

    combine = staticmethod(grow_diag_final)


class GrowDiagFinalAnd(_OfLinks):
    """See `grow_diag_final_and`."""

    combine = staticmethod(grow_diag_final_and)


class Agreement(Symmetrization):
    """Links for which the geometric mean of both directions' weights is at least `least`.

    After Liang, Taskar and Klein 2006, section 3.2, who multiply posteriors.
    """

    least: float = setting(0.2, above=0, high=1)

    def __call__(self, forward: np.ndarray, backward: np.ndarray, extract: Extraction) -> Links:
        """The links, from weights [T, S] and [S, T]; negative weights link nothing."""
        positive = np.maximum(forward, 0) * np.maximum(backward.T, 0)
        return Threshold(least=self.least)(np.sqrt(positive))


SYMMETRIZATIONS: dict[str, type[Symmetrization]] = {
    one.name: one
    for one in (Intersection, Union, GrowDiag, GrowDiagFinal, GrowDiagFinalAnd, Agreement)
}
