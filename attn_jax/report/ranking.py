"""Which systems of a comparison really differ."""

from attn_jax.evaluation.significance import bleu_differs, counts_differ
from attn_jax.report.cells import Cell

LEVEL = 0.05  # p-values below it are taken for a difference

EXPLANATION = {
    "bleu": "Systems of one rank do not differ in BLEU from the first of it: paired bootstrap over "
    "the sentences, 1,000 samples, p ≥ 0.05.",
    "exact_match": "Systems of one rank do not differ in exact match from the first of it: "
    "approximate randomisation over the sentences, 10,000 draws, p ≥ 0.05.",
}


def differ(first: Cell, second: Cell) -> float:
    """The p-value of two runs being as good as each other, in BLEU or in exact match."""
    sentences = first.sentences, second.sentences
    if first.measure == "bleu":
        references = [sentence["reference"] for sentence in first.sentences]
        texts = ([sentence["text"] for sentence in own] for own in sentences)
        return bleu_differs(*texts, references, first.options["data.bleu_tokenizer"])
    hits = ([s["hypothesis"] == s["target"] for s in own] for own in sentences)
    return counts_differ(*hits)


def ranks(systems: dict[str, list[Cell]]) -> list[int]:
    """The rank of each system; those that do not differ from the first of a rank share it.

    Args:
      systems: best first; runs of one seed are compared where there are such, else the first ones.
    """
    found, leaders = [], None
    for place, cells in enumerate(systems.values(), start=1):
        if leaders is None or differ(*_of_one_seed(leaders, cells)) < LEVEL:
            leaders, rank = cells, place
        found.append(rank)
    return found


def _of_one_seed(first: list[Cell], second: list[Cell]) -> tuple[Cell, Cell]:
    pairs = [(a, b) for a in first for b in second if a.seed == b.seed]
    return min(pairs, key=lambda pair: pair[0].seed, default=(first[0], second[0]))
