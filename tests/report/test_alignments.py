"""Figures of what a model attends to."""

import itertools

import matplotlib as mpl
import numpy as np
import pytest

from attn_jax.errors import InputError
from attn_jax.report import alignments
from attn_jax.report.style import STYLE, save


def test_a_heat_map_shows_weights_and_tokens():
    alignment = np.array([[0.2, 0.8], [0.9, 0.1], [0.5, 0.5]])
    axes, _ = alignments.heat_map(alignment, ["ein", " "], ["a", "b", "</s>"]).axes
    np.testing.assert_array_equal(axes.images[0].get_array(), alignment)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["ein", "␣"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b", "</s>"]


def test_bars_are_the_weights_of_each_step():
    alignment = np.array([[0.2, 0.8], [0.9, 0.1]])
    for axes, weights in zip(
        alignments.step_bars(alignment, ["x", "y"], ["a", "b"]).axes, alignment, strict=True
    ):
        np.testing.assert_allclose([bar.get_height() for bar in axes.patches], weights)


@pytest.mark.parametrize(("largest", "end"), [(0.9, 0.9), (0.3, 0.4), (0.04, 0.4), (2.0, 2.0)])
def test_the_scale_ends_at_the_largest_weight(largest, end):
    """But soft weights over many positions stay light."""
    weights, source, target = np.array([[largest, 0.01]]), ["x", "y"], ["a"]
    panel = alignments.Panel(weights, source, target, target)
    small = panel._replace(alignment=weights / 3)
    for figure, own_end in (
        (alignments.heat_map(weights, source, target), end),
        (alignments.heads(weights[None, None], source, target), end),
        (alignments.beside({"one": small, "two": panel}), min(end, 1)),
    ):
        assert all(axes.images[0].get_clim() == (0, own_end) for axes in figure.axes[:-1])
    (axes,) = alignments.step_bars(weights, source, target).axes
    assert axes.get_ylim() == (0, end)
    assert f"from 0 to {end:.2g}" in axes.get_xlabel()


@pytest.mark.parametrize("draw", [alignments.heat_map, alignments.step_bars])
def test_refuses_tokens_that_do_not_fit(draw):
    with pytest.raises(InputError, match=r"\[2, 2\] do not fit 1 target .* and 2 source tokens"):
        draw(np.ones((2, 2)), ["x", "y"], ["a"])


def test_wrong_tokens_are_red():
    weights, reference = np.ones((2, 1)), ["b", "</s>"]
    panels = {
        "one": alignments.Panel(weights, ["x"], ["b", "</s>"], reference),
        "two": alignments.Panel(weights, ["x"], ["c", "</s>"], reference),
    }
    one, two, _ = alignments.beside(panels).axes
    assert [label.get_color() for label in one.get_yticklabels()] == ["black", "black"]
    assert [label.get_color() for label in two.get_yticklabels()] == ["red", "black"]


@pytest.mark.parametrize(
    ("said", "places"),
    [
        ("abcd", {0, 1, 2, 3}),
        ("acd", {0, 1, 2}),
        ("xabcd", {1, 2, 3, 4}),
        ("dd", {0}),
        ("", set()),
    ],
)
def test_tokens_belong_where_the_reference_has_them_in_its_order(said, places):
    assert alignments.common(said, "abcd") == places


def test_panels_are_as_large_whatever_a_system_wrote():
    figure = alignments.beside(
        {
            str(length): alignments.Panel(np.ones((length, 2)), ["x", "y"], ["b"] * length, ["b"])
            for length in (1, 20)
        }
    )
    figure.draw_without_rendering()
    one, other, _ = (axes.get_position().bounds[2:] for axes in figure.axes)
    np.testing.assert_allclose(one, other, rtol=1e-6)


def test_names_of_systems_do_not_lie_upon_each_other():
    normalizers = ("softplus_norm", "topk(k=2)", "a_name_that_is_longer_than_the_panel_under_it")
    names = [f"own:lowrank(fatigue=0.1), normalizer=own:{one}" for one in normalizers]
    panel = alignments.Panel(np.ones((6, 2)), ["fifty-three", "thousand"], ["5"] * 6, ["5"])
    figure = alignments.beside({f"{name}, heads={n}": panel for n in (2, 4) for name in names})
    figure.draw_without_rendering()
    titles = [axes.title.get_window_extent() for axes in figure.axes if axes.get_title()]
    assert len(titles) == 6
    panels = [axes.get_window_extent() for axes in figure.axes[:6]]
    for one, other in itertools.combinations(titles, 2):
        assert not one.overlaps(other)
    assert not any(title.overlaps(panel) for title in titles for panel in panels)
    assert min(panel.height for panel in panels) > 2 * figure.dpi


def test_heads_are_drawn_layers_down_and_heads_across():
    weights = np.arange(12).reshape(2, 3, 2, 1) / 12
    notes = {(2, 3): ": 90%"}
    *all_axes, _ = alignments.heads(weights, ["x"], ["a", "b"], notes).axes
    for axes, own in zip(all_axes, weights.reshape(6, 2, 1), strict=True):
        np.testing.assert_array_equal(axes.images[0].get_array(), own)
    assert [axes.get_title() for axes in all_axes[2::3]] == [
        "layer 1, head 3",
        "layer 2, head 3: 90%",
    ]


def test_many_heads_of_long_sentences_can_be_drawn():
    figure = alignments.heads(np.ones((2, 8, 3, 500)), ["a"] * 500, ["b"] * 3)
    assert figure.get_figwidth() < 50


def test_figures_of_others_stay_as_they_are():
    alignments.heat_map(np.ones((1, 1)), ["a"], ["b"])
    for name in STYLE:
        assert mpl.rcParams[name] == mpl.rcParamsDefault[name]


def test_a_dollar_sign_is_a_sign_as_any_other(tmp_path):
    figure = alignments.heat_map(np.ones((2, 2)), ["$_$", "US$5–$10"], ["a", "b"])  # noqa: RUF001
    save(figure, tmp_path / "dollars.png")
    assert (tmp_path / "dollars.png").is_file()


def test_missing_signs_are_told_once(tmp_path, capsys):
    private = "\U000f0000"  # which no font has
    for _ in range(2):
        save(alignments.heat_map(np.ones((1, 1)), [private], ["b"]), tmp_path / "box.png")
    assert capsys.readouterr().err.count("no installed font has them") == 1
