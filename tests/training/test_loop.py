"""Training, uninterrupted and in pieces, and its checkpoints."""

import os
import shutil
import signal
from types import SimpleNamespace

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest

from attn_jax.config import Train
from attn_jax.data.batches import Batches
from attn_jax.errors import InputError
from attn_jax.files import reading
from attn_jax.models.seq2seq import initialize
from attn_jax.records import journal
from attn_jax.records.progress import Criterion, Progress
from attn_jax.training import checkpoints as checkpoints_of
from attn_jax.training.checkpoints import (
    Checkpoints,
    WritableCheckpoints,
    digest,
    named_leaves,
    set_aside,
)
from attn_jax.training.loop import begin, finished, fit, recipe_of
from attn_jax.training.step import train_step
from tests.options import model_options, train_options
from tests.pairs import Pair, training_pairs

CONFIG = model_options(
    embedding_size=5,
    annotation_size=6,
    hidden_size=7,
    units=3,
    readout_size=4,
    dropout=0.2,
)
PERPLEXITY = Criterion("perplexity", larger_is_better=False)
PAIRS = [Pair([4 + n % 5] * (1 + n % 4), [4 + n % 3] * (1 + n % 3)) for n in range(23)]


def spoiling(batches, spoilt):
    """The same batches, with links to guide attention of these values at some steps, else 0."""

    def from_step(done):
        for step, batch in enumerate(batches(done), start=done + 1):
            shape = (*batch.target.shape, batch.source.shape[1])
            yield batch._replace(links=np.full(shape, spoilt.get(step, 0.0), np.float32))

    return from_step if spoilt else batches


def train(workdir, evaluate=None, spoilt=None, criterion=PERPLEXITY, **options):
    options = {
        "steps": 6,
        "valid_every": 2,
        "batch_size": 5,
        "warmup_steps": 3,
        "buckets": 2,
    } | options
    config = train_options(**options)
    recipe = recipe_of(config)
    workdir.mkdir(exist_ok=True)
    fit(
        config,
        recipe,
        *begin(config, initialize(CONFIG, 9, 9, jax.random.key(0)), workdir),
        spoiling(Batches(training_pairs(PAIRS), config, seed=0).from_step, spoilt or {}),
        evaluate or (lambda model: {"perplexity": 1.0}),
        workdir,
        rng=jax.random.key(1),
        criterion=criterion,
    )
    checkpoints = Checkpoints(workdir)
    step = checkpoints.latest
    model = checkpoints.restore(step, "model", initialize(CONFIG, 9, 9, jax.random.key(5)))
    best = checkpoints.best
    return step, best, named_leaves(model), journal.read(workdir)


@pytest.mark.parametrize(
    "options", [{}, {"average": 0.9, "order": "sorted(batches=2)", "scheduled_sampling": 0.5}]
)
def test_in_pieces_equals_through_bit_for_bit(tmp_path, options):
    _, _, through, record = train(tmp_path / "a", **options)
    train(tmp_path / "b", steps=2, **options)
    train(tmp_path / "b", steps=4, **options)
    step, _, pieces, again = train(tmp_path / "b", **options)
    assert step == 6
    for name, leaf in through.items():
        np.testing.assert_array_equal(leaf, pieces[name])
    assert [line["train_loss"] for line in record] == [line["train_loss"] for line in again]


def test_a_run_that_goes_on_compiles_no_step_anew(tmp_path):
    def interrupted(model):
        if (tmp_path / "checkpoints" / "2").exists():
            raise KeyboardInterrupt
        return {"perplexity": 1.0}

    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, interrupted, buckets=1)
    compiled = train_step._cache_size()
    step, *_ = train(tmp_path, buckets=1)
    assert step == 6
    assert train_step._cache_size() == compiled


def test_training_lowers_the_loss(tmp_path):
    *_, record = train(tmp_path, steps=150, valid_every=50, learning_rate=0.02)
    losses = [line["train_loss"] for line in record]
    assert losses[2] < losses[1] < losses[0]


def scripted(values):
    """An evaluation that returns these perplexities one after another."""
    values = iter(values)
    return lambda model: {"perplexity": next(values)}


def test_the_best_and_the_last_are_kept(tmp_path):
    step, best, _, record = train(tmp_path, scripted([3.0, 1.0, 2.0, 4.0, 5.0]), steps=10)
    assert (step, best) == (10, 4)
    assert [line["step"] for line in record] == [2, 4, 6, 8, 10]


