"""Evaluations of a run: of a split, whose results are written into its folder, or of any text."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import optax

from attn_jax.config import Data
from attn_jax.data.datasets import Corpus, open_corpus
from attn_jax.data.sentences import Example
from attn_jax.data.text_checks import check_lengths, fits, warn_of_unknown
from attn_jax.data.vocabulary import Words
from attn_jax.decoding.options import Search, search_of
from attn_jax.errors import InputError
from attn_jax.evaluation.assess import Assessment, assess, of_texts
from attn_jax.evaluation.explanations import explanations
from attn_jax.evaluation.given import assess_given
from attn_jax.evaluation.metrics import in_words, ranking_metric, ter
from attn_jax.evaluation.pictures import pictures
from attn_jax.files import path_of
from attn_jax.models.seq2seq import with_uniform_weights
from attn_jax.pairs import read_pairs
from attn_jax.records import manifest, run_files, strict_json
from attn_jax.runs.folder import check_content
from attn_jax.training import processes
from attn_jax.translation.loading import Place, best_checkpoint, experiment_of, load
from attn_jax.translation.translator import Translator

PICTURED, WRONG = 32, 64  # the first sentences whose weights are kept for pages; and wrong ones


def evaluate(
    workdir: Place, split: str = "test", *, explain: int = 0, **search: Any
) -> dict[str, Any]:
    """Translates a split of the data of a run, and writes the results into its folder.

    They replace earlier results for that split, which reports read.

    Args:
      workdir: the folder of the run.
      split: `train`, `validation` or `test`.
      explain: on how many references, the first ones, it is measured whether the weights matter:
        see `attn_jax.evaluation.explanations`.
      **search: options of `attn_jax.decoding.options.Search`, such as `beam_size=5`.

    Returns:
      The numbers of sentences and parameters, the metrics, and what is known of each head.

    Raises:
      InputError: the run or its data cannot be read, an option is invalid, the model has no
        weights that could be others, or the folder cannot be written to.
    """
    search_of(search)
    if "n_best" in search:
        raise InputError("evaluate scores one hypothesis for each sentence: leave out n_best")
    folder = path_of(workdir)
    return evaluate_split(folder, corpus_of(folder), split, search, explain)


def corpus_of(workdir: Path) -> Corpus:
    """The data of a run.

    Raises:
      InputError: they cannot be opened, or are not those that the run was trained on.
    """
    data = experiment_of(workdir).data
    try:
        corpus = open_corpus(data)
    except InputError as error:
        if data.name != "parallel":
            raise
        raise InputError(
            f"{error}. If the data of the run have moved, `train` it again with data.train, "
            "data.valid and data.test, which tells it where"
        ) from error
    check_content(workdir, corpus)
    return corpus


def evaluate_split(
    workdir: Path, corpus: Corpus, split: str, search: dict[str, Any], explain: int = 0
) -> dict:
    """Translates a split with the best checkpoint and writes the results into the workdir.

    Several processes, which must all call this, translate a share each; the first one writes.

    Args:
      workdir: the folder of the run.
      corpus: the data that the run was trained on.
      split: `train`, `validation` or `test`.
      search: options of `attn_jax.decoding.options.Search`.
      explain: as in `measure`.

    Returns:
      The content of `evaluation.<split>.json`: the split, the step of the checkpoint, and what
      `measure` returns.

    Raises:
      InputError: the workdir cannot be written to, another checkpoint has become the best in the
        meantime, or there is nothing to explain.
    """
    if not os.access(workdir, os.W_OK):
        raise InputError(
            f"cannot write into {workdir}; to write nothing, evaluate a checkpoint in it, such as "
            f"{best_checkpoint(workdir)}"
        )
    checkpoint = best_of(workdir)
    translator = load(checkpoint)
    examples = examples_of(translator, corpus, split)
    data = experiment_of(workdir).data
    result, assessment = measure(translator, examples, data, search, explain)
    result = {"split": split, "step": int(checkpoint.name), **result}
    if best_of(workdir) != checkpoint:
        raise InputError(f"{workdir} has been trained on in the meantime: evaluate it again")
    processes.by_first(lambda: write(workdir, result, assessment, pictures(translator, assessment)))
    return result


def best_of(workdir: Path) -> Path:
    """The best checkpoint of a run, for all processes that which the first one finds.

    Others may still see an older list of files, if they are on other machines.

    Raises:
      InputError: the run has no checkpoint.
    """
    with processes.together():
        found = best_checkpoint(workdir) if processes.is_first() else workdir
    return processes.agreed(found)


def examples_of(translator: Translator, corpus: Corpus, split: str) -> list[Example]:
    """The examples of a split; of training pairs, those that are not empty or too long."""
    examples = corpus.sentences(split, translator.source, translator.target)
    if split != "train":
        return examples
    fitting = [example for example in examples if fits(example, translator.max_length)]
    if len(fitting) < len(examples):
        print(
            f"{len(examples) - len(fitting)} pairs left out, empty or of over "
            f"{translator.max_length} tokens"
        )
    return fitting


def text_examples(translator: Translator, pairs: Sequence[tuple[str, str]]) -> list[Example]:
    """Any text as examples; warns of what the model does not know.

    Raises:
      InputError: a sentence has no token, or more than the model allows.
    """
    source, target = translator.source, translator.target
    examples = [
        Example(source.cut_at(f"line {number}", one), target.cut(other))
        for number, (one, other) in enumerate(pairs, start=1)
    ]
    check_lengths("text", examples, translator.max_length)
    warn_of_unknown(source, [example.source for example in examples], "source: ")
    warn_of_unknown(target, [example.target for example in examples], "target: ")
    return examples


def measure(
    translator: Translator,
    examples: Sequence[Example],
    data: Data,
    search: dict[str, Any],
    explain: int = 0,
) -> tuple[dict, Assessment]:
    """Translates and scores examples.

    Args:
      translator: the model.
      examples: at least one.
      data: the options of the data that the model was trained on.
      search: options of `attn_jax.decoding.options.Search`.
      explain: on how many examples, the first ones, it is measured whether the weights matter.

    Returns:
      A dictionary with the numbers of sentences and parameters, the options of the search that are
      not the defaults, the metrics with their signatures, what is known of each head, and if asked
      for, what `explanations` returns; and the assessment, which holds the sentences and their
      weights.

    Raises:
      InputError: `explain` is below 0, or the model has no weights that could be others.
    """
    if explain < 0:
        raise InputError(f"explain must be at least 0, got {explain}")
    if explain:
        translator.check_explains()  # before translating, which takes longer
    assessment = assess(
        translator,
        examples,
        data.bleu_tokenizer,
        search,
        PICTURED,
        WRONG,
        processes.share,
        processes.gathered,
    )
    metrics, signatures = dict(assessment.metrics), dict(assessment.signatures)
    texts, references = zip(
        *((s["text"], s["reference"]) for s in assessment.sentences), strict=True
    )
    of_words = in_words(data.target_level, references, data.bleu_tokenizer)
    if of_words:
        # Only for text, and not during training: TER is slow where hypotheses are far off.
        metrics["ter"], signatures["ter"] = ter(texts, references)
    usual = vars(Search())
    result = {
        "sentences": len(assessment.sentences),
        "parameters": optax.tree.size(translator.models),
        "search": {name: value for name, value in search.items() if value != usual[name]},
        "metrics": metrics,
        "heads": assessment.heads,
        "signatures": signatures,
    }
    if explain:
        sources, targets = (
            [getattr(side, name) for side in examples[:explain]] for name in ("source", "target")
        )
        result["explanations"] = explanations(translator, sources, targets)
        if result["explanations"]:
            flat = _with_uniform_weights(translator)
            changed = assess(flat, examples[:explain], data.bleu_tokenizer, search).metrics
            some = assessment.sentences[:explain]  # which have been translated
            before, _ = of_texts(translator.target, some, data.bleu_tokenizer)
            ranking = ranking_metric(of_words)
            result["explanations"]["uniform_quality"] = before[ranking] - changed[ranking]
    return result, assessment


def measure_file(path: Path, references: Sequence[str]) -> dict[str, Any]:
    """Scores what another toolkit wrote.

    Args:
      path: of a file of its weights, with the texts.
      references: of the same sentences.

    Returns:
      A dictionary with the number of sentences, the metrics with their signatures, and what is
      known of each head.

    Raises:
      InputError: the file cannot be read, or has another number of pairs.
    """
    pairs = read_pairs("", path)
    if len(pairs) != len(references):
        raise InputError(f"{path} has {len(pairs)} pairs, but there are {len(references)} targets")
    sources = [" ".join(pair.source) for pair in pairs]
    found = assess_given(pairs, sources, references, Words([]), "13a", "word")
    del found.metrics["symbol_error_rate"]  # its symbols are words
    return {
        "sentences": len(pairs),
        "metrics": found.metrics,
        "heads": found.heads,
        "signatures": found.signatures,
    }


def _with_uniform_weights(translator: Translator) -> Translator:
    (model,) = translator.models
    return Translator(
        [with_uniform_weights(model)], translator.source, translator.target, translator.max_length
    )


def write(
    workdir: Path, result: dict, assessment: Assessment, drawn: dict[str, dict[int, np.ndarray]]
) -> None:
    """Replaces the results of a split in the folder of a run."""
    split = result["split"]
    predictions = run_files.predictions(workdir, split)
    alignments = run_files.alignments(workdir, split)
    evaluation = run_files.evaluation(workdir, split)
    with manifest.replacing(workdir, predictions, alignments, evaluation) as beside:
        lines = (
            strict_json.dumps(sentence, ensure_ascii=False) + "\n"
            for sentence in assessment.sentences
        )
        beside[0].write_text("".join(lines), "utf-8")
        with beside[1].open("wb") as file:
            arrays: dict[str, Any] = {
                f"{name}_{place}": array
                for name, of_name in drawn.items()
                for place, array in of_name.items()
            }
            np.savez(file, **arrays)
        beside[2].write_text(strict_json.dumps(result, indent=2) + "\n", "utf-8")
        evaluation.unlink(missing_ok=True)  # must not lie beside sentences of another evaluation
