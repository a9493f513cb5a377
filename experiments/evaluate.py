"""Evaluates a run: `./launch.sh evaluate --workdir=runs/mine --split=test --beam_size=5`.

This replaces the run's earlier results for that split, which reports read. With two files of any
other text, `--sources=new.de --targets=new.en`, one sentence per line, it prints the same metrics
and writes nothing into the run; then, `--workdir=runs/mine/checkpoints/1500` chooses a checkpoint.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from absl import flags as absl_flags
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from attn_jax.data.datasets import Corpus, Example, open_corpus
from attn_jax.data.text_files import check_complete, read_pairs
from attn_jax.errors import InputError
from attn_jax.evaluation.assess import Assessment, assess
from attn_jax.evaluation.metrics import ter
from attn_jax.files import writing
from attn_jax.loading import best_checkpoint, experiment_of, load, located
from attn_jax.translator import Translator
from experiments import flags
from experiments.examples import check_lengths, encode, fits, warn_of_unknown
from experiments.flags import FLAGS
from experiments.folder import SPLITS, check_content, evaluation_file
from experiments.program import run

PICTURED = 16  # sentences whose alignments are kept for figures


def evaluate_split(workdir: Path, corpus: Corpus, split: str, search: dict[str, Any]) -> dict:
    """Translates a split with the best checkpoint and writes the results into the workdir.

    Args:
      workdir: the folder of the run.
      corpus: the data that the run was trained on.
      split: `train`, `validation` or `test`.
      search: options of `attn_jax.decoding.options.Search`.

    Returns:
      The content of `evaluation.<split>.json`: the split, and the figures from `measure`.

    Raises:
      InputError: another checkpoint has become the best in the meantime.
    """
    checkpoint = best_checkpoint(workdir)
    translator = load(checkpoint)
    examples = corpus.examples(split)
    if split == "train":
        examples = usable(translator, examples)
    result, assessment = measure(checkpoint, translator, examples, search)
    result = {"split": split, **result}
    if best_checkpoint(workdir) != checkpoint:
        raise InputError(f"{workdir} has been trained on in the meantime: evaluate it again")
    write(workdir, result, assessment)
    return result


def evaluate_text(
    checkpoint: Path, pairs: Sequence[tuple[str, str]], search: dict[str, Any]
) -> dict:
    """Translates any text with a checkpoint; writes nothing.

    Args:
      checkpoint: its folder in a run.
      pairs: sentences with their translations.
      search: options of `attn_jax.decoding.options.Search`.

    Returns:
      The figures from `measure`.

    Raises:
      InputError: a sentence has no token, or more than the run allows.
    """
    translator = load(checkpoint)
    examples = [Example(*pair) for pair in pairs]
    source, target = translator.source, translator.target
    check_lengths("text", encode(examples, source, target), translator.max_length)
    warn_of_unknown(source, [one.source for one in examples], "source: ")
    warn_of_unknown(target, [one.target for one in examples], "target: ")
    result, _ = measure(checkpoint, translator, examples, search)
    return result


def measure(
    checkpoint: Path,
    translator: Translator,
    examples: Sequence[Example],
    search: dict[str, Any],
) -> tuple[dict, Assessment]:
    """Translates and scores examples.

    Args:
      checkpoint: the folder of the checkpoint that the translator was loaded from.
      translator: the model.
      examples: at least one.
      search: options of `attn_jax.decoding.options.Search`.

    Returns:
      A dictionary of the figures, also those of each head, with their signatures, the search, the
      step of the checkpoint and the numbers of sentences and parameters; and the assessment, which
      holds the sentences and their weights.
    """
    data = experiment_of(checkpoint.parents[1]).data
    assessment = assess(translator, examples, data.bleu_tokenizer, search)
    figures, signatures = dict(assessment.figures), dict(assessment.signatures)
    if data.target_level in ("word", "subword"):
        # Only for text, and not during training: TER is slow where hypotheses are far off.
        texts, references = zip(
            *((s["text"], s["reference"]) for s in assessment.sentences), strict=True
        )
        figures["ter"], signatures["ter"] = ter(texts, references)
    result = {
        "step": int(checkpoint.name),
        "sentences": len(assessment.sentences),
        "parameters": sum(leaf.size for leaf in jax.tree.leaves(translator.models)),
        **figures,
        "search": search,
        "heads": assessment.heads,
        "signatures": signatures,
    }
    return result, assessment


def write(workdir: Path, result: dict, assessment: Assessment) -> None:
    """Replaces the results of a split in the folder of a run."""
    split = result["split"]
    predictions = workdir / f"predictions.{split}.jsonl"
    alignments = workdir / f"alignments.{split}.npz"
    evaluation = evaluation_file(workdir, split)
    with writing(predictions, alignments, evaluation) as beside:
        lines = (json.dumps(one, ensure_ascii=False) + "\n" for one in assessment.sentences)
        beside[0].write_text("".join(lines), "utf-8")
        with beside[1].open("wb") as file:
            np.savez(file, *assessment.weights[:PICTURED])
        beside[2].write_text(json.dumps(result, indent=2) + "\n", "utf-8")
        evaluation.unlink(missing_ok=True)  # must not lie beside sentences of another evaluation


def usable(translator: Translator, examples: Sequence[Example]) -> list[Example]:
    """Leaves out training pairs that are empty or too long; other splits must not have any."""
    pairs = encode(examples, translator.source, translator.target)
    found = [
        example
        for example, pair in zip(examples, pairs, strict=True)
        if fits(pair, translator.max_length)
    ]
    if len(found) < len(examples):
        print(
            f"{len(examples) - len(found)} pairs left out, empty or of over "
            f"{translator.max_length} tokens"
        )
    return found


def print_evaluation(text: str, result: dict, chosen: str = "the best on validation") -> None:
    """Prints the figures of a split or of a text as a table.

    Args:
      text: the name of the split or text, for the title.
      result: the figures from `measure`.
      chosen: how the checkpoint was chosen.
    """
    table = Table(title=f"{escape(text)}, {result['sentences']} sentences")
    table.add_column("figure")
    table.add_column("value", justify="right")
    whole = {"parameters": "{:,}", "alignment_shift": "{:+d}"}
    for name, value in result.items():
        if isinstance(value, float) or name in whole:
            table.add_row(name.replace("_", " "), whole.get(name, "{:.2f}").format(value))
    console = Console()
    console.print(table)
    console.print(f"checkpoint: step {result['step']}, {chosen}", highlight=False)
    options = [f"{name}={value}" for name, value in result["search"].items()]
    console.print(f"decoding: {', '.join(options) or 'greedy'}", highlight=False)
    for name, signature in result["signatures"].items():
        console.print(f"{name}: {signature}", highlight=False, soft_wrap=True)


def check_flags() -> None:
    """Raises InputError unless the flags name either a split or a pair of files."""
    if bool(FLAGS.sources) != bool(FLAGS.targets):
        raise InputError("give both --sources and --targets, or neither")
    if FLAGS.sources and FLAGS["split"].present:
        raise InputError("give --split or another text, by --sources and --targets")


def main() -> None:
    """Evaluates one split, or the text of two files."""
    check_flags()
    place, search = Path(FLAGS.workdir), flags.search()
    workdir, _ = located(place)
    data = experiment_of(workdir).data
    if FLAGS.sources:
        sources, targets = Path(FLAGS.sources), Path(FLAGS.targets)
        pairs = read_pairs((sources, targets))
        check_complete(pairs, (sources, targets))
        if place == workdir:
            print_evaluation(sources.name, evaluate_text(best_checkpoint(workdir), pairs, search))
        else:
            print_evaluation(sources.name, evaluate_text(place, pairs, search), "as given")
        return
    if place != workdir:
        raise InputError(
            f"a split is evaluated with the best checkpoint: give --workdir={workdir}, or a text "
            f"to evaluate {place} on, by --sources and --targets"
        )
    corpus = open_corpus(data)
    check_content(workdir, corpus)
    print_evaluation(FLAGS.split, evaluate_split(workdir, corpus, FLAGS.split, search))


if __name__ == "__main__":
    flags.define_workdir("folder of a run, or for another text of one checkpoint in it")
    flags.define_search(left_out=["n_best"])  # one hypothesis of each sentence is scored
    absl_flags.DEFINE_enum("split", "test", SPLITS, "which examples of the run's own data")
    absl_flags.DEFINE_string(
        "sources", "", "file of source sentences of another text; nothing is written into the run"
    )
    absl_flags.DEFINE_string("targets", "", "file of their translations")
    run(main)
