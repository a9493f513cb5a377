"""Every data set, read back through TFDS."""

import dataclasses
import datetime
import gzip
import itertools
import shutil
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow_datasets as tfds

from attn_jax.config import Data
from attn_jax.data import dates
from attn_jax.data.datasets import open_corpus, with_defaults
from attn_jax.data.synthetic import make_sequences
from attn_jax.data.tfds_sets import prepared
from attn_jax.errors import InputError

SMALL = Data(examples=60, held_out=11, shortest=2, longest=7, symbols=13)
SPLITS = ("train", "validation", "test")


@pytest.mark.parametrize("level", ["character", "subword"])
def test_positions_are_known_only_of_whole_symbols(level, tmp_path):
    for side in ("source_level", "target_level"):
        config = dataclasses.replace(SMALL, **{side: level}, directory=str(tmp_path))
        assert first(config, "test").alignment is None


@pytest.mark.parametrize("name", ["copy", "reverse", "sort"])
def test_sequences_are_what_their_task_says(name, tmp_path):
    config = dataclasses.replace(SMALL, name=name, directory=str(tmp_path))
    task = {"copy": list, "reverse": lambda x: x[::-1], "sort": sorted}[name]
    sources = []
    for split in SPLITS:
        examples = open_corpus(config).examples(split)
        assert len(examples) == (60 if split == "train" else 11)
        for example in examples:
            source = list(map(int, example.source.split()))
            target = list(map(int, example.target.split()))
            assert 2 <= len(source) <= 7
            assert set(source) <= set(range(1, 14))
            assert target == task(source)
            assert [source[position] for position in example.alignment] == target
            assert sorted(example.alignment) == list(range(len(source)))
            sources.append(example.source)
    assert len(set(sources)) == len(sources), "a sequence is in two splits"


def test_all_splits_have_lengths_in_the_same_shares(tmp_path):
    # Nearly all of the 9 sequences of length 1 and the 81 of length 2 are drawn.
    config = Data(examples=400, held_out=200, shortest=1, longest=4, symbols=9)
    corpus = open_corpus(dataclasses.replace(config, directory=str(tmp_path)))

    def short(split):
        lengths = [len(example.source.split()) for example in corpus.examples(split)]
        return np.mean(np.array(lengths) <= 2)

    shares = [short(split) for split in SPLITS]
    assert max(shares) - min(shares) < 0.08, shares  # 2.5 standard deviations of a difference


def test_the_seed_decides_the_sequences(tmp_path):
    config = dataclasses.replace(SMALL, directory=str(tmp_path))
    first = [example.source for example in open_corpus(config).examples("train")]
    other = open_corpus(dataclasses.replace(config, seed=1)).examples("train")
    assert first != [example.source for example in other]


def test_refuses_more_sequences_than_exist(tmp_path):
    config = dataclasses.replace(SMALL, symbols=2, longest=3, directory=str(tmp_path))
    with pytest.raises(InputError, match="82 different sequences are needed, but only 12 exist"):
        open_corpus(config).examples("train")
    with pytest.raises(InputError, match="shortest=8 is more than"):
        open_corpus(dataclasses.replace(SMALL, shortest=8)).examples("train")


def test_dates_are_held_out_whole(tmp_path):
    config = Data(name="dates", examples=300, held_out=40, directory=str(tmp_path))
    splits = {split: open_corpus(config).examples(split) for split in SPLITS}
    days = {split: {example.target for example in examples} for split, examples in splits.items()}
    for a, b in itertools.combinations(SPLITS, 2):
        assert not days[a] & days[b]
    for example in splits["train"]:
        date = datetime.date.fromisoformat(example.target)
        written = {
            dates.write_date(date, locale, style)
            for locale in dates.LOCALES
            for style in dates.FORMATS
        }
        assert example.source in written
        assert str(date.year) in example.source


def test_a_french_date():
    assert dates.write_date(datetime.date(1998, 3, 3), "fr", "full") == "mardi 3 mars 1998"


def test_every_written_date_has_one_answer():
    """All days of two years, one of them a leap year, in every locale and format."""
    days = [datetime.date(1999, 1, 1) + datetime.timedelta(n) for n in range(731)]
    answers = {}
    for date, locale, style in itertools.product(days, dates.LOCALES, dates.FORMATS):
        text = dates.write_date(date, locale, style)
        assert answers.setdefault(text, date) == date, (text, locale, style)


def first(config, split):
    """The first example of a split."""
    return next(iter(open_corpus(config).examples(split)))


def write(folder, **files):
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_bytes(text.encode())


def parallel(folder, **options):
    prefixes = {split: str(folder / split) for split in ("train", "valid")}
    options = {"source": "de", "target": "en", "directory": str(folder / "d")} | prefixes | options
    return Data(name="parallel", **options)