def test_the_first_of_equals_is_the_best(tmp_path):
    step, best, _, _ = train(tmp_path, scripted([2.0, 1.0, 1.0, 1.0, 5.0]), steps=10)
    assert (step, best) == (10, 4)


def test_patience_ends_a_run_also_after_a_restart(tmp_path):
    step, best, _, _ = train(tmp_path, scripted([3.0, 1.0, 2.0]), steps=6, patience=2)
    assert (step, best) == (6, 4)
    step, _, _, record = train(tmp_path, scripted([2.0, 2.0, 2.0]), steps=20, patience=2)
    assert step == 8
    assert [line["step"] for line in record] == [2, 4, 6, 8]
    assert finished(Train(steps=20, valid_every=2, patience=2), tmp_path)
    assert not finished(Train(steps=20, valid_every=2, patience=3), tmp_path)


def test_patience_of_a_run_made_longer_ends_it_at_a_validation(tmp_path):
    train(tmp_path, scripted([2.0, 1.0]), steps=3, patience=1)
    step, best, _, record = train(tmp_path, scripted([2.0, 2.0]), steps=20, patience=1)
    assert (step, best) == (4, 3)
    assert [line["step"] for line in record] == [2, 3, 4]
    assert finished(Train(steps=20, valid_every=2, patience=1), tmp_path)


def test_patience_counts_validations_though_valid_every_changes(tmp_path):
    train(tmp_path, scripted([1.0, 2.0, 2.0]), steps=6)
    more = {"valid_every": 1, "patience": 4}
    step, best, _, record = train(tmp_path, scripted([2.0, 2.0, 2.0]), steps=20, **more)
    assert (step, best) == (8, 2)
    assert [line["step"] for line in record] == [2, 4, 6, 7, 8]
    assert not finished(Train(steps=20, valid_every=1, patience=5), tmp_path)


def test_equal_metrics_are_told_apart_by_perplexity(tmp_path):
    """Exact match and BLEU are often 0 at several validations, of which the first is the worst."""
    values = iter([(0.0, 9.0), (0.0, 5.0), (0.0, 7.0), (0.0, 5.0)])

    def evaluate(model):
        return dict(zip(("exact_match", "perplexity"), next(values), strict=True))

    exact_match = Criterion("exact_match", larger_is_better=True)
    options = {"criterion": exact_match, "steps": 20, "patience": 2}
    step, best, _, _ = train(tmp_path, evaluate, **options)
    assert (step, best) == (8, 4)


def test_a_run_is_finished_at_its_last_step(tmp_path):
    assert not finished(Train(steps=4), tmp_path)
    train(tmp_path, steps=4)
    assert finished(Train(steps=4), tmp_path)
    assert not finished(Train(steps=5), tmp_path)


def test_the_journal_forgets_what_will_be_done_again(tmp_path, capsys):
    train(tmp_path, steps=4)
    journal.append(tmp_path, {"step": 5})
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 6, "cut')
    *_, record = train(tmp_path, steps=6)
    assert [line["step"] for line in record] == [2, 4, 6]
    assert "2 lines of" in capsys.readouterr().err


def test_a_loss_that_is_not_finite_ends_the_run(tmp_path):
    with pytest.raises(InputError, match="no longer finite after the first update"):
        train(tmp_path, learning_rate=1e30, clip_norm=1e30, steps=40, valid_every=20)


LEAVES = {"x": np.zeros(3, np.float32)}


def save(checkpoints, step, goodness=(0.0, 0.0)):
    checkpoints.save(step, LEAVES, LEAVES, Progress(), goodness)


def kept(workdir):
    return sorted(int(folder.name) for folder in (workdir / "checkpoints").iterdir())


