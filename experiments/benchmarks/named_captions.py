"""Names in captions: how many does a model write that copies, or does not?

`python -m experiments.benchmarks.named_captions --workdir=runs/names` writes train.tsv, valid.tsv
and test.tsv of Multi30k, German to English. In each pair with one `mann` and one `man`, say, both
have become a name that stands in no other pair. With `--runs=RUN --runs=RUN`, trained on these
files, it prints how many names of the test each writes.
"""

import random
import sys
from collections.abc import Iterator
from pathlib import Path

from absl import flags as absl_flags

from attn_jax import load
from attn_jax.cli import flags
from attn_jax.cli.flags import FLAGS
from attn_jax.cli.program import run
from attn_jax.data.lines import read_lines

PEOPLE = {"mann": "man", "frau": "woman", "junge": "boy", "mädchen": "girl"}
SPLITS = {"train": "train", "val": "valid", "test_2016_flickr": "test"}
MARK = "qz"  # begins all names, and no word of the captions


def named(german: list[str], english: list[str], name: str) -> tuple[list[str], list[str]]:
    """A pair with the name, if it has one person of a kind on both sides; else as it is."""
    for one, other in PEOPLE.items():
        if german.count(one) == english.count(other) == 1:
            return (
                [name if word == one else word for word in german],
                [name if word == other else word for word in english],
            )
    return german, english


def names() -> Iterator[str]:
    """Different names, in random order."""
    generator, seen = random.Random(0), set[str]()
    while True:
        name = MARK + "".join(generator.choices("abdeiklmnorstu", k=7))
        if name not in seen:
            seen.add(name)
            yield name


def share_right(folder: str, test: Path) -> float:
    """The share of the names of the test that a run writes, in percent."""
    pairs = [line.split("\t") for line in test.read_text("utf-8").splitlines()]
    wanted = [{word for word in target.split() if word.startswith(MARK)} for _, target in pairs]
    written = load(folder).translate([source for source, _ in pairs], unknown="copy")
    right = sum(
        len(of_pair & set(one.text.split())) for of_pair, one in zip(wanted, written, strict=True)
    )
    return 100 * right / sum(map(len, wanted))


def define() -> None:
    """Defines the flags."""
    flags.define_workdir("folder of the captions")
    absl_flags.DEFINE_string(
        "captions",
        "../shared/data/multi30k_ende/tok",
        "folder of train.lc.norm.tok.de.gz and so on",
    )
    absl_flags.DEFINE_multi_string("runs", [], "folder of a run to measure; can be repeated")


def main() -> None:
    """Writes the captions, or measures runs on them."""
    folder, new = Path(FLAGS.workdir), names()
    if FLAGS.runs:
        for one in FLAGS.runs:
            print(f"{one}: {share_right(one, folder / 'test.tsv'):.1f} % of the names")
        return
    folder.mkdir(parents=True, exist_ok=True)
    for split, written in SPLITS.items():
        sides = (
            read_lines(Path(FLAGS.captions, f"{split}.lc.norm.tok.{language}.gz"))
            for language in ("de", "en")
        )
        with (folder / f"{written}.tsv").open("w", encoding="utf-8") as file:
            for german, english in zip(*sides, strict=True):
                pair = named(german.split(), english.split(), next(new))
                print(*map(" ".join, pair), sep="\t", file=file)


if __name__ == "__main__":
    run(sys.modules[__name__])
