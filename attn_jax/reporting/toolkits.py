"""What other toolkits wrote for a test set, as systems beside those that were trained here."""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

from attn_jax import config
from attn_jax.data.run_vocabularies import load_vocabulary
from attn_jax.errors import InputError
from attn_jax.evaluation.given import assess_given
from attn_jax.pairs import Given, PathLike, Weighed, read_pairs, text_of, word_indices
from attn_jax.records import run_files
from attn_jax.reporting.runs import Run

Toolkits = Mapping[str, Sequence[Weighed]]  # pairs by the name of their system


def read_toolkits(weights: Mapping[str, PathLike | Given]) -> Toolkits:
    """The pairs of systems, checked.

    Raises:
      InputError: a file cannot be read, or what is given is not such pairs.
    """
    if not isinstance(weights, Mapping):
        raise InputError("weights are given by the names of their systems, as {'marian': pairs}")
    return {name: read_pairs(name, given) for name, given in weights.items()}


def beside(firsts: Sequence[Run], toolkits: Toolkits) -> list[list[Run]]:
    """What toolkits wrote for the test sets of some runs, as runs.

    It is of each test set with as many sentences; if the sources of some are those of the pairs, of
    these alone, else with a warning.

    Args:
      firsts: a run of each test set that was trained here.
      toolkits: the pairs of each.

    Returns:
      Runs for each test set.

    Raises:
      InputError: no test set has as many sentences.
    """
    found: list[list[Run]] = [[] for _ in firsts]
    for name, pairs in toolkits.items():
        counts = {nth: len(first.sentences) for nth, first in enumerate(firsts)}
        runs = {nth: _run(firsts[nth], name, pairs) for nth in counts if counts[nth] == len(pairs)}
        if not runs:
            raise InputError(
                f"{name} has {len(pairs)} pairs, and must have one for each test sentence, in "
                f"their order: {' or '.join(map(str, sorted({*counts.values()})))}"
            )
        sure = {nth: run for nth, run in runs.items() if not run.doubt}
        for nth, run in (sure or runs).items():
            if run.doubt:
                warnings.warn(run.doubt, stacklevel=2)
            found[nth].append(run)
    return found


def _run(first: Run, name: str, pairs: Sequence[Weighed]) -> Run:
    """The pairs of a toolkit, scored against the references of a run."""
    sources = [one["source_text"] for one in first.sentences]
    level, tokenizer = (first.options[f"data.{n}"] for n in ("target_level", "bleu_tokenizer"))
    assessment = assess_given(
        pairs,
        sources,
        [one["reference"] for one in first.sentences],
        load_vocabulary(run_files.vocabulary(first.folder, "target")),
        tokenizer,
        level,
    )
    of_data = {name: value for name, value in first.options.items() if name.startswith("data.")}
    return Run(
        config.values(config.Experiment()) | of_data | {"label": name},
        {
            "sentences": len(pairs),
            "metrics": assessment.metrics,
            "heads": assessment.heads,
            "signatures": assessment.signatures,
            "search": {},
        },
        [],
        assessment.sentences,
        {place: pair.weights for place, pair in enumerate(pairs)},
        first.content,
        Path(name),
        trained=False,
        doubt=_of_others(name, pairs, sources),
    )


def _of_others(name: str, pairs: Sequence[Weighed], sources: Sequence[str]) -> str:
    """That most sources do not have the letters of those of the test set; empty if they do."""

    def letters(text: str) -> list[str]:
        return list(filter(str.isalnum, text))

    given = [text_of(pair.source, word_indices(pair.source, pair.source_words)) for pair in pairs]
    different = [
        number
        for number, (own, source) in enumerate(zip(given, sources, strict=True))
        if letters(own) != letters(source)
    ]
    if 2 * len(different) <= len(pairs):
        return ""
    one = different[0]
    return (
        f"{name}: most sources are not those of the test set, such as that of pair {one + 1}: "
        f"{given[one]!r}, where the test set has {' '.join(sources[one].split())!r}."
    )
