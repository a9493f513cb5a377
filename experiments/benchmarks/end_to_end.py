"""RNNsearch of the same sizes here and in Joey NMT, from the text of captions to translations.

First this project and then Joey NMT train until validation BLEU reaches the last of `GOALS`, for at
most `MOST` epochs. Then both take turns to translate the test sentences.
"""

import re
import string
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import sacrebleu

import attn_jax
from attn_jax.data.parallel_text import find_sides, read_pairs
from attn_jax.errors import InputError

from .compare import ROOT

PRESET = "multi30k-rnnsearch.flags"
SPLITS = {"train": "train", "valid": "val", "test": "test_2016_flickr"}
GOALS = (20, 25, 28)
MOST = 40  # validations, one per epoch
BATCH = 64
PATIENCE = 5.0  # seconds to finish writing, such as the checkpoint of the last validation
BEAMS = {"greedy": 1, "beam 5": 5}


def followed(command: Sequence[str], pattern: str, folder: Path) -> list[tuple[float, float]]:
    """Runs a training, and returns the seconds since its start and the BLEU of each validation.

    Args:
      command: starts the training, which is ended at the last goal or after `MOST` validations.
      pattern: a regular expression that matches the BLEU of a validation in a line of the output.
      folder: where the log is written.

    Raises:
      InputError: the training ended by itself before that.
    """
    validations: list[tuple[float, float]] = []
    begun = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8"
    )
    with process, (folder / "training.log").open("w", encoding="utf-8") as log:
        for line in process.stdout or ():
            log.write(line)
            match = re.search(pattern, line)
            if match:
                validations.append((time.perf_counter() - begun, float(match.group(1))))
                if validations[-1][1] >= GOALS[-1] or len(validations) == MOST:
                    time.sleep(PATIENCE)
                    process.terminate()
                    return validations
    raise InputError(f"the training ended before BLEU {GOALS[-1]}: {folder / 'training.log'}")


def summary(validations: Sequence[tuple[float, float]]) -> dict[str, Any]:
    """The seconds per epoch, and those until the first validation that reached each goal."""
    seconds = [when for when, _ in validations]
    return {
        "validations": validations,
        # Without the first epoch, which includes the start of the program.
        "epoch": (seconds[-1] - seconds[0]) / (len(seconds) - 1)
        if len(seconds) > 1
        else seconds[0],
        "goals": {
            goal: next((when for when, bleu in validations if bleu >= goal), None) for goal in GOALS
        },
    }


def joey(folder: Path, beam: int, batches: int) -> Path:
    """Writes a file with Joey NMT's options."""
    template = string.Template(Path(__file__).with_name("joey.yaml").read_text("utf-8"))
    path = folder / f"beam{beam}.yaml"
    path.write_text(template.substitute(folder=folder, beam=beam, batches=batches), "utf-8")
    return path


def translating(peers: str, config: Path) -> Callable[[], tuple[float, float]]:
    """A function that returns the seconds that Joey NMT reports for its search, and the BLEU."""

    def repeat() -> tuple[float, float]:
        command = [peers, "-m", "joeynmt", "test", str(config)]
        said = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8")
        text = said.stdout + said.stderr
        took = re.findall(r"Generation took ([\d.]+)", text)
        bleus = re.findall(r"bleu: +([\d.]+)", text)
        if not took or not bleus:
            raise InputError(f"joeynmt test ended with: {text.strip().splitlines()[-1:]}")
        return float(took[-1]), float(bleus[-1])

    return repeat


def ours(workdir: Path, test: Sequence[tuple[str, str]], beam: int) -> Callable:
    """A function that translates all sentences here, and returns the seconds and the BLEU."""
    translator = attn_jax.load(workdir)
    options: dict[str, Any] = {}
    if beam > 1:
        options = {"beam_size": beam, "length_penalty": "gnmt(alpha=1.0)"}
    sources, references = (list(side) for side in zip(*test, strict=True))

    def repeat() -> tuple[float, float]:
        begun = time.perf_counter()
        hypotheses = [hypothesis.text for hypothesis in translator.translate(sources, **options)]
        seconds = time.perf_counter() - begun
        score = sacrebleu.corpus_bleu(hypotheses, [references], tokenize="none", force=True)
        return seconds, score.score

    repeat()  # compiles
    return repeat


def captions(data: Path) -> dict[str, list[tuple[str, str]]]:
    """The pairs of each split of the captions.

    Raises:
      InputError: a file is missing.
    """
    try:
        return {
            split: list(read_pairs(find_sides(str(data / f"{name}.lc.norm.tok"), "de", "en")))
            for split, name in SPLITS.items()
        }
    except InputError as error:
        raise InputError(f"end_to_end needs the captions of --multi30k: {error}") from error


def end_to_end(folder: Path, data: Path, peers: str, rounds: int) -> dict[str, Any]:
    """Trains and translates with both systems; returns the figures of each by name.

    Raises:
      InputError: the data do not exist, or a program failed.
    """
    folder = folder.absolute()
    texts = captions(data)
    for name in ("attn_jax", "joey"):
        (folder / name).mkdir(parents=True)
    for split, pairs in texts.items():
        for side, lines in zip(("de", "en"), zip(*pairs, strict=True), strict=True):
            (folder / "joey" / f"{split}.{side}").write_text("\n".join(lines) + "\n", "utf-8")
    batches = -(-len(texts["train"]) // BATCH)
    options = {split: data / f"{name}.lc.norm.tok" for split, name in SPLITS.items()}
    workdir = folder / "attn_jax" / "run"
    train = [sys.executable, "-m", "attn_jax", "train", f"--workdir={workdir}"]
    train += [f"--flagfile={PRESET}", *(f"--data.{k}={v.absolute()}" for k, v in options.items())]
    systems = {
        "attn_jax": summary(followed(train, r"validation bleu ([\d.]+)", folder / "attn_jax")),
        "Joey NMT": summary(
            followed(
                [peers, "-m", "joeynmt", "train", str(joey(folder / "joey", 1, batches))],
                r"Evaluation result.*bleu: +([\d.]+)",
                folder / "joey",
            )
        ),
    }
    for name, beam in BEAMS.items():
        sides = {
            "attn_jax": ours(workdir, texts["test"], beam),
            "Joey NMT": translating(peers, joey(folder / "joey", beam, batches)),
        }
        for _ in range(rounds):
            for side, repeat in sides.items():
                seconds, bleu = repeat()
                measured = systems[side].setdefault(name, {"seconds": [], "bleu": bleu})
                measured["seconds"].append(seconds)
    return {"systems": systems, "sentences": len(texts["test"])}
