"""The examples in the README and in docs/ run exactly as written."""

import json
import re
import shlex
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.experiments.programs import SMALL
from tests.stages import full

pytestmark = full

ROOT = Path(__file__).parents[1]
PAGES = "".join(
    path.read_text()
    for path in (
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *sorted((ROOT / "docs").glob("*.md")),
    )
)
BLOCKS = re.findall(r"```python\n(.*?)```", PAGES, flags=re.DOTALL)


def block(text):
    (found,) = (code for code in BLOCKS if text in code)
    return found


def run(*arguments, cwd):
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("user")


def test_a_score_of_ones_own_then_its_use(folder):
    assert len(block("class Similar").splitlines()) < 20
    (folder / "my_score.py").write_text(block("class Similar"))
    flags = [*SMALL, "--model.score=my_score:Similar(sharpness=5)"]
    run("-m", "attn_jax", "train", "--workdir=runs/mine", *flags, cwd=folder)
    assert (folder / "runs" / "mine" / "evaluation.test.json").is_file()
    run("-c", block("translator.align"), cwd=folder)
    run("-c", block("for one in hypotheses"), cwd=folder)


@pytest.mark.parametrize(
    ("tracker", "logged"), [("wandb", "offline-run-*/*.wandb"), ("mlflow", "mlflow.db")]
)
def test_other_trackers_of_experiments_show_a_run(tmp_path, tracker, logged):
    pytest.importorskip(tracker, reason=f"{tracker} is not installed")
    run("-W", "ignore", "-c", block(f"import {tracker}"), cwd=tmp_path)
    assert list(tmp_path.rglob(logged))


def test_a_program_with_attention_and_no_model_learns(folder):
    command = [sys.executable, "-c", block("optimizer.update(gradient")]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    first, *_, last = (float(line.split()[-1]) for line in done.stdout.splitlines())
    assert first > 0.5
    assert last < 0.05


def test_the_module_in_a_decoder_of_ones_own(folder):
    parts = "class Block(nnx", "block.cross_attention.step", "class LinenBlock"
    run("-c", "\n".join(map(block, parts)), cwd=folder)
    run("-c", block("def by_head"), cwd=folder)


def test_a_loss_and_an_optimizer_of_ones_own(folder):
    command = [sys.executable, "-c", block("Recipe(loss")]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.split()[-1]) < 1.5  # of 2.5 at first; smoothing leaves some


def test_an_export_is_read_as_it_says(folder):
    run("-m", "attn_jax", "train", "--workdir=runs/mine", *SMALL, cwd=folder)
    command = re.search(r"\./launch\.sh (export.*)", PAGES)[1].split()
    run("-m", f"experiments.{command[0]}", *command[1:], cwd=folder)
    run("-c", block("export.deserialize(bytearray(archive"), cwd=folder)
    run("-c", block("load_exported"), cwd=folder)


def test_a_server_answers_as_it_says(folder, monkeypatch):
    run("-m", "attn_jax", "train", "--workdir=runs/mine", *SMALL, cwd=folder)
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)  # the run may be that with a score of one's own
    code = block("ThreadingHTTPServer").replace("8000", "0").replace("server.serve_forever()", "")
    names = {}
    exec(code, names)
    server = names["server"]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    address = f"http://localhost:{server.server_port}"
    try:
        with urllib.request.urlopen(address, data=b"3 1 4\n1 5\n") as answer:
            found = json.loads(answer.read())["translations"]
        assert found == [one.text for one in names["translator"].translate(["3 1 4", "1 5"])]
        with pytest.raises(urllib.error.HTTPError, match="400") as refused:
            urllib.request.urlopen(address, data=b"3 1 4\n\n1")
        assert "source sentence 2 is empty" in json.loads(refused.value.read())["error"]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_stream_of_lines_is_read_as_it_says(folder):
    run("-m", "attn_jax", "train", "--workdir=runs/mine", *SMALL, cwd=folder)
    code = f"import attn_jax\ntranslator = attn_jax.load('runs/mine')\n{block('warm_up(lengths')}"
    command = [sys.executable, "-c", f"{code}\n{block('translate_stream(sys.stdin')}"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, input="1 2\n3\n")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 2


