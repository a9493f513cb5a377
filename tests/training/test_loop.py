"""Training, uninterrupted and in pieces, and its checkpoints."""

import asyncio
import json
import os
import shutil
import signal
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from attn_jax.config import Train
from attn_jax.data.batches import Batches
from attn_jax.errors import InputError
from attn_jax.files import reading
from attn_jax.models.seq2seq import initialize
from attn_jax.records import journal
from attn_jax.records.progress import Criterion, Progress
from attn_jax.records.seals import sealed
from attn_jax.training.arrays import digest, named_leaves
from attn_jax.training.checkpoint import Checkpoints
from attn_jax.training.loop import begin, finished, fit
from attn_jax.training.recipe import recipe_of
from attn_jax.training.saving import WritableCheckpoints
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
    checkpoints = Checkpoints(workdir / "checkpoints")
    step = checkpoints.latest
    model = checkpoints.restore(step, "model", initialize(CONFIG, 9, 9, jax.random.key(5)))
    best = checkpoints.best
    return step, best, named_leaves(model), journal.read(workdir / "metrics.jsonl")


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


def test_progress_is_read_as_it_was_stored():
    progress = Progress((1.0, 2.0), 4, 3.0, since=2, validated=7)
    assert Progress.of(json.loads(json.dumps(progress._asdict()))) == progress._replace(rates=[])


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


def test_the_journal_forgets_what_will_be_done_again(tmp_path):
    train(tmp_path, steps=4)
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"step": 5}) + "\n" + '{"step": 6, "cut')
    *_, record = train(tmp_path, steps=6)
    assert [line["step"] for line in record] == [2, 4, 6]


@pytest.mark.parametrize("text", ['{"step": 2}\n{"st\n{"step": 6}\n', '{"step": 2}\n{}\n'])
def test_a_journal_damaged_before_its_end_is_refused(tmp_path, text):
    file = tmp_path / "metrics.jsonl"
    file.write_text(text)
    with pytest.raises(InputError, match=r"metrics\.jsonl: line 2 is damaged"):
        journal.truncate(file, 4)
    assert file.read_text() == text


def test_a_loss_that_is_not_finite_ends_the_run(tmp_path):
    with pytest.raises(InputError, match="no longer finite after the first update"):
        train(tmp_path, learning_rate=1e30, clip_norm=1e30, steps=40, valid_every=20)


def test_a_changed_bit_is_noticed(tmp_path):
    model = initialize(CONFIG, 9, 9, jax.random.key(0))
    leaves = named_leaves(model)
    changed = {name: np.array(leaf) for name, leaf in leaves.items()}
    next(iter(changed.values())).view(np.uint8).flat[0] ^= 1
    checkpoints = WritableCheckpoints(tmp_path, 2)
    checkpoints.save(1, model, {"m": np.zeros(3, np.float32)}, {}, (0.0,))
    checkpoints.close()
    checkpoints = Checkpoints(tmp_path)
    facts = json.loads(next(tmp_path.glob("1/facts/metadata")).read_text())
    assert facts["sha256"]["model"] == digest(leaves)
    facts["sha256"]["model"] = digest(changed)
    del facts["digest"]
    next(tmp_path.glob("1/facts/metadata")).write_text(json.dumps(sealed(facts)))
    with pytest.raises(InputError, match="1/model is damaged: it has changed"):
        checkpoints.restore(1, "model", model)
    optimizer = checkpoints.restore(1, "rest", {"m": np.ones(3, np.float32)})
    np.testing.assert_array_equal(optimizer["m"], np.zeros(3))
    other = initialize(CONFIG, 11, 9, jax.random.key(0))
    with pytest.raises(
        InputError, match=r"does not fit this model: .*source_words.* wanted float32"
    ):
        checkpoints.restore(1, "model", other)


@pytest.mark.parametrize("name", ["facts/metadata", "model/_METADATA"])
@pytest.mark.parametrize("content", [b"", b"{}"])
def test_a_damaged_checkpoint_is_refused(tmp_path, name, content):
    leaves = {"x": np.zeros(3, np.float32)}
    checkpoints = WritableCheckpoints(tmp_path, 2)
    checkpoints.save(1, leaves, leaves, {}, (0.0,))
    checkpoints.close()
    (tmp_path / "1" / name).write_bytes(content)

    def read():
        checkpoints = Checkpoints(tmp_path)
        return checkpoints.restore(checkpoints.best, "model", leaves)

    with pytest.raises(InputError, match=f"^{tmp_path}.* is missing or damaged"):
        read()


def test_a_run_goes_on_without_a_damaged_checkpoint(tmp_path):
    leaves = {"x": np.zeros(3, np.float32)}
    checkpoints = WritableCheckpoints(tmp_path, 2)
    for step in (1, 2):
        checkpoints.save(step, leaves, leaves, {}, (0.0,))
    checkpoints.close()

    def told(step):
        (tmp_path / str(step) / "model" / "_METADATA").write_text("")
        with pytest.raises(InputError) as error:
            Checkpoints(tmp_path).restore(step, "model", leaves)
        return str(error.value)

    instead = f"or use {tmp_path / '1'} instead (train: with train.fallback)"
    assert told(2).endswith(f"; put a copy of {tmp_path / '2'} back, {instead}")
    shutil.rmtree(tmp_path / "2")
    left = Checkpoints(tmp_path)
    assert (left.latest, left.best) == (1, 1)
    left.restore(1, "model", leaves)
    assert told(1).endswith(f"{tmp_path / '1'} back, or begin anew in another folder")


