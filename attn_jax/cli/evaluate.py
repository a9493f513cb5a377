"""Evaluates a run: `./launch.sh evaluate --workdir=runs/mine --split=test --beam_size=5`.

This replaces the run's earlier results for that split, which reports read. Everything else is only
printed: figures of any other text, as two files with one sentence per line
(`--sources=new.de --targets=new.en`), of one checkpoint (`--workdir=runs/mine/checkpoints/1500`),
and of an ensemble (`--also=runs/other`). `--workdir=a.npz --targets=new.en` scores what another
toolkit wrote, which the file holds with its weights.
"""

from functools import partial
from pathlib import Path

from absl import flags as absl_flags

from attn_jax.cli import flags
from attn_jax.cli.flags import FLAGS
from attn_jax.data.lines import read_lines
from attn_jax.data.parallel_text import read_complete
from attn_jax.errors import InputError
from attn_jax.records.run_files import SPLITS
from attn_jax.reporting.printing import best_step, print_evaluation
from attn_jax.runs.evaluation import (
    corpus_of,
    evaluate_split,
    examples_of,
    measure,
    measure_file,
    text_examples,
)
from attn_jax.runs.weighing import FILES
from attn_jax.translation.loading import checkpoint_of, experiment_of, load, located


def evaluate_file(path: Path) -> None:
    """Evaluates what another toolkit wrote, of a file of weights."""
    for name in ("sources", "split", "also", "combination", "explain", *flags.search()):
        if FLAGS[name].present:
            raise InputError(f"--{name} is for a run: {path} has what was written")
    if not FLAGS.targets:
        raise InputError("give --targets, a file of the references")
    result = measure_file(path, read_lines(Path(FLAGS.targets)))
    print_evaluation(Path(FLAGS.targets).name, result, str(path))


def check_flags() -> None:
    """Raises InputError if flags do not fit together."""
    if bool(FLAGS.sources) != bool(FLAGS.targets):
        raise InputError("give both --sources and --targets, or neither")
    if FLAGS.sources and FLAGS["split"].present:
        raise InputError("give --split or another text, by --sources and --targets")
    flags.check_combination()


def define() -> None:
    """Defines the flags."""
    flags.define_models()
    flags.define_search(left_out=["n_best"])  # one hypothesis of each sentence is scored
    absl_flags.DEFINE_enum("split", "test", SPLITS, "which examples of the run's own data")
    absl_flags.DEFINE_string(
        "sources", "", "file of source sentences of another text; nothing is written into the run"
    )
    absl_flags.DEFINE_string(
        "targets", "", "file of their translations; or references for a file of weights"
    )
    absl_flags.DEFINE_integer(
        "explain",
        0,
        "number of references, from the first, on which to measure whether the weights matter: "
        "how their log-probability changes when attention is masked or made uniform",
    )


def main() -> None:
    """Evaluates one split, the text of two files, or what another toolkit wrote."""
    place = Path(FLAGS.workdir)
    if place.suffix in FILES:
        evaluate_file(place)
        return
    if place.is_file():
        raise InputError(f"{place} is no folder of a run, nor a file of weights: .npz or .json")
    check_flags()
    search = flags.search()
    workdir, _ = located(place)
    data = experiment_of(workdir).data
    if FLAGS.sources:
        paths = Path(FLAGS.sources), Path(FLAGS.targets)
        name, cut = paths[0].name, partial(text_examples, pairs=read_complete(paths))
    else:
        name, corpus = FLAGS.split, corpus_of(workdir)
        if place == workdir and not FLAGS.also:
            result = evaluate_split(workdir, corpus, name, search, FLAGS.explain)
            print_evaluation(name, result, best_step(result))
            return
        cut = partial(examples_of, corpus=corpus, split=name)
    checkpoints = [checkpoint_of(Path(run)) for run in (place, *FLAGS.also)]
    translator = load(checkpoints, combination=FLAGS.combination)
    result, _ = measure(translator, cut(translator), data, search, FLAGS.explain)
    how = f" ({FLAGS.combination})" if FLAGS.also else ""
    print_evaluation(name, result, f"{', '.join(map(str, checkpoints))}{how}")