def test_parallel_text_keeps_its_order(tmp_path):
    write(tmp_path, train_de="ein Haus\nein Hund\n", train_en="a house\na dog\n")
    write(tmp_path, valid_de="Hund", valid_en="dog")
    config = parallel(tmp_path)
    pairs = [(example.source, example.target) for example in open_corpus(config).examples("train")]
    assert pairs == [("ein Haus", "a house"), ("ein Hund", "a dog")]
    assert first(config, "train").alignment is None
    with pytest.raises(InputError, match="no split 'test'"):
        open_corpus(config).examples("test")
    with pytest.raises(InputError, match=r"has no split None; it has: train, validation$"):
        open_corpus(config).examples(None)


def test_what_identifies_a_text_is_its_pairs(tmp_path, monkeypatch):
    """In whatever files they are, and however many are read at a time."""
    pairs = [("ein Haus", "a house"), ("", 'l\'"été"'), ("ein\u00a0Hund", "a dog\\")]
    sides = ("\n".join(side) + "\n" for side in zip(*pairs, strict=True))
    write(tmp_path, **dict(zip(("train_de", "train_en"), sides, strict=True)))
    write(tmp_path, valid_de="Hund", valid_en="dog")
    known = open_corpus(parallel(tmp_path)).content
    monkeypatch.setattr("attn_jax.data.parallel_text.AT_ONCE", 2)
    assert open_corpus(parallel(tmp_path)).content == known
    (tmp_path / "t.gz").write_bytes(
        gzip.compress("".join(f"{one}\t{other}\r\n" for one, other in pairs).encode())
    )
    write(tmp_path, v_tsv="Hund\tdog")
    packed = {"train": str(tmp_path / "t.gz"), "valid": str(tmp_path / "v.tsv")}
    moved = parallel(tmp_path, **packed, source="", target="")
    assert open_corpus(moved).content == known
    with_test = dataclasses.replace(moved, test=moved.valid)
    exchanged = dataclasses.replace(moved, columns="2,1")
    contents = {open_corpus(one).content for one in (moved, with_test, exchanged)}
    assert len(contents) == 3


def test_a_text_is_read_once(tmp_path, monkeypatch):
    """Its content is then known."""
    write(tmp_path, train_de="a\n", train_en="b\n", valid_de="a\n", valid_en="b\n")
    corpus = open_corpus(parallel(tmp_path))
    for split in ("train", "validation"):
        assert len(list(corpus.examples(split))) == 1
    monkeypatch.setattr("attn_jax.data.parallel_text.iterate_lines", None)
    assert corpus.content.startswith("parallel/")
    assert len(list(corpus.examples("validation"))) == 1
    assert not (tmp_path / "d").exists()


def test_a_text_that_changes_while_it_is_used_is_noticed_or_was_kept(tmp_path):
    write(tmp_path, train_de="a\n", train_en="b\n", valid_de="a\n", valid_en="b\n")
    corpus = open_corpus(parallel(tmp_path))
    assert corpus.content
    write(tmp_path, train_en="c\n", valid_en="c\n")
    assert [example.target for example in corpus.examples("validation")] == ["b"]
    with pytest.raises(InputError, match=r"train\.de has changed since it was read"):
        list(corpus.examples("train"))


def test_columns_of_a_tsv_are_source_and_target(tmp_path):
    write(tmp_path, train_tsv="1\tein Haus\ta house\n", valid_tsv="2\tHund\tdog\n")
    files = {split: str(tmp_path / f"{split}.tsv") for split in ("train", "valid")}
    config = parallel(tmp_path, **files, source="", target="", columns="3,2")
    (example,) = open_corpus(config).examples("train")
    assert (example.source, example.target) == ("a house", "ein Haus")
    turned = dataclasses.replace(config, columns="2,3")
    assert open_corpus(turned).content != open_corpus(config).content
    with pytest.raises(InputError, match=r"got 3; name those of source and target"):
        _ = open_corpus(dataclasses.replace(config, columns="")).content


def _first_source(config):
    return first(config, "train").source


def test_several_runs_prepare_at_once(tmp_path):
    config = dataclasses.replace(SMALL, directory=str(tmp_path))
    with ProcessPoolExecutor(3, mp_context=get_context("spawn")) as pool:
        assert len(set(pool.map(_first_source, [config] * 3))) == 1


