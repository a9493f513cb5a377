"""Where each file of a run lies in its folder."""

from pathlib import Path

SPLITS = ["train", "validation", "test"]


def manifest(workdir: Path) -> Path:
    """What the run has written, with digests."""
    return workdir / "manifest.json"


def lock(workdir: Path) -> Path:
    """An empty file, which is locked while the manifest is changed."""
    return workdir / ".lock"


def flags(workdir: Path) -> Path:
    """Every option, as a flag file. A folder with this file is the folder of a run."""
    return workdir / "flags.txt"


def changes(workdir: Path) -> Path:
    """The options that have changed since the run began, and from which step on; if any have."""
    return workdir / "changes.json"


def content(workdir: Path) -> Path:
    """What identifies the data, by version or by a hash of the content."""
    return workdir / "data.txt"


def state(workdir: Path) -> Path:
    """Who trains the run and how far it is, or why it failed."""
    return workdir / "state.json"


def provenance(workdir: Path) -> Path:
    """When, by which versions and on which devices the run was trained."""
    return workdir / "run.json"


def code(workdir: Path) -> Path:
    """The folder of copies of the user's own modules."""
    return workdir / "code"


def vocabulary(workdir: Path, side: str) -> Path:
    """The known tokens of one side: `source`, or `target`, which is written last."""
    return workdir / f"vocabulary.{side}.json"


def journal(workdir: Path) -> Path:
    """The validations so far."""
    return workdir / "metrics.jsonl"


def events(workdir: Path) -> Path:
    """The folder of event files, which TensorBoard reads."""
    return workdir / "events"


def checkpoints(workdir: Path) -> Path:
    """The folder of checkpoints, each in a folder named after its step."""
    return workdir / "checkpoints"


def damaged(workdir: Path) -> Path:
    """The folder of damaged checkpoints that a run has set aside."""
    return workdir / "damaged"


def plan(root: Path) -> Path:
    """The plan of the sweep in a folder."""
    return root / "plan.json"


def comparison(root: Path) -> Path:
    """What the comparison in a folder is to do."""
    return root / "comparison.json"


def measured(root: Path) -> Path:
    """What the systems of a comparison take, in seconds, as it was measured."""
    return root / "measured.json"


def answer(root: Path) -> Path:
    """What a comparison found, in words."""
    return root / "answer.md"


def trials(root: Path) -> Path:
    """The folder of the trials of a search, a sweep of its own, in the folder of the sweep."""
    return root / "trials"


def search(root: Path) -> Path:
    """What the trials of a search found, and what each system got of them."""
    return root / "search.json"


def log(root: Path, label: str) -> Path:
    """The output of a run of a sweep."""
    return root / f"{label}.log"


def evaluation(workdir: Path, split: str) -> Path:
    """The metrics of a split. Of the three files of an evaluation, the one written last."""
    return workdir / f"evaluation.{split}.json"


def predictions(workdir: Path, split: str) -> Path:
    """The sentences of a split with their translations."""
    return workdir / f"predictions.{split}.jsonl"


def alignments(workdir: Path, split: str) -> Path:
    """The attention weights of the first sentences of a split."""
    return workdir / f"alignments.{split}.npz"


def before(workdir: Path) -> list[Path]:
    """What a folder may hold before the run begins: that it failed, and code kept for it."""
    return [state(workdir), code(workdir), manifest(workdir), lock(workdir)]


def evaluations(workdir: Path) -> list[Path]:
    """All files of the evaluations of all splits."""
    of_split = (evaluation, predictions, alignments)
    return [file(workdir, split) for split in SPLITS for file in of_split]


def results(workdir: Path) -> list[Path]:
    """What no part of a run depends on: journal, sessions, and evaluations."""
    return [journal(workdir), provenance(workdir), *evaluations(workdir)]
