"""The two stages of the tests.

The first (`./launch.sh test`) has the units. The second has whole programs, and more cases of what
the first has a case of, which are marked `full`; `--all` runs both. Of products of cases, both
leave out all but a few that contain each option: the others are marked `slow`, and run with
`-m slow`.
"""

from collections.abc import Mapping

import pytest

full = pytest.mark.full
slow = pytest.mark.slow


def covering(cases, seen=None):
    """A few cases that contain each value of each option, chosen greedily.

    Args:
      cases: mappings from options to values, or sequences of values.
      seen: the options that matter; all if it is left out.
    """
    parts = [
        {(name, str(value)) for name, value in _items(case) if seen is None or name in seen}
        for case in cases
    ]
    missing, chosen = set().union(*parts), []
    while missing:
        best = max(range(len(cases)), key=lambda nth: len(missing & parts[nth]))
        chosen.append(cases[best])
        missing -= parts[best]
    return chosen


def _items(case):
    return case.items() if isinstance(case, Mapping) else enumerate(case)


def few(cases, seen=None):
    """The cases as parameters of a test, of which all but those of `covering` are slow."""
    first = covering(cases, seen)
    return [case if case in first else pytest.param(case, marks=slow) for case in cases]