def test_what_is_read_beside_a_damaged_array_is_read_to_its_end(tmp_path, monkeypatch):
    """Otherwise, Orbax would close its event loop first, and each pending read would print that."""
    leaves = {str(number): np.zeros(3, np.float32) for number in range(200)}
    checkpoints = WritableCheckpoints(tmp_path, 2)
    checkpoints.save(1, leaves, leaves, {}, (0.0,))
    checkpoints.close()
    for file in (tmp_path / "1" / "model").rglob("d/*"):
        os.truncate(file, 100)
    close, left = asyncio.BaseEventLoop.close, []

    def observed(loop):
        left.append(len(asyncio.all_tasks(loop)))
        close(loop)

    monkeypatch.setattr(asyncio.BaseEventLoop, "close", observed)
    with pytest.raises(InputError, match=r"1/model is missing or damaged .* …\); put a copy"):
        Checkpoints(tmp_path).restore(1, "model", leaves)
    assert left
    assert not any(left)


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


@pytest.mark.parametrize("left", ["facts", "model", "commit_success.txt"])
def test_a_deletion_that_was_cut_off_is_finished(tmp_path, left):
    leaves = [{"x": np.zeros(3, np.float32)}] * 2
    checkpoints = WritableCheckpoints(tmp_path, 2)
    for step, score in enumerate((1.0, 3.0), start=1):
        checkpoints.save(step, *leaves, {}, (score,))
    checkpoints.close()
    for path in (tmp_path / "1").iterdir():
        if path.name != left:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    checkpoints = WritableCheckpoints(tmp_path, 2)
    assert checkpoints.best == 2
    for step in (3, 4, 5):
        checkpoints.save(step, *leaves, {}, (0.0,))
    checkpoints.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2", "4", "5"]


def test_a_reader_leaves_alone_what_is_being_written(tmp_path):
    checkpoints = WritableCheckpoints(tmp_path, 2)
    checkpoints.save(1, *[{"x": np.zeros(3, np.float32)}] * 2, {}, (0.0,))
    checkpoints.close()
    half = tmp_path / "2.orbax-checkpoint-tmp"
    half.mkdir()
    reader = Checkpoints(tmp_path)
    assert (reader.steps, reader.latest, reader.best) == ([1], 1, 1)
    assert half.is_dir()
    writer = WritableCheckpoints(tmp_path, 2)
    writer.save(3, *[{"x": np.zeros(3, np.float32)}] * 2, {}, (0.0,))
    writer.close()
    assert not half.exists()


def test_so_many_checkpoints_are_kept_as_asked_for(tmp_path):
    kept = {"steps": 10, "valid_every": 2, "keep": 3}
    train(tmp_path, evaluate=lambda model: {"perplexity": 1.0}, **kept)
    steps = {int(folder.name) for folder in (tmp_path / "checkpoints").iterdir()}
    assert {6, 8, 10} <= steps
    assert len(steps) <= 4


@pytest.mark.parametrize(
    ("writes", "given"),
    [("save", (1, {"a": np.zeros(2)}, {"a": np.zeros(2)}, {}, (0.0,))), ("close", ())],
)
def test_a_full_disk_is_said_in_a_sentence(writes, given, tmp_path, monkeypatch):
    """Orbax raises a ValueError, at once or after writing in the background."""

    def full(*_, **__):
        raise ValueError("RESOURCE_EXHAUSTED: Error writing …: No space left on device")

    checkpoints = WritableCheckpoints(tmp_path, 2)
    monkeypatch.setattr(checkpoints._manager, writes, full)
    with pytest.raises(OSError, match="No space left on device") as error:
        getattr(checkpoints, writes)(*given)
    assert error.value.filename == str(tmp_path)


def test_a_checkpoint_is_not_begun_without_space_for_it(tmp_path, monkeypatch):
    checkpoints = WritableCheckpoints(tmp_path, 2)
    leaves = {"a": np.zeros(100)}, {"b": np.zeros(50, np.float32)}
    free = 100 * 8 + 50 * 4
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free - 1))
    with pytest.raises(OSError, match="No space left on device"):
        checkpoints.save(1, *leaves, {}, (0.0,))
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    checkpoints.save(1, *leaves, {}, (0.0,))
    checkpoints.close()
    assert (tmp_path / "1").is_dir()


def test_a_lost_journal_is_told(tmp_path, capsys):
    train(tmp_path, steps=2, valid_every=2)
    (tmp_path / "metrics.jsonl").unlink()
    train(tmp_path, steps=4, valid_every=2)
    assert "metrics.jsonl is missing, and begins anew" in capsys.readouterr().err
    assert [line["step"] for line in journal.read(tmp_path / "metrics.jsonl")] == [4]


def test_a_shortened_journal_is_told(tmp_path, capsys):
    train(tmp_path, steps=4, valid_every=2)
    file = tmp_path / "metrics.jsonl"
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:1]))
    train(tmp_path, steps=6, valid_every=2)
    told = "metrics.jsonl ends at step 2: its lines up to step 4 are lost"
    assert told in capsys.readouterr().err
    assert [line["step"] for line in journal.read(file)] == [2, 6]


def test_an_interrupt_waits_for_the_end_of_a_save(tmp_path, monkeypatch):
    checkpoints = WritableCheckpoints(tmp_path, 2)
    save, saved = checkpoints._manager.save, []

    def interrupted(*args, **how):
        signal.raise_signal(signal.SIGINT)
        saved.append(save(*args, **how))

    monkeypatch.setattr(checkpoints._manager, "save", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs ignore it
    with pytest.raises(KeyboardInterrupt):
        checkpoints.save(1, *[{"a": np.zeros(2)}] * 2, {}, (0.0,))
    signal.signal(signal.SIGINT, before)
    checkpoints.close()
    assert saved == [True]
    assert (tmp_path / "1").is_dir()
