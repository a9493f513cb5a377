"""What `align` says of links and gold links."""

import pytest

from attn_jax.cli.align import print_errors
from attn_jax.data.alignment_files import Gold
from attn_jax.evaluation.significance import FEWEST


@pytest.mark.parametrize(("pairs", "shown"), [(2, "–"), (FEWEST, "0.001")])  # noqa: RUF001
def test_pairs_too_few_for_a_p_value_are_told(capsys, pairs, shown):
    right, wrong = {(0, 0), (1, 1)}, {(0, 0), (1, 0)}
    links = {"forward": [wrong] * pairs, "reverse": [right] * pairs}
    print_errors(links, [Gold(right, right)] * pairs)
    told = capsys.readouterr().err
    assert "p vs reverse" in told
    assert shown in told
    warning = f"warning: {pairs} pairs are too few to tell links apart: p needs at least {FEWEST}"
    assert (warning in told) == (pairs < FEWEST)
