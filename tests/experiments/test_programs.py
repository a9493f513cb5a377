"""The programs as users call them: what they do, and how they refuse wrong input."""

import csv
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.image import imread

import attn_jax
from attn_jax.alignment.extraction import Argmax
from attn_jax.alignment.units import Reading
from attn_jax.cli.program import Interrupts
from attn_jax.data.alignment_files import Gold
from attn_jax.data.vocabulary import Symbols
from attn_jax.errors import Terminated
from attn_jax.pairs import Weighed
from attn_jax.records import manifest
from attn_jax.runs.aligning import best_reading
from attn_jax.runs.folder import alone
from attn_jax.runs.weighing import OfRun
from tests.experiments.programs import SMALL, program, refused, works
from tests.reporting.test_page import data_of
from tests.stages import full

pytestmark = full


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    """A sweep of two runs, one of which has no use for a flag."""
    root = tmp_path_factory.mktemp("sweep")
    varied = "--grid.model.score=additive,last"
    given = *SMALL, varied, "--model.norm=pre"
    works("sweep", f"--workdir={root}", *given, FORCE_COLOR="1")  # as in a notebook
    return root


@pytest.fixture(scope="module")
def workdir(sweep):
    return sweep / "model.score=additive"


def test_a_sweep_leaves_its_runs_and_skips_them(sweep):
    for score in ("additive", "last"):
        folder = sweep / f"model.score={score}"
        evaluation = json.loads((folder / "evaluation.test.json").read_text())
        assert evaluation["sentences"] == 20
        lines = (folder / "metrics.jsonl").read_text().splitlines()
        assert [json.loads(line)["step"] for line in lines] == [10, 20]
    log = (sweep / "model.score=last.log").read_text()
    assert "warning: no run here uses --model.norm" in log
    assert "\x1b" not in log
    again = works("sweep", f"--workdir={sweep}", *SMALL, "--grid.model.score=additive,last")
    assert "2 runs, 2 of them finished" in again.stdout
    line = refused("sweep", f"--workdir={sweep}", *SMALL, "--grid.model.score=last", "--seed=7")
    assert "seed was 0 and is now 7" in line
    line = refused("sweep", f"--workdir={sweep}", *SMALL, "--grid.seed=0,1,0")
    assert line == "error: --grid.seed has the value 0 twice"
    useless = "--grid.model.score=last", "--model.norm=pre"
    again = works("sweep", f"--workdir={sweep}", *SMALL, *useless)
    assert again.stderr.splitlines() == ["warning: no run here uses --model.norm"]


def test_a_device_that_does_not_exist_is_told_in_a_sentence(workdir):
    line = refused("translate", f"--workdir={workdir}", stdin="1\n", JAX_PLATFORMS="nothing")
    assert line.startswith("error: JAX does not start with JAX_PLATFORMS=nothing: RuntimeError: ")


def test_a_sweep_takes_no_accelerator_from_its_runs(sweep):
    varied = "--grid.model.score=additive,last"
    # With a platform that does not exist, looking for its devices would fail.
    works("sweep", f"--workdir={sweep}", *SMALL, varied, JAX_PLATFORMS="nothing")
    more = ("sweep", f"--workdir={sweep}", *SMALL, f"{varied},dot")
    assert "JAX does not start" in refused(*more, JAX_PLATFORMS="nothing")


def test_a_sweep_looks_at_all_values_before_it_starts(tmp_path):
    root = tmp_path / "root"
    line = refused("sweep", f"--workdir={root}", *SMALL, "--grid.model.score=dot,dott")
    assert "model.score=dott: unknown score 'dott'" in line
    assert "nothing varies: give systems or a grid" in refused("sweep", f"--workdir={root}", *SMALL)
    assert not root.exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "import jax.numpy as jnp\ndef own(query, keys):\n    return keys @ query + jnp.ones(7)",
            "--model.score=failing:own fails with TypeError: add got incompatible shapes for "
            "broadcasting: (8,), (7,). (failing.py, line 3)",
        ),
        (
            "own = nothing",
            "cannot use 'failing:own' as a score: NameError: name 'nothing' is not defined "
            "(failing.py, line 1)",
        ),
        ("def own(query, keys)\n    return keys @ query", "(failing.py, line 1)"),
    ],
)
def test_a_score_that_fails_is_told_with_its_line_and_leaves_nothing(tmp_path, text, message):
    (tmp_path / "failing.py").write_text(text)
    run = tmp_path / "run"
    line = refused(
        "train", f"--workdir={run}", *SMALL, "--model.score=failing:own", PYTHONPATH=tmp_path
    )
    assert message in line
    assert not run.exists()


