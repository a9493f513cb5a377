"""Options of training that are short for losses: what they become, and when options change."""

import pytest

from attn_jax import config
from attn_jax.attention.head_names import Mean, Single
from attn_jax.errors import InputError
from attn_jax.training.losses import Coverage, Diagonal, Entropy, Guided
from tests.options import train_options

BOTH = {"coverage_loss": 0.2, "guided_alignment": "0.5", "guided_head": "1.2"}


def merged(kept, **given):
    """The losses of an experiment of which some options are given anew."""
    recorded = config.values(config.experiment({"train.losses": kept}))
    anew = {f"train.{name}": value for name, value in given.items()}
    return config.experiment(config.merged(recorded, anew)).train.losses


@pytest.mark.parametrize(
    ("options", "losses"),
    [
        ({}, ()),
        ({"coverage_loss": 0, "guided_alignment": "0.0", "guided_head": "mean"}, ()),
        ({"coverage_loss": 0.2}, (Coverage(weight=0.2),)),
        ({"guided_alignment": 1}, (Guided(head=Mean()),)),
        (BOTH, (Coverage(weight=0.2), Guided(weight=0.5, head=Single(layer=1, head=2)))),
        ({"losses": "entropy", "coverage_loss": 1}, (Entropy(), Coverage())),
        # As where a flag file of an earlier version stands before it.
        ({"losses": "guided", "guided_alignment": 0, "guided_head": "mean"}, (Guided(),)),
    ],
)
def test_they_become_losses(options, losses):
    assert train_options(**options).losses == losses
    assert "train.coverage_loss" not in config.values(config.Experiment())


@pytest.mark.parametrize(
    ("losses", "name", "value"),
    [
        ("coverage(weight=2)", "coverage_loss", 0.1),
        ("entropy+guided", "guided_alignment", 1),
        ("guided", "guided_head", "2.1"),
    ],
)
def test_a_loss_is_given_in_one_way_only(losses, name, value):
    told = rf"train\.{name} is short for a setting of \w+ in train\.losses=.*: give it there alone"
    with pytest.raises(InputError, match=told):
        train_options(losses=losses, **{name: value})


def test_shorthands_that_are_given_again_are_those_of_the_run():
    """The same command goes on with a run whose flag file has losses in full."""
    run = "entropy(weight=1.0,head=all)+guided(weight=2.0,head=mean)"
    same = Entropy(), Guided(weight=2)
    assert merged(run) == same
    assert merged(run, guided_alignment=2, losses="entropy") == same
    assert merged(run, guided_alignment="2.0") == same


def test_shorthands_that_are_given_anew_change_or_remove_what_was_recorded():
    run = "guided(weight=2.0,head=mean)+entropy+coverage(weight=0.3)"
    head = Single(layer=2, head=1)
    assert merged(run, guided_head="2.1") == (
        Entropy(),
        Coverage(weight=0.3),
        Guided(weight=2, head=head),
    )
    assert merged(run, guided_alignment=0) == (Entropy(), Coverage(weight=0.3))
    assert merged(run, coverage_loss=0, guided_alignment=0) == (Entropy(),)
    assert merged(run, losses="none") == ()
    with pytest.raises(InputError, match="is short for a setting of coverage"):
        merged("coverage(head=2.1)", coverage_loss=1)  # which cannot tell the head


OLD = """--train.coverage_loss=0.2
--train.guided_alignment=0.5
--train.guided_head=1.2
--seed=3
"""


def test_flag_files_of_earlier_versions_mean_the_same(tmp_path):
    file = tmp_path / "flags.txt"
    file.write_text(OLD)
    experiment = config.read(file)
    assert experiment.train.losses == train_options(**BOTH).losses
    assert config.recorded(file) == config.values(experiment)
    again = tmp_path / "again.txt"
    again.write_text("\n".join(config.lines(experiment)))
    assert config.read(again) == experiment


def test_losses_are_text_as_python_gives_them():
    losses = Diagonal(width=0.1, head=Single(layer=2, head=10)), Entropy(weight=0.01)
    text = "diagonal(head=2.10,width=0.1)+entropy(weight=0.01)"
    for given in (losses, [*losses], text, f" {text.replace('+', ' + ')} "):
        options = config.given({"train.losses": given})
        assert config.experiment(options).train.losses == losses
        assert hash(config.experiment(options)) == hash(config.experiment({"train.losses": text}))
    assert config.given({"train.losses": losses}) == {"train.losses": text}
    assert config.given({"train.losses": Entropy()}) == {"train.losses": "entropy"}
    assert config.given({"train.losses": ()}) == {"train.losses": "none"}
    full = "diagonal(weight=1.0,head=2.10,width=0.1)+entropy(weight=0.01,head=all)"
    assert config.canonical({"train.losses": text}) == {"train.losses": full}
    assert config.brief("train.losses", full) == text


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("entropy+", "malformed loss 'entropy\\+': .*; several are joined by \\+"),
        ("entropy dropout", "malformed loss"),
        (
            "entrpy",
            r"unknown loss 'entrpy' \(did you mean entropy\?\).*monotonicity, or module:name",
        ),
        ("entropy(weight=0)", "entropy: weight must be more than 0, got 0"),
        ("diagonal(width=0)", "diagonal: width must be more than 0"),
        ("entropy(head=some)", "unknown head 'some'; allowed: mean, all, or layer.head as in 2.1"),
        ("os:getcwd", "os:getcwd is a function, .*: write a class derived from attn_jax.Loss"),
        ("attn_jax:Score", "cannot use 'attn_jax:Score' as a loss: it is not derived from .*Loss"),
    ],
)
def test_what_is_no_loss_is_refused(text, told):
    with pytest.raises(InputError, match=told):
        train_options(losses=text)
