"""Which systems of a comparison really differ."""

from attn_jax.evaluation.significance import bleu_differs, counts_differ
from attn_jax.report.cells import Cell
from attn_jax.report.systems import Systems

LEVEL = 0.05  # p-values below it are taken for a difference

EXPLANATION = {
    "bleu": "A rank begins with a system that differs in BLEU from every one of the rank above, in "
    "each seed that both have: paired bootstrap over the sentences, 1,000 samples, p < 0.05.",
    "exact_match": "A rank begins with a system that differs in exact match from every one of the "
    "rank above, in each seed that both have: approximate randomisation over the sentences, 10,000 "
    "draws, p < 0.05.",
}


def p_value(first: Cell, second: Cell) -> float:
    """The p-value of two runs being as good as each other, in BLEU or in exact match."""
    sentences = first.sentences, second.sentences
    if first.measure == "bleu":
        references = [sentence["reference"] for sentence in first.sentences]
        texts = ([sentence["text"] for sentence in own] for own in sentences)
        return bleu_differs(*texts, references, first.options["data.bleu_tokenizer"])
    hits = ([s["hypothesis"] == s["target"] for s in own] for own in sentences)
    return counts_differ(*hits)


def better(first: list[Cell], second: list[Cell]) -> bool:
    """Whether a system is better than another in each seed that both have, and significantly.

    Where they have no seed in common, their first runs are compared.
    """
    pairs = [(a, b) for a in first for b in second if a.seed == b.seed]
    return all(
        a.evaluation[a.measure] > b.evaluation[b.measure] and p_value(a, b) < LEVEL
        for a, b in pairs or [(first[0], second[0])]
    )


def ranks(systems: Systems) -> list[int]:
    """The rank of each system, best first: one begins where all of the rank above are better."""
    found, above = [], []
    for place, cells in enumerate(systems.values(), start=1):
        if all(better(other, cells) for other in above):
            above, rank = [], place
        above.append(cells)
        found.append(rank)
    return found
