"""The text of a page: what was compared, how, and by which metrics."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from attn_jax import config
from attn_jax.records import provenance
from attn_jax.reporting.profiles import Profile
from attn_jax.reporting.runs import Run
from attn_jax.reporting.systems import (
    Systems,
    first_run,
    runs_of,
    same_tokens,
    trained,
    varying_facts,
)


def about(
    systems: Systems,
    profile: Profile,
    text: Callable[[str], str] = str,
    code: Callable[[str], str] = str,
) -> Iterator[str]:
    """Paragraphs on what was compared, and how.

    Args:
      systems: the systems.
      profile: their quality by source length.
      text, code: how texts and options are written.
    """
    others = [label for label, (run, *_) in systems.items() if not run.trained]
    systems = trained(systems)
    yield text(evaluated(systems))
    if others:
        yield text(
            f"Of other toolkits: {', '.join(others)}. What their files have is scored against the "
            f"same references, its symbols those of {next(iter(systems))}."
        )
    yield from map(text, own_tokens(systems, profile))
    if shared := " ".join(shared_options(systems)):
        yield f"Options of all systems: {code(shared)}"
    yield from map(text, changed(systems))
    yield from map(text, made(systems))
    for label, options in labelled(systems).items():
        yield f"{text(label)}: {code(' '.join(options)) if options else 'only defaults'}"
    first = first_run(systems)
    if first.in_words:
        for name, signature in first.evaluation["signatures"].items():
            yield f"{name}: {code(signature)}"


def evaluated(systems: Systems) -> str:
    """On what the systems were evaluated, and how."""
    criteria = dict.fromkeys(run.criterion for run in runs_of(systems))
    metrics = " or ".join(criteria).replace("_", " ")
    return (
        f"{first_run(systems).evaluation['sentences']} test sentences; mean ± standard deviation "
        f"over seeds. Each run is evaluated at the checkpoint with its best validation {metrics}. "
        f"{searches(systems)}"
    )


def own_tokens(systems: Systems, profile: Profile) -> Iterator[str]:
    """What cannot be compared of systems that cut text into different tokens."""
    if not same_tokens(systems):
        lengths = f" Lengths are in tokens of {next(iter(systems))}."
        yield (
            "The systems cut text into different tokens: perplexity, token accuracy and symbol "
            "error rate are computed on each system's own tokens, and cannot be compared."
            + (lengths if profile.tells_more else "")
        )


def made(systems: Systems) -> Iterator[str]:
    """By which versions and on which devices the runs were trained, and warnings if these differ.

    Runs that were made before this was recorded are left out.
    """
    known = [
        (label, of_session)
        for label, runs in systems.items()
        for run in runs
        for of_session in run.sessions
    ]
    if not known:
        return
    told = of_each((label, provenance.summary(of_session)) for label, of_session in known)
    yield f"Trained by {told}."
    versions = dict.fromkeys(of_session["versions"]["jax"] for _, of_session in known)
    devices = dict.fromkeys(of_session["devices"]["kind"] for _, of_session in known)
    for what, values in (
        ("by different versions of JAX", versions),
        ("on different kinds of device", devices),
    ):
        if len(values) > 1:
            yield (
                f"Warning: these runs were trained {what} ({', '.join(values)}). Their speed "
                "cannot be compared, and sums are rounded differently."
            )


def changed(systems: Systems) -> Iterator[str]:
    """Which options have changed in the course of a run, where its label does not say so."""
    told = [
        f"{label}: {run.changed}"
        for label, (run, *_) in systems.items()
        if run.changed not in label
    ]
    if told:
        yield f"Options that changed in the course of training: {'; '.join(told)}."


def labelled(systems: Systems) -> dict[str, list[str]]:
    """The options of each label, as flags, if any vary."""
    usual = config.values(config.Experiment())
    varying = [
        name for name in varying_facts(runs_of(systems)) if name in usual and name != "label"
    ]
    options_of = {
        label: [
            f"--{name}={run.brief(name)}" for name in varying if run.options[name] != usual[name]
        ]
        for label, (run, *_) in systems.items()
        if run.options["label"]
    }
    return options_of if varying else {}


def separated(first: Run, run: Run) -> str:
    """Why runs are not compared with others of the same name, of which `first` is one."""
    why = "their test sentences are others"
    if run.measure != first.measure:
        why = "BLEU measures sentences, exact match symbols and single words"
    elif run.options["data.bleu_tokenizer"] != first.options["data.bleu_tokenizer"]:
        why = "their BLEU is of other tokens"
    return f"These systems are not compared with those of {first.data}, since {why}."


def unfinished(systems: Systems) -> Iterator[str]:
    """Names the systems with a run that was not trained to its end."""
    labels = [
        label for label, runs in trained(systems).items() if any(run.interrupted for run in runs)
    ]
    if labels:
        yield f"Not trained to the end: {', '.join(labels)}."


def shared_options(systems: Systems) -> list[str]:
    """The options that all runs have and that are not the defaults, as flags."""
    first, *others = [run.options for run in runs_of(systems)]
    return [
        f"--{name}={config.brief(first[name])}"
        for name, usual in config.values(config.Experiment()).items()
        if first[name] != usual and all(options[name] == first[name] for options in others)
    ]


def searches(systems: Systems) -> str:
    """How each system was decoded."""
    told = of_each((label, run.search) for label, runs in trained(systems).items() for run in runs)
    return f"Decoding: {told}."


def of_each(facts: Iterable[tuple[str, str]]) -> str:
    """Facts about labels, each after the labels of which it is true, or alone if true of all."""
    labels: dict[str, dict[str, None]] = {}
    for label, fact in facts:
        labels.setdefault(fact, {})[label] = None
    if len(labels) == 1:
        return next(iter(labels))
    return "; ".join(f"{', '.join(names)}: {fact}" for fact, names in labels.items())


def listed(names: Sequence[str], most: int = 8) -> str:
    """Names as in a sentence; of more than `most`, the first ones."""
    if len(names) > most:
        names = [*names[:most], f"{len(names) - most} more"]
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
