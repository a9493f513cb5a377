"""What the files of a run must hold, so that reports can rely on it."""

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from attn_jax.errors import InputError
from attn_jax.evaluation.metrics import METRICS, make_bleu
from attn_jax.files import reading
from attn_jax.records import run_files
from attn_jax.reporting.shapes import (
    COUNT,
    FINITE,
    NUMBER,
    PLACE,
    RATE,
    SETTING,
    TEXT,
    WHOLE,
    Kind,
    Shape,
    check,
    maybe,
    several,
    table,
)

if TYPE_CHECKING:
    from attn_jax.reporting.runs import Run

SENTENCE: dict[str, Kind] = {
    **dict.fromkeys(("source_text", "reference", "text"), TEXT),
    **dict.fromkeys(("source", "target"), several(TEXT, least=1)),
    **dict.fromkeys(("hypothesis", "text_tokens"), several(TEXT)),
    "gold": maybe(several(PLACE), none=None),
}
VALIDATION: dict[str, Kind] = {
    "step": COUNT,
    "steps_per_second": RATE,
    "target_tokens_per_second": RATE,
    "valid_perplexity": NUMBER,  # infinite if training has diverged
}
ALIGNED: dict[str, Kind] = {"alignment_accuracy": FINITE, "alignment_shift": WHOLE}
MAYBE_ALIGNED = {name: maybe(kind) for name, kind in ALIGNED.items()}
EVALUATION: Shape = {
    **dict.fromkeys(("sentences", "step", "parameters"), COUNT),
    "search": table(SETTING),
    "signatures": table(TEXT),
    "metrics": table(NUMBER),
    "explanations": maybe(table(NUMBER)),
    "heads": [{"layer": COUNT, "head": COUNT, "sharpness": FINITE, **MAYBE_ALIGNED}],
}
EXPLANATIONS: dict[str, Kind] = {
    "tokens": COUNT,
    **dict.fromkeys(("without_most", "without_random", "uniform"), NUMBER),
    **dict.fromkeys(("uniform_quality", "rank_agreement"), maybe(NUMBER)),
}


def check_run(run: "Run", split: str) -> None:
    """Raises InputError, which names the file, if a run does not hold what reports need.

    Args:
      run: a run with its evaluation on a split.
      split: the name of the split.
    """
    _check_options(run, run_files.flags(run.folder))
    _check_sentences(run, run_files.predictions(run.folder, split))
    _check_evaluation(run, run_files.evaluation(run.folder, split))
    _check_journal(run, run_files.journal(run.folder))
    _check_weights(run, run_files.alignments(run.folder, split))


def _check_options(run: "Run", file: Path) -> None:
    try:
        make_bleu(run.options["data.bleu_tokenizer"])
    except InputError as error:
        raise InputError(f"{file}: {error}") from error


def _check_sentences(run: "Run", file: Path) -> None:
    check(run.sentences, [SENTENCE], f"{file}: line")
    for number, sentence in enumerate(run.sentences, start=1):
        gold = sentence["gold"]
        if gold is not None and not (
            len(gold) == len(sentence["target"]) and max(gold) < len(sentence["source"])
        ):
            raise InputError(
                f"{file}: line {number} gold must be a source position for each target token"
            )


def _check_evaluation(run: "Run", file: Path) -> None:
    evaluation = run.evaluation
    check(evaluation, EVALUATION, f"{file}:")
    needed = {"perplexity": NUMBER, run.measure: FINITE, **MAYBE_ALIGNED}
    check(evaluation["metrics"], needed, f"{file}: metrics")
    if "alignment_accuracy" in evaluation["metrics"]:
        check(evaluation["metrics"], ALIGNED, f"{file}: metrics")
        check(evaluation["heads"], [ALIGNED], f"{file}: heads")
    if evaluation.get("explanations"):
        check(evaluation["explanations"], EXPLANATIONS, f"{file}: explanations")
    if evaluation["sentences"] != len(run.sentences):
        raise InputError(
            f"{file} is of {evaluation['sentences']} sentences, but {len(run.sentences)} are "
            "beside it"
        )


def _check_journal(run: "Run", file: Path) -> None:
    if not run.journal:
        raise InputError(f"{file} is empty")
    with reading(file):
        known = run.criterion in METRICS
    if not known:
        raise InputError(f"{run_files.flags(run.folder)}: unknown metric {run.criterion!r}")
    wanted = {f"valid_{name}": NUMBER for name in (run.measure, run.criterion)}
    check(run.journal, [VALIDATION | wanted], f"{file}: line")
    for number, (before, line) in enumerate(pairwise(run.journal), start=2):
        if line["step"] <= before["step"]:
            raise InputError(f"{file}: line {number} step must be larger than that before")
    best = run.evaluation.get("step")
    if best is not None and all(line["step"] != best for line in run.journal):
        raise InputError(f"{file} is damaged: it has no line on step {best}, which was evaluated")


def _check_weights(run: "Run", file: Path) -> None:
    count = len(run.weights)
    if not 0 < count <= len(run.sentences):
        raise InputError(f"{file} holds {count} arrays for {len(run.sentences)} sentences")
    heads = np.shape(run.weights[0])[:2]
    for number, (weights, sentence) in enumerate(
        zip(run.weights, run.sentences, strict=False), start=1
    ):
        said, source = len(sentence["hypothesis"]), len(sentence["source"])
        # The end of the sentence has weights too, unless the longest was reached before it.
        possible = [(*heads, steps, source) for steps in (said, said + 1) if steps]
        if weights.dtype.kind != "f" or 0 in heads or weights.shape not in possible:
            raise InputError(
                f"{file}: weights {list(weights.shape)} ({weights.dtype}) of sentence {number} do "
                f"not fit its {said} target and {source} source tokens"
            )
    _check_pictures(run, file)


def _check_pictures(run: "Run", file: Path) -> None:
    """Raises InputError if what else is shown of the first sentences does not fit them."""
    sides = zip(run.weights, run.sentences, strict=False)
    sizes = [(one.shape, len(sentence["target"]) + 1) for one, sentence in sides]
    wanted = {
        "reference": [(*shape[:2], steps, shape[3]) for shape, steps in sizes],
        "sizes": [(*shape[:2], 1, shape[3]) for shape, _ in sizes],
        "posterior": [shape[2:] for shape, _ in sizes],
        "reference_posterior": [(steps, shape[3]) for shape, steps in sizes],
    }
    for name, arrays in run.pictures.items():
        if name not in wanted:
            raise InputError(f"{file}: unknown arrays {name!r}")
        kinds = {array.dtype.kind for array in arrays}
        if kinds != {"f"} or [array.shape for array in arrays] != wanted[name]:
            raise InputError(f"{file}: {name} does not fit the {len(run.weights)} sentences")
