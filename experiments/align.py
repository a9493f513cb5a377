"""Aligns translated text, and draws it.

`./launch.sh align --workdir=runs/mine --sources=a.txt --targets=b.txt --figures=pictures`
writes a line of links in the Pharaoh format (`source-target`, from 0) for each pair of lines.
"""

from pathlib import Path

import numpy as np
from absl import flags as absl_flags

from attn_jax.data.text_files import read_pairs
from attn_jax.decoding.alignments import links, pharaoh
from attn_jax.report import figures
from attn_jax.tokens import EOS, SPECIALS
from attn_jax.translator import load
from experiments import flags
from experiments.flags import FLAGS
from experiments.program import run


def main() -> None:
    """Writes links to standard output, and weights and pictures where they are asked for."""
    sources, targets = zip(*read_pairs((Path(FLAGS.sources), Path(FLAGS.targets))), strict=True)
    translator = load(FLAGS.workdir)
    alignments = translator.align(sources, targets)
    for alignment in alignments:
        print(pharaoh(links(alignment)))
    if FLAGS.weights:
        np.savez(FLAGS.weights, *alignments)
    if FLAGS.figures:
        Path(FLAGS.figures).mkdir(parents=True, exist_ok=True)
        for number, (source, target) in enumerate(zip(sources, targets, strict=True), start=1):
            figure = figures.heat_map(
                alignments[number - 1],
                translator.source.split(source),
                [*translator.target.split(target), SPECIALS[EOS]],
            )
            figures.save(figure, Path(FLAGS.figures) / f"alignment-{number}.png")


if __name__ == "__main__":
    flags.define_workdir("folder of a run")
    absl_flags.DEFINE_string("sources", None, "file of source sentences", required=True)
    absl_flags.DEFINE_string("targets", None, "file of their translations", required=True)
    absl_flags.DEFINE_string("weights", "", "file .npz for the weights [T, S] of each pair")
    absl_flags.DEFINE_string("figures", "", "folder for a heat map of each pair")
    run(main)
