"""Whether the weights of systems matter, of those of which an evaluation has measured it."""

import math

from attn_jax.reporting import tables
from attn_jax.reporting.systems import Systems

TITLE = "Do the weights matter?"
COLUMNS = {
    "without_most": "loss without most attended",
    "without_random": "loss without another",
    "uniform": "loss with equal weights",
    "uniform_quality": "points lost with equal weights",
    "rank_agreement": "τ with gradient \N{MULTIPLICATION SIGN} input",
}
ABOUT = (
    "Loss: by how many nats the log-probability of a token of the reference falls, in the mean, if "
    "the source token with its largest weight (mean over layers and heads) has no weight at its "
    "step, or another one, drawn at random, has none (Serrano and Smith 2019). A small loss does "
    "not show that the hidden token was not used: its neighbours' annotations and the decoder's "
    "state hold it too.",
    "Loss with equal weights: all weights of all steps are equal, in the model as it was trained "
    "(Wiegreffe and Pinter 2019). A large loss shows that this model relies on its weights, not "
    "that another would need any: for that, train one with model.score=mean. Points lost: the same "
    "for translations, by how much their BLEU falls, or for symbols and single words, the "
    "percentage that match exactly. Of a hundred sentences, it varies by some points.",
    "τ: Kendall's rank correlation of a target token's weights with the absolute values of "
    "gradient \N{MULTIPLICATION SIGN} input of the source tokens, mean over target tokens (Jain "
    "and Wallace 2019). A low one does not show that the weights are wrong: gradients are no "
    "ground truth either, and τ counts the order of small weights as much as that of large ones.",
)


def explanations(systems: Systems) -> tables.Table | None:
    """The figures of the systems that have some; None if none has."""
    rows = []
    for label, runs in systems.items():
        measured = [run.explanations for run in runs if run.explanations]
        if not measured:
            continue
        tokens = {of_run["tokens"] for of_run in measured}
        cells = []
        for name in COLUMNS:
            values = [of_run[name] for of_run in measured if name in of_run]
            cells.append(tables.mean_and_deviation(values or [math.nan], 3))
        rows.append([label, ", ".join(f"{count:,}" for count in sorted(tokens)), *cells])
    return tables.Table(["system", "target tokens", *COLUMNS.values()], rows) if rows else None
