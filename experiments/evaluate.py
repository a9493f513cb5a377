"""Evaluates a run: `./launch.sh evaluate --workdir=runs/mine --split=test --beam_size=5`.

What the run had of that split, which is what reports read, is replaced.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from absl import flags as absl_flags
from rich.console import Console
from rich.table import Table

from attn_jax.data.datasets import Corpus, Example, open_corpus
from attn_jax.data.vocabulary import Vocabulary
from attn_jax.errors import InputError
from attn_jax.evaluation.assess import assess
from attn_jax.evaluation.metrics import ter
from attn_jax.files import writing
from attn_jax.loading import best_checkpoint, experiment_of, load
from attn_jax.translator import Translator
from experiments import flags
from experiments.flags import FLAGS
from experiments.folder import SPLITS, check_content, evaluation_file
from experiments.program import run

PICTURED = 16  # sentences whose alignments are kept for figures


def evaluate_split(workdir: Path, corpus: Corpus, split: str, search: dict[str, Any]) -> dict:
    """Translates a split with the best checkpoint and writes what came of it into the workdir.

    Args:
      workdir: of the run.
      corpus: what the run was trained on.
      split: `train`, `validation` or `test`.
      search: options of `attn_jax.decoding.options.Search`.

    Returns:
      The content of `evaluation.<split>.json`: figures, signatures, the step of the checkpoint and
      how many sentences and parameters there are.

    Raises:
      InputError: by now, another checkpoint is the best.
    """
    checkpoint = best_checkpoint(workdir)
    translator = load(checkpoint)
    data = experiment_of(workdir).data
    examples = corpus.examples(split)
    if split == "train":
        examples = usable(translator, examples)
    assessment = assess(translator, examples, data.bleu_tokenizer, search)
    figures, signatures = dict(assessment.figures), dict(assessment.signatures)
    if data.target_level in ("word", "subword"):
        # Only of text, and not while training: it takes long where hypotheses are far off.
        texts, references = zip(
            *((s["text"], s["reference"]) for s in assessment.sentences), strict=True
        )
        figures["ter"], signatures["ter"] = ter(texts, references)
    result = {
        "split": split,
        "step": int(checkpoint.name),
        "sentences": len(assessment.sentences),
        "parameters": sum(leaf.size for leaf in jax.tree.leaves(translator.models)),
        **figures,
        "search": search,
        "heads": assessment.heads,
        "signatures": signatures,
    }
    if best_checkpoint(workdir) != checkpoint:
        raise InputError(f"{workdir} has been trained on in the meantime: evaluate it again")
    predictions = workdir / f"predictions.{split}.jsonl"
    alignments = workdir / f"alignments.{split}.npz"
    evaluation = evaluation_file(workdir, split)
    with writing(predictions, alignments, evaluation) as beside:
        lines = (json.dumps(one, ensure_ascii=False) + "\n" for one in assessment.sentences)
        beside[0].write_text("".join(lines), "utf-8")
        with beside[1].open("wb") as file:
            np.savez(file, *assessment.weights[:PICTURED])
        beside[2].write_text(json.dumps(result, indent=2) + "\n", "utf-8")
        evaluation.unlink(missing_ok=True)  # not to stand beside sentences of another one
    return result


def token_counts(example: Example, source: Vocabulary, target: Vocabulary) -> tuple[int, int]:
    """How many tokens the source and the target of a pair have."""
    return len(source.encode(example.source)), len(target.encode(example.target))


def usable(translator: Translator, examples: Sequence[Example]) -> list[Example]:
    """The training pairs that can be translated; of other splits, all must be."""
    found = []
    for example in examples:
        counts = token_counts(example, translator.source, translator.target)
        if min(counts) > 0 and max(counts) <= translator.max_length:
            found.append(example)
    if len(found) < len(examples):
        print(
            f"{len(examples) - len(found)} pairs left out, empty or of over "
            f"{translator.max_length} tokens"
        )
    return found


def print_evaluation(result: dict) -> None:
    """Prints the figures as a table."""
    table = Table(title=f"{result['split']}, {result['sentences']} sentences")
    table.add_column("figure")
    table.add_column("value", justify="right")
    whole = {"parameters": "{:,}", "alignment_shift": "{:+d}"}
    for name, value in result.items():
        if isinstance(value, float) or name in whole:
            table.add_row(name.replace("_", " "), whole.get(name, "{:.2f}").format(value))
    console = Console()
    console.print(table)
    console.print(f"checkpoint: step {result['step']}, the best on validation", highlight=False)
    options = [f"{name}={value}" for name, value in result["search"].items()]
    console.print(f"decoding: {', '.join(options) or 'greedy'}", highlight=False)
    for name, signature in result["signatures"].items():
        console.print(f"{name}: {signature}", highlight=False, soft_wrap=True)


def main() -> None:
    """Evaluates one split."""
    workdir, search = Path(FLAGS.workdir), flags.search()
    corpus = open_corpus(experiment_of(workdir).data)
    check_content(workdir, corpus)
    print_evaluation(evaluate_split(workdir, corpus, FLAGS.split, search))


if __name__ == "__main__":
    flags.define_workdir("folder of a run")
    flags.define_search(left_out=["n_best"])  # one hypothesis of each sentence is scored
    absl_flags.DEFINE_enum("split", "test", SPLITS, "which examples")
    run(main)
