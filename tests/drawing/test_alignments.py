"""Figures of what a model attends to."""

import itertools

import matplotlib as mpl
import numpy as np
import pytest

from attn_jax.drawing import alignments
from attn_jax.drawing.beside import Panel, beside
from attn_jax.drawing.heads import heads
from attn_jax.drawing.style import ONE_COLUMN, SCREEN, STYLE, TWO_COLUMNS, Picture, save
from attn_jax.edits import edits_of
from attn_jax.errors import InputError


def test_a_heat_map_shows_weights_and_tokens():
    alignment = np.array([[0.2, 0.8], [0.9, 0.1], [0.5, 0.5]])
    axes, _ = alignments.heat_map(alignment, ["ein", " "], ["a", "b", "</s>"]).axes
    np.testing.assert_array_equal(axes.images[0].get_array(), alignment)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["ein", "␣"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b", "</s>"]


@pytest.mark.parametrize("page", [SCREEN, TWO_COLUMNS, ONE_COLUMN])
def test_a_small_heat_map_carries_its_numbers(page):
    def numbers(target):
        figure = alignments.heat_map(
            np.full((target, 8), 0.126), ["x"] * 8, ["y"] * target, "", page
        )
        return [text.get_text() for text in figure.axes[0].texts]

    assert numbers(3) == ["0.13"] * 24
    assert numbers(9) == []
    wide = alignments.heat_map(np.ones((2, 8)), ["x"] * 8, ["y" * 20] * 2, page=ONE_COLUMN)
    assert not wide.axes[0].texts  # since the cells are too small


def test_numbers_can_be_read_on_dark_and_on_light_cells():
    figure = alignments.heat_map(np.array([[0.9, -0.2, 1.3]]), ["a", "b", "c"], ["x"])
    texts = figure.axes[0].texts
    assert [text.get_text() for text in texts] == ["0.90", "-0.20", "1.30"]
    assert [text.get_color() for text in texts] == ["white", "black", "white"]


def test_heat_maps_separate_two_sources():
    weights, target = np.array([[0.2, 0.8, 0.9]]), ["x"]
    for source, places in ((["a", "b", "\tV"], [1.5]), (["a", "b", "V"], [])):
        panel = Panel(weights, source, target, target)
        for figure in (
            alignments.heat_map(weights, source, target),
            heads(weights[None, None], source, target),
            beside({"one": panel}),
        ):
            assert [line.get_xdata()[0] for line in figure.axes[0].lines] == places


def test_bars_are_the_weights_of_each_step():
    alignment = np.array([[0.2, 0.8], [0.9, 0.1]])
    for axes, weights in zip(
        alignments.step_bars(alignment, ["x", "y"], ["a", "b"]).axes, alignment, strict=True
    ):
        np.testing.assert_allclose([bar.get_height() for bar in axes.patches], weights)


@pytest.mark.parametrize(
    ("extreme", "extend"),
    [(0.04, "neither"), (0.9, "neither"), (1 + 1e-7, "neither"), (2.0, "max"), (-0.5, "min")],
)
def test_all_figures_of_weights_have_one_scale(extreme, extend):
    """Also of soft weights, of larger ones than 1 (`gmm`), and of negative ones (mixed heads)."""
    weights, source, target = np.array([[extreme, 0.01]]), ["x", "y"], ["a"]
    panel = Panel(weights, source, target, target)
    small = panel._replace(alignment=weights / 3)
    for figure in (
        alignments.heat_map(weights, source, target),
        heads(weights[None, None], source, target),
        beside({"one": small, "two": panel}),
    ):
        *all_axes, scale = figure.axes
        assert all(axes.images[0].get_clim() == (0, 1) for axes in all_axes)
        # 0.0025 of the largest weight is still 5 % black.
        assert all(axes.images[0].norm(0.0025) == pytest.approx(0.05) for axes in all_axes)
        assert scale._colorbar.extend == extend
        assert ("below 0" in scale.get_ylabel() + scale.get_xlabel()) == (extreme < 0)
    (axes,) = alignments.step_bars(weights, source, target).axes
    assert axes.get_ylim() == (0, 1)
    cut = "" if extend == "neither" else ", others are cut off"
    assert axes.get_xlabel() == f"source (bars are weights from 0 to 1{cut})"


@pytest.mark.parametrize("draw", [alignments.heat_map, alignments.step_bars])
def test_refuses_tokens_that_do_not_fit(draw):
    with pytest.raises(InputError, match=r"\[2, 2\] do not fit 1 target .* and 2 source tokens"):
        draw(np.ones((2, 2)), ["x", "y"], ["a"])


def red(axes):
    """The rows of red tokens, and the heights of red lines."""
    lines = axes.collections[0].get_segments()
    rows = [n for n, label in enumerate(axes.get_yticklabels()) if label.get_color() == "red"]
    return rows, [float(line[0, 1]) for line in lines]


@pytest.mark.parametrize(
    ("said", "rows", "lines"),
    [
        ("2048-06-09", [], []),
        ("2049-09-08", [3, 6, 9], []),
        ("048-06-9", [], [-0.5, 6.5]),
        ("2048-06-0999", [10, 11], []),
        ("", [], [-0.5]),
    ],
)
def test_errors_are_red_as_the_error_rate_counts_them(said, rows, lines):
    target = [*said, "</s>"]
    panel = Panel(np.ones((len(target), 1)), ["x"], target, list("2048-06-09"))
    right = panel._replace(alignment=np.ones((11, 1)), target=[*"2048-06-09", "</s>"])
    one, two, _ = beside({"right": right, "other": panel}).axes
    assert red(one) == ([], [])
    assert red(two) == (rows, lines)


def test_errors_are_those_of_the_whole_sentence_where_only_its_beginning_is_drawn():
    panel = Panel(np.ones((3, 1)), ["x"], [*"bbbbba", "</s>"], ["a"])
    axes, _ = beside({"one": panel}).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["b", "b", "b"]
    assert red(axes) == ([0, 1, 2], [])
    # One that never ended: there is no token where the end is missing.
    endless = panel._replace(target=["b"] * 9)
    edits = edits_of(endless.target, ["a"])
    assert (len(edits.wrong), edits.missing) == (9, [])


def test_panels_are_as_large_whatever_a_system_wrote():
    figure = beside(
        {
            str(length): Panel(np.ones((length, 2)), ["x", "y"], ["b"] * length, ["b"])
            for length in (1, 20)
        }
    )
    figure.draw_without_rendering()
    one, other, _ = (axes.get_position().bounds[2:] for axes in figure.axes)
    np.testing.assert_allclose(one, other, rtol=1e-6)


def test_names_of_systems_do_not_lie_upon_each_other():
    normalizers = ("softplus_norm", "topk(k=2)", "a_name_that_is_longer_than_the_panel_under_it")
    names = [f"own:lowrank(fatigue=0.1), normalizer=own:{one}" for one in normalizers]
    panel = Panel(np.ones((6, 2)), ["fifty-three", "thousand"], ["5"] * 6, ["5"])
    figure = beside({f"{name}, heads={n}": panel for n in (2, 4) for name in names})
    figure.draw_without_rendering()
    titles = [axes.title.get_window_extent() for axes in figure.axes if axes.get_title()]
    assert len(titles) == 6
    panels = [axes.get_window_extent() for axes in figure.axes[:6]]
    for one, other in itertools.combinations(titles, 2):
        assert not one.overlaps(other)
    assert not any(title.overlaps(panel) for title in titles for panel in panels)
    assert min(panel.height for panel in panels) > 2 * figure.dpi


def test_a_token_longer_than_a_page_can_be_drawn():
    weights, tokens = np.ones((2, 2)), ["a", "x" * 20000]
    for figure in (
        alignments.heat_map(weights, tokens, tokens),
        alignments.step_bars(weights, tokens, tokens),
        heads(weights[None, None], tokens, tokens),
        beside({"one": Panel(weights, tokens, tokens, tokens)}),
    ):
        assert figure._repr_png_().startswith(b"\x89PNG")
    assert alignments.visible(tokens) == ["a", "x" * 31 + "…"]


def test_figures_of_others_stay_as_they_are():
    alignments.heat_map(np.ones((1, 1)), ["a"], ["b"])
    for name in STYLE:
        assert mpl.rcParams[name] == mpl.rcParamsDefault[name]


@pytest.mark.parametrize("draw", [alignments.heat_map, alignments.step_bars])
def test_a_notebook_shows_a_figure_as_it_is_saved(tmp_path, draw):
    def figure():  # a new one, since drawing one again may move things by a pixel
        return draw(np.ones((1, 1)), ["a"], ["b"])

    save(figure(), tmp_path / "figure.png")
    shown = figure()._repr_png_()
    assert shown.startswith(b"\x89PNG")
    assert shown == (tmp_path / "figure.png").read_bytes()


def test_all_functions_that_draw_return_what_a_notebook_shows():
    weights, tokens = np.ones((1, 1)), ["a"]
    assert isinstance(heads(weights[None, None], tokens, tokens), Picture)
    assert isinstance(beside({"one": Panel(weights, tokens, tokens, tokens)}), Picture)


def test_a_dollar_sign_is_a_sign_as_any_other(tmp_path):
    figure = alignments.heat_map(np.ones((2, 2)), ["$_$", "US$5–$10"], ["a", "b"])  # noqa: RUF001
    save(figure, tmp_path / "dollars.png")
    assert (tmp_path / "dollars.png").is_file()


def test_missing_signs_are_told_once(tmp_path, capsys):
    private = "\U000f0000"  # which no font has
    for _ in range(2):
        save(alignments.heat_map(np.ones((1, 1)), [private], ["b"]), tmp_path / "box.png")
    assert capsys.readouterr().err.count("no installed font has them") == 1
