"""Evaluates a run: `./launch.sh evaluate --workdir=runs/mine --split=test --beam_size=5`.

This replaces the run's earlier results for that split, which reports read. With two files of any
other text, `--sources=new.de --targets=new.en`, one sentence per line, it prints the same metrics
and writes nothing into the run; then, `--workdir=runs/mine/checkpoints/1500` chooses a checkpoint.
"""

import os
from pathlib import Path

from absl import flags as absl_flags

from attn_jax.data.datasets import open_corpus
from attn_jax.data.text_files import check_complete, read_pairs
from attn_jax.errors import InputError
from attn_jax.loading import best_checkpoint, experiment_of, located
from experiments import flags
from experiments.evaluation import evaluate_split, evaluate_text
from experiments.flags import FLAGS
from experiments.folder import SPLITS, check_content
from experiments.printing import print_evaluation
from experiments.program import run


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
    if not os.access(workdir, os.W_OK):
        raise InputError(
            f"cannot write into {workdir}; to evaluate a text and write nothing, give --sources "
            "and --targets"
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
