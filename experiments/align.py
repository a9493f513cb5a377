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
from attn_jax.translator import Forced, load
from experiments import flags
from experiments.flags import FLAGS
from experiments.program import run


def main() -> None:
    """Writes links to standard output, and weights and pictures where they are asked for."""
    sources, targets = zip(*read_pairs((Path(FLAGS.sources), Path(FLAGS.targets))), strict=True)
    translator = load(FLAGS.workdir)
    forced = translator.force(sources, targets)
    for one in forced:
        print(pharaoh(links(one.alignment)))
    if FLAGS.weights:
        np.savez(FLAGS.weights, *(one.alignment for one in forced))
    if FLAGS.figures:
        for number, (source, target) in enumerate(zip(sources, targets, strict=True)):
            tokens = translator.source.split(source), translator.target.split(target)
            draw(Path(FLAGS.figures), number + 1, forced[number], *tokens)


def draw(folder: Path, number: int, forced: Forced, source: list[str], target: list[str]) -> None:
    """Draws the weights of one pair, and those of each layer and head where there are several."""
    folder.mkdir(parents=True, exist_ok=True)
    written = [*target, SPECIALS[EOS]]
    figure = figures.heat_map(forced.alignment, source, written)
    figures.save(figure, folder / f"alignment-{number}.png")
    layers, heads, *_ = forced.weights.shape
    if layers * heads > 1:
        names = {
            (layer + 1, head + 1): f"layer {layer + 1}, head {head + 1}"
            for layer, head in np.ndindex(layers, heads)
        }
        figure = figures.heads(forced.weights, names, source, written)
        figures.save(figure, folder / f"heads-{number}.png")


if __name__ == "__main__":
    flags.define_workdir("folder of a run")
    absl_flags.DEFINE_string("sources", None, "file of source sentences", required=True)
    absl_flags.DEFINE_string("targets", None, "file of their translations", required=True)
    absl_flags.DEFINE_string("weights", "", "file .npz for the weights [T, S] of each pair")
    absl_flags.DEFINE_string("figures", "", "folder for a heat map of each pair")
    run(main)
