"""Which runs are compared and by which metrics, which of them are one system, and its name."""

import itertools
import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from attn_jax import config
from attn_jax.errors import InputError
from attn_jax.reporting.runs import Run

Systems = dict[str, list[Run]]  # runs by the name of their system, best system first

TITLES = {
    "perplexity": "ppl",
    "token_accuracy": "token %",
    "exact_match": "exact %",
    "bleu": "BLEU",
    "chrf": "chrF",
    "ter": "TER",
    "word_error_rate": "word err. %",
    "symbol_error_rate": "symbol err. %",
    "alignment_accuracy": "aligned %",
    "alignment_shift": "shift",
    "sharpness": "sharpness %",
}
# Metrics shown only for targets in words, and only for symbols or single words.
OF_TEXT = ("token_accuracy", "bleu", "chrf", "ter", "word_error_rate")
OF_SYMBOLS = ("exact_match", "symbol_error_rate")


def by_data(runs: list[Run]) -> dict[str, list[Run]]:
    """Groups the runs that can be compared, by the name of their data set.

    The runs of a group have the same test set, sides and metrics; their training data may differ.
    Names are unique, also as part of a file name (see `stem`).
    """
    groups: dict[tuple, list[Run]] = {}
    for run in runs:
        references = tuple(sentence["reference"] for sentence in run.sentences)
        how = run.measure, run.options["data.bleu_tokenizer"]
        same = run.data, *how, references
        groups.setdefault(same, []).append(run)
    named: dict[str, list[Run]] = {}
    for group in groups.values():
        usual = group[0].data
        names = itertools.chain([usual], (f"{usual}-{nth}" for nth in itertools.count(2)))
        taken = set(map(stem, named))
        named[next(name for name in names if stem(name) not in taken)] = group
    return named


def stem(name: str) -> str:
    """A name as part of a file name, without spaces, which a link in Markdown cannot contain."""
    return re.sub(r"[^\w.-]+", "-", name)


def by_system(runs: list[Run]) -> Systems:
    """Groups the runs that differ only in the seed, by the name of their system, lowest seed first.

    Systems are sorted by the mean of the metric by which they are ranked, best first, and then by
    perplexity, lowest first.

    Raises:
      InputError: what another toolkit wrote has the name of a system that was trained here.
    """
    groups: dict[tuple, list[Run]] = {}
    for run in sorted(runs, key=lambda run: run.seed or 0):
        groups.setdefault(run.system, []).append(run)

    def place(named: tuple[str, list[Run]]) -> tuple[float, float]:
        _, runs = named
        perplexities = [run.metrics.get("perplexity", np.inf) for run in runs]
        return -np.mean([run.quality for run in runs]), np.mean(perplexities)

    firsts = [group[0] for group in groups.values()]
    names = iter(names_of([run for run in firsts if run.trained]))
    labels = [next(names) if run.trained else run.options["label"] for run in firsts]
    for label, count in Counter(labels).items():
        if count > 1:
            raise InputError(
                f"{label} is also a system of the runs: give the weights of the other toolkit "
                "another name"
            )
    return dict(sorted(zip(labels, groups.values(), strict=True), key=place))


def trained(systems: Systems) -> Systems:
    """The systems that were trained here."""
    return {label: runs for label, runs in systems.items() if runs[0].trained}


def first_run(systems: Systems) -> Run:
    """The first run of the best system that was trained here."""
    return next(iter(trained(systems).values()))[0]


def runs_of(systems: Systems) -> list[Run]:
    """The runs of all systems."""
    return [run for runs in systems.values() for run in runs]


def same_tokens(systems: Systems) -> bool:
    """Whether all systems cut text alike, so that what is measured per token can be compared.

    What other toolkits wrote is measured in tokens of the first run.
    """
    return len({run.cutting for run in runs_of(trained(systems))}) == 1


def shown_metrics(systems: Systems) -> list[str]:
    """The metrics that a table of quality has, in order."""
    measured = {name for run in runs_of(systems) for name in run.metrics}
    hidden = {*(OF_SYMBOLS if first_run(systems).in_words else OF_TEXT)}
    if "alignment_accuracy" in measured:
        hidden.add("sharpness")
    return [name for name in TITLES if name in measured - hidden]


def varying_facts(runs: Sequence[Run]) -> list[str]:
    """The names of the facts in which runs differ, except for the seed."""
    facts = [run.facts for run in runs]
    return [n for n in runs[0].facts if n != "seed" and len({of_run[n] for of_run in facts}) > 1]


def names_of(runs: list[Run]) -> list[str]:
    """A unique name for the system of each of these runs.

    The name is the label, or without one the options that vary. If the score varies, it is named,
    and others where they do not have their defaults; otherwise one or two options are always named,
    and more of them only where they do not have their defaults. Options that have changed since the
    run began are named too, where runs differ in them. If two systems have the same name,
    the options are appended to the label. If that is not enough, all facts that vary are listed,
    data, code and decoding included.
    """
    usual = config.values(config.Experiment())
    different = varying_facts(runs)
    differing_options = [name for name in different if name in usual]
    varying = [name for name in differing_options if name != "label"]

    def options(run: Run) -> str:
        told = [name for name in varying if run.options[name] != usual[name]]
        if "model.score" not in varying and (len(varying) <= 2 or not told):
            told = varying
        words = []
        for name in varying:
            if name == "model.score":
                words.append(run.brief(name))
            elif name in told:
                words.append(f"{name.removeprefix('model.')}={run.brief(name)}")
        changed = [run.changed] if run.changed and "changes" in different else []
        return ", ".join([*words, *changed])

    def briefly(run: Run) -> str:
        return run.options["label"] or options(run) or run.brief("model.score")

    def with_options(run: Run) -> str:
        return ", ".join(filter(None, [run.options["label"], options(run)])) or briefly(run)

    def fully(run: Run) -> str:
        score = [] if differing_options else [run.brief("model.score")]
        told = (
            f"{name.removeprefix('model.')}={config.brief(run.facts[name])}" for name in different
        )
        return ", ".join([*score, *told])

    names = list(map(briefly, runs))
    for longer in (with_options, fully):
        counts = Counter(names)
        names = [
            longer(run) if counts[name] > 1 else name for name, run in zip(names, runs, strict=True)
        ]
    return names