def test_a_score_that_was_edited_is_noticed(tmp_path):
    file, root = tmp_path / "mine.py", tmp_path / "sweep"
    file.write_text("def own(query, keys):\n    return keys @ query")
    found = {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    sweep = ("sweep", f"--workdir={root}", *SMALL, "--grid.model.score=mine:own")
    works(*sweep, **found)
    run = root / "model.score=mine:own"
    copy = run / "code" / "mine.py"
    train = ("train", f"--workdir={run}", "--train.steps=30")
    translate = ("translate", f"--workdir={run}")
    assert "warning:" not in works(*translate, stdin="1 2\n", **found).stderr

    file.write_text("def own(query, keys):\n    return keys @ -query")
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    differs = f"{file} is not the code that the run in {run} was trained with, which is kept as"
    advice = f"{differs} {copy}: take another folder, or put that code back"
    assert refused(*train, **found) == f"error: {advice}"
    assert refused(*sweep, **found) == f"error: --model.score=mine:own: {advice}"
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before
    assert f"warning: {differs}" in works(*translate, stdin="1 2\n", **found).stderr
    file.write_text(
        "from attn_jax.attention.scores import General\n\n"
        "class own(General):\n    pass  # its parameters are not in the checkpoint"
    )
    assert f"; {differs} {copy}" in refused(*translate, stdin="1 2\n", **found)
    file.write_text("own = nothing")
    line = refused(*translate, stdin="1 2\n", **found)
    assert "name 'nothing' is not defined" in line
    assert f"; {differs} {copy}" in line

    file.write_text(copy.read_text())
    assert "1 of them finished" in works(*sweep, **found).stdout
    assert "resuming from step 20" in works(*train, **found).stderr


def test_training_warns_of_a_model_that_is_worse_than_chance(tmp_path):
    done = works("train", f"--workdir={tmp_path}", *SMALL, "--train.learning_rate=8")
    assert (
        done.stderr.count("the model is worse than one to which all tokens are equally prob") == 2
    )


def test_a_sweep_says_at_once_which_run_failed(tmp_path):
    (tmp_path / "lost.py").write_text(  # not finite for annotations, which are less than 1
        "import jax.numpy as jnp\n"
        "def own(query, keys):\n"
        "    return keys @ query * jnp.where(jnp.abs(keys).max() < 1, jnp.nan, 1)"
    )
    root = tmp_path / "sweep"
    options = f"--workdir={root}", *SMALL, "--grid.model.score=lost:own,dot", "--jobs=1"
    done = program("sweep", *options, PYTHONPATH=tmp_path)
    failed = (
        "model.score=lost:own failed: the loss or its gradient is not finite from the first step on"
    )
    _, said, other = done.stdout.splitlines()
    assert failed in said
    assert other == "finished model.score=dot (1 of 2 done, 1 failed)"
    assert done.returncode == 2
    assert failed in done.stderr


def test_a_report_of_a_sweep(sweep):
    done = works("report", f"--workdir={sweep}")
    assert f"report: {sweep / 'report.md'}" in done.stdout
    assert f"each run: {sweep / 'runs.csv'}" in done.stdout
    assert (sweep / "runs.csv").read_text().startswith("folder,comparison,system,seed,rank,")
    assert (sweep / "reverse-beside.png").stat().st_size > 10_000


def test_parameters_of_another_run_are_needed_until_a_first_checkpoint(workdir, tmp_path):
    other, whole, early = (tmp_path / name for name in ("other", "whole", "early"))
    shutil.copytree(workdir, other)
    flags = [*SMALL, f"--train.initial={other}"]
    works("train", f"--workdir={whole}", *flags)
    (early / "checkpoints").mkdir(parents=True)  # empty if a run ends before its first checkpoint
    shutil.copy(whole / "flags.txt", early)
    works("train", f"--workdir={early}", *flags)
    assert loss_of(whole) == loss_of(early) != loss_of(other)
    line = refused("train", f"--workdir={tmp_path / 'larger'}", *flags, "--model.hidden_size=24")
    assert "does not fit this model" in line
    assert f"the model options in {other}/flags.txt are those of that run" in line
    shutil.rmtree(other)
    works("train", f"--workdir={early}", "--train.steps=30")


def test_a_damaged_checkpoint_is_told_in_a_sentence_whose_advice_holds(workdir, tmp_path):
    run = shutil.copytree(workdir, tmp_path / "run")
    damaged = run / "checkpoints" / "20"
    for file in (damaged / "model").rglob("d/*"):
        os.truncate(file, 100)
    uses = [(name, f"--workdir={run}") for name in ("translate", "evaluate")]
    train = ("train", f"--workdir={run}", "--train.steps=30")
    for command in (*uses, train):
        line = refused(*command, stdin="1 2\n")
        assert line.startswith(f"error: {damaged / 'model'} is damaged: it has changed")
        instead = f"{damaged.with_name('10')} instead (train: with --train.fallback)"
        assert line.endswith(f"; put a copy of {damaged} back, or use {instead}")
    other = f"--workdir={damaged.with_name('10')}"
    for name in ("translate", "evaluate"):
        works(name, other, stdin="1 2\n")
    said = works(*train, "--train.fallback").stderr
    assert "resuming from step 10" in said
    (aside,) = (run / "damaged").iterdir()
    assert f"{damaged} is damaged, and was set aside as {aside / '20'}" in said
    lines = (aside / "metrics.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line)["step"] for line in lines] == [10, 20]
    for command in uses:
        works(*command, stdin="1 2\n")


def loss_of(folder):
    return json.loads((folder / "metrics.jsonl").read_text().splitlines()[0])["train_loss"]


def test_a_folder_is_locked_before_it_is_read(tmp_path):
    with alone(tmp_path):
        assert "another process is training" in refused("train", f"--workdir={tmp_path}", *SMALL)
    assert not list(tmp_path.iterdir())
    file = tmp_path / "file"
    file.touch()
    assert "file is a file, not the folder of a run" in refused("train", f"--workdir={file}")


def begun(command, **streams):
    """A process that an interrupt reaches, even if this one ignores it as background jobs do."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **streams)
    signal.signal(signal.SIGINT, before)
    return process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_sweep_that_is_interrupted_ends_its_runs(tmp_path, number):
    command = [sys.executable, "-m", "attn_jax", "sweep", f"--workdir={tmp_path}", *SMALL]
    command += ["--train.steps=1000000", "--grid.seed=0,1"]
    sweep = begun(command, stdout=subprocess.PIPE)
    while len(list(tmp_path.glob("*/metrics.jsonl"))) < 2 and sweep.poll() is None:
        time.sleep(0.1)
    # While a run is training, its folder is locked.
    assert "another process is training" in refused("train", f"--workdir={tmp_path / 'seed=0'}")
    sweep.send_signal(number)  # not to its runs
    shown, said = sweep.communicate(timeout=120)
    assert sweep.returncode == 75
    advice = "the same command goes on from the last checkpoint, if there is one"
    assert said == f"interrupted; {advice}\n"
    for seed in range(2):
        log, run = tmp_path / f"seed={seed}.log", tmp_path / f"seed={seed}"
        saved = max(int(folder.name) for folder in (run / "checkpoints").iterdir())
        told = f"saved at step {saved}, as SIGTERM asked; the same command goes on from there\n"
        assert log.read_text().endswith(told)
        assert f"seed={seed} was interrupted\n" in shown


def test_an_interrupt_during_imports_shows_no_traceback(tmp_path):
    command = [sys.executable, "-X", "importtime", "-m", "attn_jax", "train"]
    with begun([*command, f"--workdir={tmp_path}"]) as process:
        for line in process.stderr:
            if line.endswith(" attn_jax.settings\n"):  # among the first that programs import
                break
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
    assert process.returncode == -signal.SIGINT
    assert "Traceback" not in rest


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
def test_an_interrupt_is_not_lost_as_garbage_is_collected(number):
    code = f"""
import gc, signal, time
from types import SimpleNamespace
from attn_jax.cli.program import run

def main():
    signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.callbacks.append(lambda *_: gc.callbacks.clear() or signal.raise_signal(signal.{number}))
    gc.collect()
    for _ in range(1000):
        time.sleep(0.1)

run(SimpleNamespace(__name__="one", define=lambda: None, main=main))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


def test_a_signal_is_not_lost_to_another_one_as_it_is_sent_again(monkeypatch):
    sent, interrupts = threading.Event(), Interrupts()
    monkeypatch.setattr("os.kill", lambda *_: sent.set())
    with pytest.raises(Terminated):
        interrupts.hear(signal.SIGTERM, None)
    interrupts.not_lost(SimpleNamespace(exc_type=Terminated, exc_value=Terminated()))
    interrupts.hear(signal.SIGTERM, None)
    assert sent.wait(30)
    with pytest.raises(Terminated):
        interrupts.hear(signal.SIGTERM, None)


def test_signals_that_come_together_are_one():
    """As those of `timeout`, which tells a program and its group, so that it hears two."""
    code = """
import os, signal, threading
from types import SimpleNamespace
from attn_jax.cli.program import run

def main():
    def send():
        for _ in range(100):
            os.kill(os.getpid(), signal.SIGTERM)

    threading.Timer(0.2, send).start()
    threading.Event().wait(60)

run(SimpleNamespace(__name__="one", define=lambda: None, main=main))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


def test_a_run_starts_again_from_its_flags(workdir, tmp_path):
    works("train", f"--flagfile={workdir / 'flags.txt'}", f"--workdir={tmp_path / 'again'}")
    for file in ("flags.txt", "evaluation.test.json", "predictions.test.jsonl"):
        assert (tmp_path / "again" / file).read_text() == (workdir / file).read_text()


def test_evaluate_prints_and_writes(workdir):
    done = works("evaluate", f"--workdir={workdir}", "--split=validation")
    assert "exact match" in done.stdout
    assert "chrf: nrefs:1" in done.stdout
    assert (workdir / "evaluation.validation.json").is_file()


def contents(folder):
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_evaluate_measures_a_text_that_is_not_of_the_data_and_writes_nothing(workdir, tmp_path):
    """Given as a text, the test split has the same figures, except those of gold alignments."""
    lines = (workdir / "predictions.test.jsonl").read_text().splitlines()
    examples = list(map(json.loads, lines))
    (tmp_path / "a").write_text("".join(" ".join(one["source"]) + "\n" for one in examples))
    (tmp_path / "b").write_text("".join(one["reference"] + "\n" for one in examples))
    text = [f"--sources={tmp_path / 'a'}", f"--targets={tmp_path / 'b'}"]
    own = works("evaluate", f"--workdir={workdir}").stdout
    before = contents(workdir)
    found = works("evaluate", f"--workdir={workdir}", *text).stdout
    assert contents(workdir) == before
    assert " a " in found.splitlines()[0]
    assert ["│", "sentences", "│", "20", "│"] in figures(found)
    assert "alignment accuracy" in own
    assert figures(found) == [line for line in figures(own) if line[1] != "alignment"]
    one = workdir / "checkpoints" / "10"
    earlier = works("evaluate", f"--workdir={one}", *text).stdout
    assert f"model: {one}\n" in earlier
    assert perplexity(earlier) != perplexity(found)
    best = json.loads((workdir / "evaluation.test.json").read_text())["step"]
    given = works("evaluate", f"--workdir={one.with_name(str(best))}", *text).stdout
    assert perplexity(given) == perplexity(found)
    assert contents(workdir) == before
    assert figures(works("evaluate", f"--workdir={one}").stdout)[2:] != figures(own)[2:]
    ensemble = works(
        "evaluate", f"--workdir={workdir}", f"--also={one.with_name(str(best))}"
    ).stdout
    alike = [line for line in figures(own) if "parameters" not in line]
    assert [line for line in figures(ensemble) if "parameters" not in line] == alike
    assert f"checkpoints/{best} (log_probabilities)\n" in ensemble
    assert contents(workdir) == before
    assert "is for several models" in refused(
        "evaluate", f"--workdir={workdir}", "--combination=probabilities"
    )


def perplexity(told):
    (line,) = (line for line in figures(told) if "perplexity" in line)
    return line


def figures(told):
    """The words of each row of the table that an evaluation prints."""
    return [line.split() for line in told.splitlines() if line.startswith("│")]


def test_evaluate_says_what_it_does_not_know_of_a_text(workdir, tmp_path):
    (tmp_path / "a").write_text("1 zebra\n")
    (tmp_path / "b").write_text("gnu 1\n")
    text = [f"--sources={tmp_path / 'a'}", f"--targets={tmp_path / 'b'}"]
    told = works("evaluate", f"--workdir={workdir}", *text).stderr
    assert "source: unknown to the model: 'zebra'\ntarget: unknown to the model: 'gnu'\n" in told


@pytest.mark.parametrize(
    ("sources", "targets", "flags", "message"),
    [
        ("1 2\n", None, [], "give both --sources and --targets, or neither"),
        ("1 2\n", "2 1\n", ["--split=test"], "give --split or another text"),
        ("1 2\n", "2 1\n3\n", [], "a has 1 lines, but"),
        ("", "", [], "a is empty"),
        ("1\n\n", "1\n2\n", [], "a, line 2: the sentence is empty"),
        (
            "1\n2\n",
            "1\n" + "2 " * 513,
            [],
            "text pair 2: the target side has 513 tokens, more than",
        ),
    ],
)
def test_evaluate_refuses_a_text(workdir, tmp_path, sources, targets, flags, message):
    given = {"sources": ("a", sources), "targets": ("b", targets)}
    for flag, (name, text) in given.items():
        if text is not None:
            (tmp_path / name).write_text(text)
            flags = [*flags, f"--{flag}={tmp_path / name}"]
    assert message in refused("evaluate", f"--workdir={workdir}", *flags)


def test_evaluate_and_report_measure_what_another_toolkit_wrote(workdir, tmp_path):
    """The figures of a run are those of a file of its translations and weights."""
    lines = (workdir / "predictions.test.jsonl").read_text().splitlines()
    examples = list(map(json.loads, lines))
    translations = attn_jax.load(workdir).translate([one["source_text"] for one in examples])
    pairs = [
        Weighed(one.source.tokens, [*one.tokens, "</s>"][: one.weights.shape[2]], one.weights)
        for one in translations
    ]
    pairs = [
        one._replace(target_words=[*range(len(one.target) - 1), -1])
        if one.target[-1] == "</s>"
        else one
        for one in pairs
    ]
    file, references = tmp_path / "other.npz", tmp_path / "references"
    attn_jax.save_weights(file, pairs)
    references.write_text("".join(one["reference"] + "\n" for one in examples))
    told = works("evaluate", f"--workdir={file}", f"--targets={references}").stdout
    own = works("evaluate", f"--workdir={workdir}").stdout
    assert f"model: {file}\n" in told
    (chrf,) = (line for line in figures(own) if "chrf" in line)
    assert chrf in figures(told)
    refusal = refused("evaluate", f"--workdir={file}", "--beam_size=2")
    assert f"--beam_size is for a run: {file} has what was written" in refusal
    assert "give --targets" in refused("evaluate", f"--workdir={file}")
    references.write_text("1\n")
    few = refused("evaluate", f"--workdir={file}", f"--targets={references}")
    assert f"{file} has 20 pairs, but there are 1 targets" in few
    shutil.copytree(workdir, tmp_path / "runs" / "own")
    works("report", f"--workdir={tmp_path / 'runs'}", f"--weights={file}")
    with (tmp_path / "runs" / "runs.csv").open() as table:
        rows = {row["folder"]: row for row in csv.DictReader(table)}
    assert rows.keys() == {"own", "other"}
    for name in ("exact_match", "chrf", "symbol_error_rate"):
        assert float(rows["other"][name]) == pytest.approx(float(rows["own"][name]))


def test_translate_reads_lines(workdir, tmp_path):
    piped = works("translate", f"--workdir={workdir}", stdin="1 2 3\n4 5\n")
    assert len(piped.stdout.splitlines()) == 2
    (tmp_path / "source.txt").write_text("1 2 3\n4 5\n")
    read = works("translate", f"--workdir={workdir}", f"--input={tmp_path / 'source.txt'}")
    assert read.stdout == piped.stdout
    assert "tensorflow" not in piped.stderr


def test_translate_goes_on_counting_from_part_to_part(workdir):
    flags = "--n_best=1", "--max_length=1"
    few = works("translate", f"--workdir={workdir}", *flags, stdin="1 2\n\n3\n").stdout
    many = works("translate", f"--workdir={workdir}", *flags, stdin="1 2\n\n3\n" * 1000).stdout
    texts = [line.split(" ||| ")[1] for line in few.splitlines()] * 1000
    numbers = [number for number in range(3000) if number % 3 != 1]
    expected = [f"{number} ||| {text}" for number, text in zip(numbers, texts, strict=True)]
    assert [line.rsplit(" ||| ", 2)[0] for line in many.splitlines()] == expected


@pytest.mark.parametrize(
    ("of", "others"), [("weights", []), ("posterior", ["each layer and head, tokens"])]
)
def test_align_writes_links_weights_and_pictures(workdir, tmp_path, of, others):
    (tmp_path / "a").write_text("1 2 3\n4 5\n")
    (tmp_path / "b").write_text("3 2 gnu\n5 4\n")
    done = works(
        "align",
        f"--workdir={workdir}",
        f"--sources={tmp_path / 'a'}",
        f"--targets={tmp_path / 'b'}",
        f"--weights={tmp_path / 'w.npz'}",
        f"--figures={tmp_path / 'figures'}",
        f"--page={tmp_path / 'page.html'}",
        f"--of={of}",
    )
    assert "forward, target: unknown to the model: 'gnu'\n" in done.stderr
    assert [len(line.split()) for line in done.stdout.splitlines()] == [3, 2]
    with np.load(tmp_path / "w.npz") as weights:
        assert [weights[name].shape for name in weights] == [(3, 3), (2, 2)]
    assert len(list((tmp_path / "figures").glob("*.png"))) == 2
    data = data_of((tmp_path / "page.html").read_text("utf-8"))
    ((of_texts,),) = (one["splits"] for one in data["sets"])
    assert [one["target"] for one in of_texts["sentences"]] == ["3 2 gnu", "5 4"]
    names = [system["name"] for system in of_texts["systems"]]
    assert names == ["forward, words", *others]  # the one head itself only if links are not of it


def test_a_transformer_with_what_goes_with_it(tmp_path):
    """Many options together in one run, which is trained, extended, reported and used."""
    flags = [
        *SMALL,
        "--data.vocabulary=joint",
        "--model.encoder=transformer",
        "--model.decoder=transformer",
        "--model.score=scaled_dot",
        "--model.heads=2",
        "--model.decoder_layers=2",
        "--model.norm=pre",
        "--model.positions=rotary",
        "--model.embeddings=three_way",
        "--model.embedding_size=16",
        "--model.dropout=0.1",
        "--model.dropout_kind=variational",
        "--train.optimizer=adam(beta2=0.98)",
        "--train.order=sorted(batches=3)",
        "--train.losses=guided(weight=0.5,head=2.1)",
        "--train.scheduled_sampling=0.2",
        "--train.microbatches=2",
        "--train.compute=bfloat16",
        "--train.average=0.99",
        f"--workdir={tmp_path / 'run'}",
    ]
    works("train", *flags)
    works("train", *flags, "--train.steps=30")
    works("report", f"--workdir={tmp_path}")
    assert (tmp_path / "reverse-heads-1.png").is_file()
    assert "layer 2, head 1" in (tmp_path / "report.md").read_text()
    works("translate", f"--workdir={tmp_path / 'run'}", stdin="1 2 3\n")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            ["--model.score=bilinear"],
            "unknown score 'bilinear' (did you mean linear?), or module:name of your own",
        ),
        (["--model.score=dot", "--model.hidden_size=6"], "of one size, got 6 and 16"),
        (["--data.name=revers"], "unknown data set 'revers'; allowed: copy, reverse"),
        (["--data.directory=s3://data"], "s3://data is a URL"),
        (["--workdir=gs://bucket/run"], "gs://bucket/run is a URL"),
        (["--modle.score=dot"], "model.score"),
        (["--train.metric=blue"], "did you mean bleu?"),
        (["--data.bleu_tokenizer=14a"], "unknown BLEU tokenisation '14a' (did you mean 13a?)"),
        (["additive"], "'additive' is not a flag"),
        (["--train.clip_norm=a"], "--train.clip_norm must be of type float, got 'a'"),
        (["--data.name=parallel"], "--data.name=parallel needs --data.train"),
        (["--data.name=parallel", "--data.train=none", "--data.source=a"], "none does not exist"),
        (["--train.initial=nowhere"], "nowhere has no checkpoint of a run"),
        (["--model.embeddings=shared"], "shared needs --data.vocabulary=joint"),
        (["--data.name=dates", "--train.losses=guided"], "text in words with --data.links"),
        (["--train.losses=guided(head=2.1)"], "head=2.1 does not exist"),
        (["--data.links=x"], "--data.links is of your own text, and --data.name=reverse is not"),
        (
            ["--data.name=unknown", "--data.second_source=tags", "--model.sources=flat"],
            "--data.second_source",
        ),
        (["--train.max_length=4", "--data.shortest=5"], "longer than --train.max_length=4"),
        (["--model.window=local_m(half_width=1e30)"], "half_width must be of type int"),
        (["--data.max_length=5", "--data.shortest=6"], "more than --data.max_length=5"),
        (["--model.hidden_size=1000000"], "there is not enough memory (Out of memory allocating"),
    ],
)
def test_train_refuses_and_writes_nothing(flags, message, tmp_path):
    assert message in refused("train", f"--workdir={tmp_path / 'run'}", *SMALL, *flags)
    assert not (tmp_path / "run").exists()


def test_a_flag_file_does_not_undo_flags_before_it(workdir, tmp_path):
    file, run = f"--flagfile={workdir / 'flags.txt'}", f"--workdir={tmp_path / 'run'}"
    line = refused("train", run, f"--train.initial={workdir}", file)
    assert f"--train.initial={workdir} has no effect: the flag file after it sets" in line
    assert not (tmp_path / "run").exists()
    line = refused("train", "--data.name=x", file, "--data.name=y", run)
    assert "unknown data set 'y'" in line
    assert "has no effect" in refused("train", run, "--seed=1", "--seed=2", file)
    assert "--seed=1 has no effect" in refused("train", run, "--seed", "1", file)
    works("train", run, "--seed=0", file, f"--train.initial={workdir}", "--train.steps=1")


def test_a_path_may_begin_with_the_users_folder(workdir):
    run = f"~/{workdir.name}/checkpoints/last"
    works("translate", f"--workdir={run}", stdin="1 2\n", HOME=str(workdir.parent))


def test_a_path_in_a_flag_file_may_begin_with_the_users_folder(tmp_path):
    (tmp_path / "own.flags").write_text("--data.name=parallel\n--data.train=~/none\n")
    more = ("--data.valid=~/none", "--data.source=de", "--data.target=en")
    run = (f"--workdir={tmp_path / 'run'}", f"--flagfile={tmp_path / 'own.flags'}", *more)
    assert f"{tmp_path}/none" in refused("train", *run, HOME=str(tmp_path))


def test_a_sweep_is_not_put_into_a_run(workdir):
    line = refused("sweep", f"--workdir={workdir}", *SMALL, "--grid.seed=0,1")
    assert "is the folder of a run: take another folder for a sweep" in line
    assert not (workdir / "seed=0.log").exists()


def test_another_run_is_not_overwritten(workdir):
    before = (workdir / "flags.txt").read_text()
    line = refused("train", f"--workdir={workdir}", "--model.score=dot", "--seed=3")
    changed = "seed was 0 and is now 3; --model.score was 'additive(units=128)' and is now 'dot'"
    assert changed in line
    assert (workdir / "flags.txt").read_text() == before


def test_a_finished_run_keeps_its_evaluations(workdir, tmp_path):
    run = shutil.copytree(workdir, tmp_path / "run")
    for split in ("validation", "test"):
        works("evaluate", f"--workdir={run}", f"--split={split}", "--beam_size=2")
    before = {file.name: file.read_text() for file in run.glob("evaluation.*")}
    assert "decoding: beam_size=2" in works("train", f"--workdir={run}").stdout
    assert {file.name: file.read_text() for file in run.glob("evaluation.*")} == before
    assert "decoding: greedy" in works("train", f"--workdir={run}", "--train.steps=21").stdout
    (file,) = run.glob("evaluation.*")
    assert file.name == "evaluation.test.json"
    file.write_text("{")
    assert "evaluation.test.json is damaged" in refused("train", f"--workdir={run}")


def test_a_run_goes_on_with_the_data_that_it_began_with(tmp_path):
    """The data may lie elsewhere, but their content must not change."""
    folder = tmp_path / "text"
    folder.mkdir()
    pairs = "".join(f"{n} a\t{n} b b\n" for n in range(20))
    (folder / "train").write_text(f"{pairs}{'a ' * 513}\tb\n\nc\t\n")
    (folder / "valid").write_text("0 a\t0 b b\n21 a\t21 b b\n")

    def flags():
        data = [f"--data.{option}={folder / option}" for option in ("train", "valid")]
        return [f"--workdir={tmp_path / 'run'}", "--data.name=parallel", *SMALL, *data]

    done = works("train", *flags(), "--model.norm=pre")
    told = done.stdout
    idle = "--data.examples, --data.held_out, --data.longest, --model.norm"
    assert f"warning: no run here uses {idle}" in done.stderr.splitlines()
    assert "no test split: the run is not evaluated" in told
    assert "1 of 2 validation pairs are training pairs too" in told
    assert "20 training pairs (3 left out, empty or of over 100 tokens)" in told
    # Each number occurs once, too rarely to be known; pairs that are left out do not count.
    assert "50.0 and 33.3 % of training, 50.0 and 33.3 % of validation" in told
    folder = folder.rename(tmp_path / "elsewhere")
    assert "the run has finished at step 20" in works("train", *flags()).stdout
    assert str(folder) in (tmp_path / "run" / "flags.txt").read_text()
    evaluation = ["evaluate", f"--workdir={tmp_path / 'run'}", "--split=train"]
    assert "3 pairs left out, empty or of over 512 tokens" in works(*evaluation).stdout
    (folder / "train").write_text("a\tb\n")
    assert "are not those that the run" in refused("train", *flags(), "--train.steps=30")
    assert "are not those that the run" in refused(*evaluation)


def test_a_folder_of_something_else_is_not_written_to(tmp_path):
    (tmp_path / "thesis.txt").write_text("all of it")
    assert "is not the folder of a run" in refused("train", f"--workdir={tmp_path}")
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.txt"]


def test_help_is_no_failure():
    assert "--train.steps" in works("train", "--help").stdout
    assert "--train.steps" in works("train", "-h").stdout


def test_what_is_no_run_cannot_be_used(workdir, tmp_path):
    assert "is not the folder of a run" in refused("evaluate", f"--workdir={tmp_path}")
    assert "is not the folder of a run" in refused("translate", f"--workdir={tmp_path}")
    assert "holds no run" in refused("report", f"--workdir={tmp_path}")
    assert "--workdir is missing" in refused("train")
    assert "could not be read again" in refused("train", f"--workdir={tmp_path / 'a[1]'}", *SMALL)
    moved = shutil.copytree(workdir, tmp_path / "b[1]")
    assert "could not be read again" in refused("train", f"--workdir={moved}")
    said = refused("sweep", f"--workdir={tmp_path / 'sweep'}", *SMALL, "--grid.label=a,b[1]")
    assert "label=b[1] could not be read again" in said
    assert "another label in a sweep" in said
    assert not (tmp_path / "sweep").exists()
    grid = f"--workdir={tmp_path / 'sweep'}", *SMALL, "--grid.seed=1,2"
    for refusing in (("train", "--workdir=x"), ("sweep", *grid)):
        assert "trained in float32" in refused(*refusing, JAX_ENABLE_X64="1")
    assert not (tmp_path / "sweep").exists()
    assert "--output is missing: the file to be written" in refused("export", "--workdir=x")
    line = refused("train", "--workdir=x", "--flagfile=nothing.flags")
    assert "nothing.flags: No such file or directory; presets are bahdanau-2014.flags" in line
    (tmp_path / "outer.flags").write_text("--flagfile=inner.flags")
    line = refused("train", "--workdir=x", f"--flagfile={tmp_path / 'outer.flags'}")
    assert "inner.flags: No such file or directory; flag files name others from the" in line
    (tmp_path / "file").write_text("")
    assert "Not a directory" in refused("train", f"--workdir={tmp_path / 'file' / 'x'}", *SMALL)


def test_sentences_that_cannot_be_translated(workdir):
    translate = ("translate", f"--workdir={workdir}")
    assert works(*translate).stdout == ""  # no line is none to translate
    assert "line 3 has 600 tokens, more than the 512" in refused(
        "translate", f"--workdir={workdir}", stdin="1\n\n" + "1 " * 600
    )


def test_translate_searches_as_its_flags_say(workdir):
    lines = "1 2 3\n2 1\n"
    found = works("translate", f"--workdir={workdir}", "--beam_size=3", stdin=lines).stdout
    assert len(found.splitlines()) == 2
    spaced = works("translate", f"--workdir={workdir}", "--beam_size=3", stdin="1 2 3\n \n2 1\n\n")
    assert spaced.stdout.splitlines() == [*"\n\n".join(found.splitlines()).split("\n"), ""]
    n_best = works("translate", f"--workdir={workdir}", "--beam_size=3", "--n_best=2", stdin=lines)
    rows = [line.split(" ||| ") for line in n_best.stdout.splitlines()]
    assert [row[0] for row in rows] == ["0", "0", "1", "1"]
    assert [row[1] for row in rows[::2]] == found.splitlines()
    assert all(float(row[3]) >= float(row[2]) for row in rows)
    drawn = ["--temperature=2", "--n_best=1", f"--also={workdir}/checkpoints/10"]
    one, again, other = (
        works("translate", f"--workdir={workdir}", *drawn, f"--seed={seed}", stdin=lines).stdout
        for seed in (1, 1, 2)
    )
    assert one == again != other


def test_translate_says_what_it_does_not_know(workdir):
    done = works("translate", f"--workdir={workdir}", stdin="1 zebra 2\nzebra gnu\n")
    assert "unknown to the model: 'zebra' 'gnu'\n" in done.stderr
    assert len(done.stdout.splitlines()) == 2
    known = works("translate", f"--workdir={workdir}", stdin="1 2\n")
    assert "unknown" not in known.stderr


def test_translate_answers_in_a_terminal(workdir):
    """Each translation is shown with its alignment; a sentence that is too long is refused.

    Text is UTF-8 whatever the locale, and an invalid byte is a token that is not known.
    """
    command = [sys.executable, "-m", "attn_jax", "translate", f"--workdir={workdir}"]
    pipe, ascii_only = subprocess.PIPE, os.environ | {"PYTHONIOENCODING": "ascii"}
    master, slave = pty.openpty()
    with subprocess.Popen(
        command, stdin=slave, stdout=pipe, env=ascii_only, encoding="utf-8"
    ) as process:
        os.write(master, b"1 2 3\n" + b"1 " * 600 + b"\n2 1\n3 \xff\n\n")
        answer, _ = process.communicate(timeout=300)
    os.close(master)
    os.close(slave)
    assert process.returncode == 0
    assert answer.count("nats)") == 3
    assert answer.count("</s>") == 3
    assert "█" in answer or "▓" in answer or "▒" in answer or "░" in answer
    assert "|" in answer


def test_evaluate_says_how_it_searched(workdir, tmp_path):
    copy = shutil.copytree(workdir, tmp_path / "copy")
    flags = "--beam_size=2", "--length_penalty=average", "--unknown=copy"
    told = works("evaluate", f"--workdir={copy}", *flags).stdout
    assert "decoding: beam_size=2, length_penalty=average, unknown=copy\n" in told
    result = json.loads((copy / "evaluation.test.json").read_text())
    expected = {"beam_size": 2, "length_penalty": "average", "unknown": "copy"}
    assert result["search"] == expected


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    (folder / "a").write_text("1 2 3\n4 5\n")
    (folder / "b").write_text("3 2 1\n5 4\n")
    (folder / "gold").write_text("2-0 1-1 0?2\n1-0 0-1\n")
    return folder


def test_align_combines_and_scores_both_directions(workdir, pairs, tmp_path):
    text = [f"--sources={pairs / 'a'}", f"--targets={pairs / 'b'}"]
    both = [f"--workdir={workdir}", f"--reverse={workdir}", *text, f"--gold={pairs / 'gold'}"]
    dev = [
        f"--dev_{name}={pairs / file}"
        for name, file in zip(("sources", "targets"), "ab", strict=True)
    ]
    for more in (["--of=posterior"], [*dev, f"--dev_gold={pairs / 'gold'}", "--links=threshold"]):
        weights = tmp_path / "weights.npz"
        done = works("align", *both, *more, "--symmetrization=union", f"--weights={weights}")
        lines = done.stdout.splitlines()
        assert len(lines) == 2
        for line, (sources, targets) in zip(lines, [(3, 3), (2, 2)], strict=True):
            for link in line.split():
                source, target = map(int, link.split("-"))
                assert source < sources
                assert target < targets
        assert {name: w.shape for name, w in np.load(weights).items()} == {
            "forward_0": (3, 3),
            "forward_1": (2, 2),
            "reverse_0": (3, 3),
            "reverse_1": (2, 2),
        }
        for name in ("forward", "reverse", "agreement", "AER"):
            assert name in done.stderr
    told = works("align", *both, "--links=threshold(least=1)").stderr.splitlines()
    assert sum("no links" in line for line in told if "forward" in line or "reverse" in line) == 2
    said = refused("align", *both, f"--weights={tmp_path / 'none' / 'w.npz'}")
    assert "--weights must be a file .npz in a folder that exists" in said


@pytest.fixture(scope="module")
def spelt(workdir, tmp_path_factory):
    """A copy of the run whose tokens are characters."""
    run = shutil.copytree(workdir, tmp_path_factory.mktemp("spelt") / "run")
    for file in run.glob("vocabulary.*.json"):
        content = json.loads(file.read_text())
        manifest.write(run, file, json.dumps(content | {"level": "character"}))
    return run


def test_align_links_the_tokens_of_a_word(workdir, spelt, tmp_path):
    (tmp_path / "a").write_text("123\n4 56\n")
    (tmp_path / "b").write_text("321\n654\n")
    text = [f"--sources={tmp_path / 'a'}", f"--targets={tmp_path / 'b'}"]
    command = ["align", f"--workdir={spelt}", *text, "--links=threshold(least=1e-9)"]
    widths = {}
    for unit, sizes in {"word": [(1, 1), (1, 2)], "token": [(3, 3), (3, 4)]}.items():
        folder = tmp_path / unit
        folder.mkdir()
        kept = [f"--weights={folder / 'w.npz'}", f"--figures={folder}"]
        done = works(*command, *kept, f"--unit={unit}", f"--reverse={spelt}")
        links = [line.split() for line in done.stdout.splitlines()]
        assert links == [[f"{s}-{t}" for s in range(S) for t in range(T)] for T, S in sizes]
        with np.load(folder / "w.npz") as weights:
            shapes = [weights[name].shape for name in weights]
        assert shapes == [*sizes, *(size[::-1] for size in sizes)]
        widths[unit] = imread(folder / "alignment-1.png").shape[1]
        assert "each line is one word" not in done.stderr
    assert widths["token"] > widths["word"]
    line = refused(*command, "--unit=token", f"--reverse={workdir}")
    assert "the two directions cut pair 1 into different tokens" in line
    (tmp_path / "a").write_text("123\n")
    said = works("align", f"--workdir={spelt}", text[0], f"--targets={tmp_path / 'a'}").stderr
    assert "each line is one word: --unit=token links what is in it" in said


def test_two_runs_of_one_direction_are_refused(workdir, tmp_path):
    run = shutil.copytree(workdir, tmp_path / "run")
    flags = (run / "flags.txt").read_text()
    named = {"--data.source=": "--data.source=en", "--data.target=": "--data.target=fr"}
    (run / "flags.txt").write_text("\n".join(named.get(one, one) for one in flags.splitlines()))
    text = [f"--{side}={run / 'flags.txt'}" for side in ("sources", "targets")]
    line = refused("align", f"--workdir={run}", f"--reverse={run}", *text)
    assert "both runs translate from en to fr: --reverse is for one from fr to en" in line


def test_the_best_head_and_shift_are_those_of_the_lowest_error():
    """The second head attends to the right words, one step late; the first attends elsewhere."""
    right = 0.6 * np.roll(np.eye(4)[[3, 2, 1, 0, 0]], 1, axis=0) + 0.1
    weights = np.stack([np.eye(4)[[0, 0, 0, 3, 3]], right])[None]

    class Translator:
        source = target = Symbols([])

        def force(self, sources, targets):
            return [SimpleNamespace(weights=weights) for _ in sources]

    links = frozenset({(3, 0), (2, 1), (1, 2), (0, 3)})
    reading = best_reading(
        OfRun(Translator(), (["a b c d"], ["d c b a"])), [Gold(links, links)], Argmax()
    )
    assert reading == Reading((0, 1), 1)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--head=2.1"], "--head=2.1 does not exist: the model's last head is 1.1"),
        (["--links=best"], "unknown way to make links 'best'; allowed: argmax, threshold"),
        (["--links=threshold(least=2)"], "least must be more than 0 and at most 1, got 2"),
        (["--symmetrization=grow", "--reverse=x"], "did you mean grow_diag"),
        (["--symmetrization=union"], "combines two directions: give --reverse"),
        (["--reverse=x", "--symmetrization=agreement", "--links=argmax"], "makes its own"),
        (["--of=posterior", "--shift=1"], "--shift chooses among weights: leave it out"),
        (["--gold_first=1"], "--gold_first needs --gold"),
        (["--weights=w.txt"], "--weights must be a file .npz in a folder that exists"),
        (["--dev_gold=x"], "give all of --dev_sources, --dev_targets and --dev_gold, or none"),
        (["--gold={0}/b"], "line 1: expected the numbers of one of 2 sentences"),
        (["--gold={0}/none"], "cannot read"),
        (["--gold_first=1", "--gold={0}/gold"], "is counted from 0: give gold_first=0"),
        (["--reverse={0}"], "is not the folder of a run"),
        (["--unit=token", "--gold={0}/gold"], "and gold links are of words"),
        (["--reverse=a.npz"], "must be two runs, or two files of weights"),
        (["--dev_weights=a.npz"], "is for a file of weights: give --dev_sources"),
    ],
)
def test_align_refuses_what_does_not_fit(workdir, pairs, flags, message):
    text = [f"--sources={pairs / 'a'}", f"--targets={pairs / 'b'}"]
    flags = [flag.format(pairs) for flag in flags]
    done = program("align", f"--workdir={workdir}", *text, *flags)
    assert done.returncode == 2
    assert done.stdout == ""
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_export_writes_a_file_or_says_why_not(workdir, tmp_path):
    file = tmp_path / "mine.jax"
    works("export", f"--workdir={workdir}", f"--output={file}", "--beam_size=2")
    assert file.stat().st_size > 10000
    line = refused("export", f"--workdir={workdir}", "--output=x", "--source_length=600")
    assert "source_length must be from 1 to the 512 of --data.max_length" in line
    flags = workdir / "flags.txt"
    before = flags.read_bytes()
    assert "must be a new file" in refused("export", f"--workdir={workdir}", f"--output={flags}")
    assert flags.read_bytes() == before