def test_a_translation_set_of_tfds_by_name(tmp_path, monkeypatch):
    class Records(list):
        def __getitems__(self, indices):
            return [self[i] for i in indices]

    def as_data_source(builder, split, **_):
        assert builder.name == "ted_hrlr_translate"
        return Records([{"pt": b"ol\xc3\xa1", "en": b"hello"}, {"pt": b"sim", "en": b"yes"}])

    config = Data(name="ted_hrlr_translate/pt_to_en", directory=str(tmp_path))
    monkeypatch.setattr(tfds.core.DatasetInfo, "splits", {"train": None})
    with tfds.testing.mock_data(as_data_source_fn=as_data_source):
        pairs = [
            (example.source, example.target) for example in open_corpus(config).examples("train")
        ]
        assert pairs == [("olá", "hello"), ("sim", "yes")]
        turned = dataclasses.replace(config, source="en", target="pt")
        assert first(turned, "train").source == "hello"
        with pytest.raises(InputError, match="no language 'fr'; it has: "):
            open_corpus(dataclasses.replace(config, source="fr")).examples("train")
        for given in ({"source": "en"}, {"target": "pt"}):  # the other side is the other language
            one = dataclasses.replace(config, **given)
            assert first(one, "train").source == "hello"
        with pytest.raises(InputError, match="are both 'en'"):
            open_corpus(dataclasses.replace(config, source="en", target="en"))
    assert with_defaults(config).source_level == "subword"


def test_an_unknown_data_set(tmp_path):
    with pytest.raises(InputError, match="unknown data set 'revers'; allowed: copy, reverse"):
        open_corpus(Data(name="revers", directory=str(tmp_path))).examples("train")


def test_records_hold_gold_as_integers(tmp_path):
    config = dataclasses.replace(SMALL, directory=str(tmp_path))
    assert first(config, "test").alignment.dtype == np.int32


def test_the_builders_of_this_package_have_no_other_names(tmp_path):
    for name in ("Dates", "sequences"):
        with pytest.raises(InputError, match=f"unknown data set '{name}'"):
            open_corpus(Data(name=name, directory=str(tmp_path)))


def test_a_version_that_does_not_exist(tmp_path):
    config = Data(name="ted_hrlr_translate/pt_to_en:99.0.0", directory=str(tmp_path))
    with pytest.raises(InputError, match=r"TFDS cannot open .*99\.0\.0"):
        open_corpus(config)


def test_prepared_data_may_be_damaged(tmp_path):
    config = dataclasses.replace(SMALL, directory=str(tmp_path))
    open_corpus(config)
    (shard,) = tmp_path.rglob("*train*.array_record*")
    shard.write_bytes(shard.read_bytes()[:100])
    advice = "remove that folder, and the data are prepared again"
    for change in (lambda: None, shard.unlink):
        change()
        with pytest.raises(InputError, match=f"{shard.parent} is missing or damaged .*: {advice}"):
            list(open_corpus(config).examples("train"))
    (file,) = tmp_path.rglob("dataset_info.json")
    file.write_text("{")
    with pytest.raises(
        InputError, match=f"{tmp_path}/sequences is missing or damaged .*: {advice}"
    ):
        open_corpus(config)
    file.unlink()
    with pytest.raises(InputError, match=f"{file.parent} lacks .* dataset_info.json: {advice}"):
        open_corpus(config).examples("train")
    shutil.rmtree(file.parent)
    assert open_corpus(config).examples("train")


@pytest.mark.parametrize("kind", [RuntimeError, OSError])  # OSError: without a network
def test_what_tfds_cannot_prepare_is_said(tmp_path, kind, capsys):
    def fail(**_):
        raise kind("Failed to get url\nhttps://nowhere")

    info = SimpleNamespace(splits={}, full_name="some/set/1.0.0")
    builder = SimpleNamespace(info=info, download_and_prepare=fail)
    message = rf"some/set/1\.0\.0 cannot be prepared \({kind.__name__}: Failed to get url\)"
    with pytest.raises(InputError, match=message):
        prepared(lambda: builder, tmp_path, "the test")
    assert "TFDS downloads and prepares some/set/1.0.0" in capsys.readouterr().err


def test_links_are_part_of_the_content(tmp_path):
    write(tmp_path, train_de="a\n", train_en="b\n", valid_de="a\n", valid_en="b\n")
    contents = set()
    for links in ("0-0\n", "\n"):
        write(tmp_path, links=links)
        contents.add(open_corpus(parallel(tmp_path, links=str(tmp_path / "links"))).content)
    assert len(contents | {open_corpus(parallel(tmp_path)).content}) == 3


def test_as_many_sequences_must_exist(tmp_path):
    few = Data(name="copy", symbols=1, shortest=1, longest=2)
    with pytest.raises(InputError, match="only 2 exist"):
        make_sequences(few, str(tmp_path))
    # Counting all of these would take days.
    builder = make_sequences(Data(name="copy", longest=10**6), str(tmp_path))
    assert builder.builder_config.longest == 10**6
