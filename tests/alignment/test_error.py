"""The alignment error rate, worked out by hand and on published links."""

from pathlib import Path

import pytest

from attn_jax.alignment.accuracy import alignment_error
from attn_jax.data.alignment_files import Gold, read_gold
from attn_jax.data.lines import read_lines
from attn_jax.errors import InputError

HANSARDS = Path(__file__).parents[3] / "shared" / "data" / "hansards_align_enfr"


def test_alignment_error_by_hand():
    # Of four links three are possible, two of them sure; one sure link was not made.
    made = [{(0, 0), (1, 1), (2, 2)}, {(5, 5)}]
    golds = [
        Gold(frozenset({(0, 0), (1, 1)}), frozenset({(0, 0), (1, 1), (2, 2)})),
        Gold(frozenset({(0, 1)}), frozenset({(0, 1)})),
    ]
    assert alignment_error(made, golds) == {
        "alignment_error_rate": pytest.approx(100 * (1 - (2 + 3) / (4 + 3))),
        "precision": pytest.approx(75),
        "recall": pytest.approx(200 / 3),
        "f1": pytest.approx(2 * 75 * 200 / 3 / (75 + 200 / 3)),
    }
    with pytest.raises(InputError, match="no alignment error without links"):
        alignment_error([set()], golds[:1])


@pytest.mark.skipif(not HANSARDS.is_dir(), reason="the Hansards are not beside the project")
def test_the_diagonal_of_the_hansards():
    """53 percent, as in the notes of the data: French word j links to (j + 0.5) I / J."""
    english, french = (read_lines(HANSARDS / f"gold.testA.{side}") for side in ("en", "fr"))
    sizes = [(len(e.split()), len(f.split())) for e, f in zip(english, french, strict=True)]
    golds = read_gold(HANSARDS / "gold.testA.align", sizes)
    diagonal = [{(int((j + 0.5) * e / f), j) for j in range(f)} for e, f in sizes]
    figures = alignment_error(diagonal, golds)
    assert figures["alignment_error_rate"] == pytest.approx(53.2, abs=0.1)
