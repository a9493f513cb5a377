"""Cut text in files: it is shared, checked, and made in memory where none can be written."""

import multiprocessing
import sys
import tracemalloc

import numpy as np
import pytest

from attn_jax.config import Data
from attn_jax.data.cut_cache import cut_in_files
from attn_jax.data.encoded import Encoded
from attn_jax.data.pairs import Example
from attn_jax.data.parallel import _written
from attn_jax.data.run_vocabularies import build_vocabulary
from attn_jax.data.text_files import read_pairs
from attn_jax.data.words import words_of
from attn_jax.tokens import EOS

EXAMPLES = [
    Example("der  hund schläft", "the dog sleeps"),
    Example("", "nothing"),
    Example("der hund", "the dog"),
    Example("\ud800 a\nb", "a \t\u00a0"),
] * 3
FILES = {
    *(
        f"{side}.{part}"
        for side in ("source", "target")
        for part in ("types.json", "ids", "offsets")
    ),
    *("pairs", "digests.json"),
}


class Counted:
    """Cuts texts, and counts them."""

    def __init__(self, cut=words_of):
        self.cut, self.texts = cut, []

    def __call__(self, text):
        self.texts.append(text)
        return self.cut(text)


def cut(folder, examples=EXAMPLES, way=words_of):
    counted = Counted(way)
    return cut_in_files(examples, (counted, counted), folder), len(counted.texts)


def texts_of(side):
    return [side.sentence(number) for number in range(len(side.offsets) - 1)]


@pytest.mark.parametrize("way", [words_of, list])
@pytest.mark.parametrize("name", ["new", "/dev/null/nowhere"])
def test_what_is_read_is_what_was_cut(tmp_path, way, name):
    text, _ = cut(tmp_path / name, way=way)
    assert texts_of(text.source) == [way(example.source) for example in EXAMPLES]
    assert texts_of(text.target) == [way(example.target) for example in EXAMPLES]
    assert text.target.counts()["the" if way is words_of else "d"] > 0
    assert sum(text.source.counts().values()) == len(text.source.ids)
    assert text.source.ids.dtype == np.uint8


def test_a_text_is_cut_once_into_files_that_are_mapped(tmp_path):
    assert cut(tmp_path / "new")[1] == 2 * len(EXAMPLES)
    assert {path.name for path in (tmp_path / "new").iterdir()} == {*FILES, ".lock"}
    text, cuts = cut(tmp_path / "new", examples=None)
    assert cuts == 0
    assert isinstance(text.source.ids, np.memmap)
    assert isinstance(text.target.offsets, np.memmap)


@pytest.mark.parametrize("name", sorted(FILES))
@pytest.mark.parametrize("damage", ["cut off", "flipped", "missing"])
def test_damaged_files_are_written_again(tmp_path, name, damage):
    cut(tmp_path)
    file = tmp_path / name
    content = file.read_bytes()
    if damage == "missing":
        file.unlink()
    elif damage == "cut off":
        file.write_bytes(content[:-1])
    else:
        file.write_bytes(content[:-4] + bytes([content[-4] ^ 1]) + content[-3:])
    (tmp_path / "source.ids.123.tmp").touch()  # of a process that was killed
    text, cuts = cut(tmp_path)
    assert cuts == 2 * len(EXAMPLES)
    assert texts_of(text.source) == [words_of(example.source) for example in EXAMPLES]
    assert {path.name for path in tmp_path.iterdir()} == {*FILES, ".lock"}
    assert cut(tmp_path)[1] == 0


def test_a_full_disk_is_no_reason_not_to_train(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("attn_jax.data.cut_cache._save", full)
    text, _ = cut(tmp_path)
    assert texts_of(text.source) == [words_of(example.source) for example in EXAMPLES]
    assert {path.name for path in tmp_path.iterdir()} == {".lock"}


def _at_once(folder, start, counts):
    start.wait()
    counts.put(cut(folder)[1])


def test_of_processes_that_begin_together_one_cuts(tmp_path):
    context = multiprocessing.get_context("spawn")
    start, counts = context.Barrier(3), context.Queue()
    processes = [context.Process(target=_at_once, args=(tmp_path, start, counts)) for _ in range(3)]
    for process in processes:
        process.start()
    found = sorted(counts.get(timeout=60) for _ in processes)
    for process in processes:
        process.join()
    assert found == [0, 0, 2 * len(EXAMPLES)]


def test_a_text_is_not_held_in_memory(tmp_path, monkeypatch):
    """Reading, identifying and cutting a text take a fraction of the memory of its lines."""
    monkeypatch.setattr("attn_jax.data.cuts.AT_ONCE", 256)
    monkeypatch.setattr("attn_jax.data.parallel.AT_ONCE", 256)
    line = "seven words in each line are enough\tsieben worte in jeder zeile sind genug\n"
    (tmp_path / "t.tsv").write_text(line * 100_000)
    whole = 100_000 * sum(map(sys.getsizeof, line.split("\t")))
    tracemalloc.start()
    try:
        pairs = read_pairs((tmp_path / "t.tsv",))
        examples = (Example(*pair) for pair in pairs)
        text = cut_in_files(examples, (words_of, words_of), tmp_path / "new")
        for _ in _written("train", read_pairs((tmp_path / "t.tsv",))):
            pass
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(text.digests) == 100_000
    assert peak < whole / 2, (peak, whole)


def test_a_text_without_a_pair_is_no_special_case(tmp_path):
    for _ in range(2):
        text, _ = cut(tmp_path, examples=[])
        assert len(text.source.ids) == len(text.digests) == 0
        assert text.source.offsets.tolist() == [0]


def test_pairs_of_another_split_are_found_by_their_text(tmp_path):
    text, _ = cut(tmp_path / "train")
    others = [EXAMPLES[0], Example("der hund schläft", "the dog sleeps"), Example("", "nothing")]
    assert cut(tmp_path / "test", others)[0].seen_in(text) == 2


@pytest.mark.parametrize("level", ["word", "character", "symbol", "subword"])
def test_ids_are_those_of_each_text(tmp_path, level):
    texts = ["ein haus am see", "", "der  hund am haus x", "haus"]
    vocabulary = build_vocabulary(level, texts[:3] * 2, Data(subwords=40))
    examples = [Example(text, text) for text in texts]
    way = list if level == "character" else words_of
    side = Encoded(cut(tmp_path, examples, way)[0].source, vocabulary)
    wanted = [vocabulary.encode(text) for text in texts]
    assert side.lengths.tolist() == list(map(len, wanted))
    width = max(side.lengths) + 1
    rows = side.padded(np.array([3, 1, 2, 2, 0]), width, [EOS])
    for row, number in zip(rows.tolist(), [3, 1, 2, 2, 0], strict=True):
        assert row == [*wanted[number], EOS] + [0] * (width - 1 - len(wanted[number]))
    chosen = np.array([True, False, True, False])
    ids = [*wanted[0], *wanted[2]]
    assert side.counts(chosen).tolist() == np.bincount(ids, minlength=len(vocabulary)).tolist()
