"""The two stages of the tests.

The first (`./launch.sh test`) takes minutes. What it leaves out is marked `full`: tests of whole
programs, and of products of cases all but a few that contain each option. `--all` runs both.
"""

from collections.abc import Mapping

import pytest

full = pytest.mark.full


def covering(cases):
    """A few cases that contain each value of each option, chosen greedily.

    Args:
      cases: mappings from options to values, or sequences of values.
    """
    parts = [{(name, str(value)) for name, value in _items(case)} for case in cases]
    missing, chosen = set().union(*parts), []
    while missing:
        best = max(range(len(cases)), key=lambda nth: len(missing & parts[nth]))
        chosen.append(cases[best])
        missing -= parts[best]
    return chosen


def _items(case):
    return case.items() if isinstance(case, Mapping) else enumerate(case)


def in_stages(cases):
    """The cases as parameters of a test, of which the first stage has a few that cover all."""
    first = covering(cases)
    return [case if case in first else pytest.param(case, marks=full) for case in cases]
