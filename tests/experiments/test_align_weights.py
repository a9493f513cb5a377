"""`align` on files of weights of other toolkits: links, errors, the best head, both directions."""

import numpy as np
import pytest

import attn_jax
from attn_jax.runs.weighing import OfFile
from tests.experiments.programs import program, refused, works

# "the black cat" in two subwords each, with the end of the sentence, on which most weight lies.
SOURCE = {"source": ["▁the", "▁bl", "ack", "▁cat", "</s>"], "source_words": [0, 1, 1, 2, -1]}
TARGET = {"target": ["▁le", "▁ch", "at", "▁noir", "</s>"], "target_words": [0, 1, 1, 2, -1]}
WRONG = np.eye(5)[[0] * 5]
RIGHT = np.diag([0.2, 0.0, 0.0, 0.0, 1.0])
RIGHT[:4, 4] = [0.8, 0.7, 0.6, 0.7]
RIGHT[1, 3], RIGHT[2, 3], RIGHT[3, 1:3] = 0.3, 0.4, (0.1, 0.2)
LINKS = "0-0 1-2 2-1"


def written(path, weights, pair=SOURCE | TARGET):
    attn_jax.save_weights(path, [pair | {"weights": weights}] * 2)
    return f"--workdir={path}"


def test_weights_on_tokens_of_no_word_go_to_the_others(tmp_path):
    written(tmp_path / "a.npz", RIGHT[None, None])
    (weights, _) = OfFile(tmp_path / "a.npz").weights()
    expected = [[1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 0, 1], [0, 1 / 3, 2 / 3, 0], [0, 0, 0, 0]]
    np.testing.assert_allclose(weights[0, 0], expected, rtol=1e-6)


def test_links_pictures_and_a_page(tmp_path):
    run = written(tmp_path / "a.npz", RIGHT[None, None])
    gold = tmp_path / "gold"
    gold.write_text(f"{LINKS}\n" * 2)
    more = f"--figures={tmp_path / 'pictures'}", f"--page={tmp_path / 'a.html'}"
    done = works("align", run, f"--gold={gold}", *more, f"--scores={tmp_path / 'a.tsv'}")
    names, first, _ = (tmp_path / "a.tsv").read_text("utf-8").splitlines()
    scores = dict(zip(names.split("\t"), first.split("\t"), strict=True))
    assert float(scores["special"]) == pytest.approx(100 * (0.8 + 0.7 + 0.6 + 0.7 + 1) / 5)
    assert (scores["source"], scores["target"]) == ("the black cat", "le chat noir")
    assert done.stdout == f"{LINKS}\n" * 2
    assert "forward" in done.stderr
    assert (tmp_path / "pictures" / "alignment-2.png").is_file()
    assert (tmp_path / "a.html").is_file()
    tokens = works("align", run, "--unit=token").stdout.splitlines()
    assert tokens == ["0-0 2-3 3-1 3-2"] * 2  # of the tokens of words


def test_the_head_is_chosen_on_other_pairs(tmp_path):
    run = written(tmp_path / "a.npz", np.stack([[WRONG, RIGHT]]))
    (tmp_path / "gold").write_text(f"{LINKS}\n" * 2)
    dev = f"--dev_weights={tmp_path / 'a.npz'}", f"--dev_gold={tmp_path / 'gold'}"
    done = works("align", run, *dev)
    assert "layer 1, head 2, shift +0" in done.stderr
    assert done.stdout == f"{LINKS}\n" * 2


def test_both_directions_are_combined(tmp_path):
    run = written(tmp_path / "a.npz", RIGHT[None, None])
    turned = {
        "source": TARGET["target"],
        "source_words": TARGET["target_words"],
        "target": SOURCE["source"],
        "target_words": SOURCE["source_words"],
    }
    reverse = RIGHT.T / RIGHT.T.sum(axis=1, keepdims=True)
    written(tmp_path / "b.npz", reverse[None, None], turned)
    both = run, f"--reverse={tmp_path / 'b.npz'}"
    assert works("align", *both).stdout == f"{LINKS}\n" * 2
    written(tmp_path / "c.npz", RIGHT[None, None])
    line = refused("align", run, f"--reverse={tmp_path / 'c.npz'}")
    assert "the two directions cut pair 1 into different words" in line


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--sources=a"], "--sources is for a run"),
        (["--of=posterior"], "needs the model of a run"),
        (["--dev_gold=gold"], "give both of --dev_weights and --dev_gold"),
        (["--reverse=runs/x"], "must be two runs, or two files of weights"),
    ],
)
def test_what_a_file_cannot_do_is_refused(tmp_path, flags, message):
    done = program("align", written(tmp_path / "a.npz", RIGHT[None, None]), *flags)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