# A translation has the same score when the model is given it as when the model generates it.
CHECK = """
import attn_jax
translator = attn_jax.load("runs/{name}")
(hypothesis,) = translator.translate(["3 1 2"], min_length=1)
(score, _) = translator.score(["3 1 2", "3 1 2 1 2 1"], [hypothesis.text, "1"])
assert abs(score - hypothesis.log_probability) < 1e-3
"""


def test_a_loss_of_the_weights_of_ones_own(folder):
    assert len(block("class Overused").splitlines()) < 15
    (folder / "my_loss.py").write_text(block("class Overused"))
    for name, *flags in re.findall(r"\./launch\.sh (\w+) (.*my_loss:Overused.*)", PAGES):
        words = shlex.split(" ".join(flags))
        small = [*SMALL, "--train.steps=10"] if name == "train" else []
        run("-m", "attn_jax", name, *words, *small, cwd=folder)
    kept = folder / "runs" / "overused" / "code" / "my_loss.py"
    assert kept.read_text() == block("class Overused")


@pytest.mark.parametrize(
    ("module", "option"),
    [
        ("my_cell", "cell=my_cell:MinimalGatedUnit"),
        ("my_decoder", "decoder=my_decoder:Conditional"),
        ("my_encoder", "encoder=my_encoder:Convolutional"),
        ("my_readout", "readout=my_readout:Hidden"),
    ],
)
def test_a_module_of_ones_own(folder, module, option):
    code = block(f"class {option.partition(':')[2]}")
    assert len(code.splitlines()) < 30
    (folder / f"{module}.py").write_text(code)
    flags = [*SMALL, "--train.steps=60", f"--model.{option}"]
    assert f"--model.{option}" in PAGES
    run("-m", "attn_jax", "train", f"--workdir=runs/{module}", *flags, cwd=folder)
    run("-c", CHECK.format(name=module), cwd=folder)


def test_a_way_to_combine_sources_of_ones_own(folder):
    (folder / "my_sources.py").write_text(block("class Added"))
    (folder / "tags.tsv").write_text("abc\tabcs\tN;PL\nbca\tbcaed\tV;PST\n" * 20)
    data = [f"--data.{split}=tags.tsv" for split in ("train", "valid", "test")]
    flags = [*SMALL, "--data.name=parallel", "--data.columns=1,2,3", *data, "--train.steps=4"]
    own = "--model.sources=my_sources:Added"
    assert own in PAGES
    run("-m", "attn_jax", "train", "--workdir=runs/added", *flags, own, cwd=folder)


def test_a_window_and_a_normalizer_of_ones_own(folder):
    (folder / "my_parts.py").write_text(block("class Shares"))
    own = ["--model.window=my_parts:Near", "--model.normalizer=my_parts:Shares"]
    assert " ".join(own) in PAGES
    run("-m", "attn_jax", "train", "--workdir=runs/shares", *SMALL, *own, cwd=folder)


def test_a_score_with_a_state_of_its_own(folder):
    (folder / "my_reader.py").write_text(block("class Reader"))
    assert "./launch.sh check my_reader:Reader" in PAGES
    run("-m", "attn_jax", "check", "my_reader:Reader", cwd=folder)


def test_attention_alone(folder):
    run("-c", block("attend_step"), cwd=folder)


def test_every_program_is_described():
    named = set(re.findall(r"\./launch\.sh ([a-z]+)", PAGES)) - {"test", "docs"}
    modules = (ROOT / "experiments").glob("*.py")
    programs = {path.stem for path in modules if "__main__" in path.read_text()}
    assert named == programs - {"main"}


def test_every_file_that_is_named_exists():
    for file in re.findall(r"(?:--flagfile|--systems)=(experiments/[\w./-]+)", PAGES):
        assert (ROOT / file).is_file()
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")):
        for link in re.findall(r"\]\((?!https?:)([^)#\s]*)(#[^)\s]*)?\)", page.read_text()):
            target = page.parent / link[0] if link[0] else page
            assert target.exists(), f"{page.name}: {link[0]}"
            if link[1]:
                assert link[1] in anchors(target), f"{page.name}: {link[0]}{link[1]}"


def anchors(page):
    """The links to the headings of a page, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), flags=re.MULTILINE)
    plain = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings]
    return {"#" + heading.replace(" ", "-") for heading in plain}