def test_a_changed_bit_is_noticed(tmp_path):
    model = initialize(CONFIG, 9, 9, jax.random.key(0))
    rest = {"m": np.zeros(3, np.float32)}
    WritableCheckpoints(tmp_path, 2).save(1, model, rest, Progress(), None)
    checkpoints = Checkpoints(tmp_path)
    largest = max((tmp_path / "checkpoints/1/model").rglob("d/*"), key=lambda f: f.stat().st_size)
    content = bytearray(largest.read_bytes())
    content[len(content) // 2] ^= 1
    largest.write_bytes(content)
    with pytest.raises(InputError, match="1/model is damaged: it has changed"):
        checkpoints.restore(1, "model", model)
    optimizer = checkpoints.restore(1, "rest", {"m": np.ones(3, np.float32)})
    np.testing.assert_array_equal(optimizer["m"], np.zeros(3))


def test_a_checkpoint_of_another_model_is_refused(tmp_path):
    model, other = (initialize(CONFIG, size, 9, jax.random.key(0)) for size in (9, 11))
    WritableCheckpoints(tmp_path, 2).save(1, model, LEAVES, Progress(), None)
    with pytest.raises(
        InputError, match=r"does not fit this model: .*source_words.* wanted float32"
    ):
        Checkpoints(tmp_path).restore(1, "model", other)


def test_what_one_map_of_a_source_was_for_is_read_for_both(tmp_path):
    """Of `model.sources=flat` in version 0.2.0."""
    one, two = {"kernel": np.ones(2, np.float32)}, {"kernel": np.zeros(2, np.float32)}
    earlier = {"second": {"of_first": one, "of_second": two}}
    WritableCheckpoints(tmp_path, 2).save(1, earlier, LEAVES, Progress(), None)
    now = {"second": {**earlier["second"], "keys_of_first": two, "keys_of_second": one}}
    found = Checkpoints(tmp_path).restore(1, "model", now)["second"]
    for name, expected in (("first", one), ("second", two)):
        np.testing.assert_array_equal(found[f"keys_of_{name}"]["kernel"], expected["kernel"])


@pytest.mark.parametrize("content", [b"", b"{}"])
def test_a_run_goes_on_without_a_damaged_checkpoint(tmp_path, content):
    checkpoints = WritableCheckpoints(tmp_path, 2)
    save(checkpoints, 1)
    save(checkpoints, 2)
    one, two = checkpoints.place(1), checkpoints.place(2)
    (two / "model" / "_METADATA").write_bytes(content)
    with pytest.raises(InputError, match=f"^{tmp_path}.*2/model is damaged") as error:
        checkpoints.restore(2, "model", LEAVES)
    instead = f"or use {one} instead (train: with train.fallback)"
    assert str(error.value).endswith(f"; put a copy of {two} back, {instead}")
    set_aside(tmp_path)
    assert (checkpoints.latest, checkpoints.best) == (1, 1)
    checkpoints.restore(1, "model", LEAVES)
    (one / "model" / "_METADATA").write_bytes(content)
    with pytest.raises(InputError, match=f"{one} back, or begin anew in another folder$"):
        checkpoints.restore(1, "model", LEAVES)


def test_too_little_memory_is_not_damage(tmp_path):
    for error in (MemoryError(), PermissionError("no"), RuntimeError("RESOURCE_EXHAUSTED: all")):
        with pytest.raises(type(error)), reading(tmp_path):
            raise error


def test_a_digest_is_of_names_types_shapes_and_bytes():
    one = {"a": np.zeros((2, 3), np.float32)}
    others = [
        {"b": one["a"]},
        {"a": one["a"].astype(np.int32)},
        {"a": one["a"].reshape(3, 2)},
        {"a": one["a"] + np.eye(2, 3, dtype=np.float32)},
    ]
    assert digest(one) == digest({"a": np.zeros((2, 3), np.float32)})
    assert digest(one) not in [digest(other) for other in others]


@pytest.mark.parametrize("left", ["model", "rest"])
def test_a_deletion_that_was_cut_off_is_finished(tmp_path, left, monkeypatch):
    def cut_off(place):
        for path in place.iterdir():
            if path.name != left:
                remove(path) if path.is_dir() else path.unlink()
        raise KeyboardInterrupt

    checkpoints, remove = WritableCheckpoints(tmp_path, 1), shutil.rmtree
    save(checkpoints, 1)
    monkeypatch.setattr(shutil, "rmtree", cut_off)
    with pytest.raises(KeyboardInterrupt):
        save(checkpoints, 2, (1.0, 0.0))
    monkeypatch.undo()
    assert kept(tmp_path) == [1, 2]
    checkpoints = WritableCheckpoints(tmp_path, 1)
    assert (checkpoints.latest, checkpoints.best) == (2, 2)
    save(checkpoints, 3)
    assert kept(tmp_path) == [2, 3]


@pytest.mark.parametrize("after", [0, 1])
def test_a_kill_around_a_save_loses_that_save_alone(tmp_path, after, monkeypatch):
    """Before or after Orbax has written it, the last checkpoint and the best are usable."""

    def killed(place, arrays):
        if after:
            write(place, arrays)
        raise KeyboardInterrupt

    checkpoints, write = WritableCheckpoints(tmp_path, 1), checkpoints_of._write
    save(checkpoints, 1)
    monkeypatch.setattr(checkpoints_of, "_write", killed)
    with pytest.raises(KeyboardInterrupt):
        save(checkpoints, 2, (1.0, 0.0))
    monkeypatch.undo()
    checkpoints = WritableCheckpoints(tmp_path, 1)
    assert kept(tmp_path) == [checkpoints.latest] == [checkpoints.best] == [1]
    checkpoints.verify(1)
    save(checkpoints, 3)
    assert kept(tmp_path) == [1, 3]


def test_a_reader_leaves_alone_what_is_being_written(tmp_path):
    save(WritableCheckpoints(tmp_path, 2), 1)
    half = tmp_path / "checkpoints" / "2.orbax-checkpoint-tmp"
    half.mkdir()
    reader = Checkpoints(tmp_path)
    assert (reader.latest, reader.best) == (1, 1)
    assert half.is_dir()
    save(WritableCheckpoints(tmp_path, 2), 3)
    assert not half.exists()


@pytest.mark.parametrize("name", ["03", "4", "mine"])
def test_a_folder_that_is_not_of_the_run_is_not_used(tmp_path, name):
    save(WritableCheckpoints(tmp_path, 2), 3)
    reader = Checkpoints(tmp_path)
    shutil.copytree(reader.place(3), reader.place(3).with_name(name))
    assert (reader.latest, reader.best) == (3, 3)
    with pytest.raises(InputError, match=f"checkpoints/{name} is not of this run, or was renamed"):
        WritableCheckpoints(tmp_path, 2)
    shutil.rmtree(reader.place(3))
    with pytest.raises(
        InputError, match=r"checkpoints/3 is missing; put a copy of .* back, or beg"
    ):
        WritableCheckpoints(tmp_path, 2)


def test_so_many_checkpoints_are_kept_as_asked_for(tmp_path):
    kept = {"steps": 10, "valid_every": 2, "keep": 3}
    train(tmp_path, evaluate=lambda model: {"perplexity": 1.0}, **kept)
    steps = {int(folder.name) for folder in (tmp_path / "checkpoints").iterdir()}
    assert {6, 8, 10} <= steps
    assert len(steps) <= 4


def test_a_full_disk_is_said_in_a_sentence(tmp_path, monkeypatch):
    """Orbax raises a ValueError."""

    def full(*_, **__):
        raise ValueError("RESOURCE_EXHAUSTED: Error writing …: No space left on device")

    checkpoints = WritableCheckpoints(tmp_path, 2)
    monkeypatch.setattr(ocp.Checkpointer, "save", full)
    with pytest.raises(OSError, match="No space left on device") as error:
        save(checkpoints, 1)
    assert error.value.filename == str(tmp_path / "checkpoints")


def test_a_checkpoint_is_not_begun_without_space_for_it(tmp_path, monkeypatch):
    checkpoints = WritableCheckpoints(tmp_path, 2)
    leaves = {"a": np.zeros(100)}, {"b": np.zeros(50, np.float32)}
    free = 100 * 8 + 50 * 4
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free - 1))
    with pytest.raises(OSError, match="No space left on device"):
        checkpoints.save(1, *leaves, Progress(), None)
    assert not kept(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    checkpoints.save(1, *leaves, Progress(), None)
    assert kept(tmp_path) == [1]


def test_a_journal_that_is_not_whole_is_refused(tmp_path):
    train(tmp_path, steps=4, valid_every=2)
    file = tmp_path / "metrics.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    for damaged in (lines[:1], lines[1:], [lines[0], *lines], []):
        file.write_text("".join(damaged))
        with pytest.raises(InputError, match=r"metrics\.jsonl is damaged: it has changed"):
            train(tmp_path, steps=6, valid_every=2)
    file.unlink()
    with pytest.raises(InputError, match=r"metrics\.jsonl is missing"):
        train(tmp_path, steps=6, valid_every=2)


def test_an_interrupt_leaves_a_save_to_its_end(tmp_path, monkeypatch):
    checkpoints, write = WritableCheckpoints(tmp_path, 2), checkpoints_of._write
    save(checkpoints, 1)

    def interrupted(*given):
        os.kill(os.getpid(), signal.SIGINT)
        write(*given)

    monkeypatch.setattr(checkpoints_of, "_write", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs ignore it
    with pytest.raises(KeyboardInterrupt):
        save(checkpoints, 2)
    signal.signal(signal.SIGINT, before)
    checkpoints._thread.shutdown()
    assert kept(tmp_path) == [1, 2]
    checkpoints.verify(2)
