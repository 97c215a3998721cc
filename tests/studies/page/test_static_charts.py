"""Static charts: size, type, legend and names of files."""

import dataclasses
from itertools import chain
from pathlib import Path
from xml.etree import ElementTree

import matplotlib.text
import numpy as np
import pandas as pd
import pytest

from fleetsim.studies.page import accuracy_curves, arm_styles, chart_data, static_charts
from fleetsim.studies.page.accuracy_curves import ArmCurve, SeedCurve, arm_curves, common_grid
from fleetsim.studies.page.chart_data import ChartData
from fleetsim.studies.page.study_tables import StudyHeader, StudyTables


@pytest.fixture(scope="module")
def drawn(tables: StudyTables, header: StudyHeader) -> list[ChartData]:
    """One chart of every kind."""
    return [
        next(chart_data.accuracies(tables, header)),
        next(chart_data.planes(tables, header)),
        next(chart_data.level_effects(tables, header)),
        next(chart_data.ledgers(tables, header)),
    ]


@pytest.mark.parametrize("width_in", [3.5, 7.0])
@pytest.mark.parametrize("number", range(4), ids=["accuracy", "plane", "effect", "ledger"])
def test_a_static_chart_fits_its_width_in_type_of_eight_points_with_its_legend_off_the_data(
    number: int, width_in: float, drawn: list[ChartData], header: StudyHeader
):
    figure = static_charts.draw(drawn[number], arm_styles.of_arms(header.arms), width_in)
    figure.draw_without_rendering()
    (axes,), (legend,) = figure.axes, figure.legends
    texts = [text for text in figure.findobj(matplotlib.text.Text) if text.get_text()]
    drawn_in = figure.get_tightbbox()

    assert figure.get_figwidth() == width_in
    assert {text.get_fontsize() for text in texts} == {8}
    assert legend.get_window_extent().y1 <= axes.get_window_extent().y0
    assert drawn_in.x0 >= -0.01
    assert drawn_in.x1 <= width_in + 0.01
    assert drawn_in.y0 >= -0.01


def test_axes_that_are_logarithmic_or_begin_above_zero_say_so(drawn, tables, header: StudyHeader):
    _, accuracy, *_ = chart_data.accuracies(tables, header)
    effect = drawn[2]
    looks = arm_styles.of_arms(header.arms)
    (point, *others), *_ = effect.effects.values()
    dear = dataclasses.replace(point.cost, center=9.0 * others[0].cost.center)
    wide = {"random": [dataclasses.replace(point, cost=dear), *others]}
    linear, early, low, spread = (
        static_charts.draw(chart, looks).axes[0]
        for chart in (
            accuracy,
            dataclasses.replace(accuracy, is_early=True),
            dataclasses.replace(accuracy, targets=(0.2,)),
            dataclasses.replace(effect, effects=wide),
        )
    )

    assert [axes.get_xscale() for axes in (linear, early)] == ["linear", "log"]
    assert early.get_xlabel() == f"{linear.get_xlabel()}, log scale"
    assert linear.get_ylabel() == f"accuracy (axis from {100 * linear.get_ylim()[0]:.0f} %)"
    assert low.get_ylabel() == "accuracy"
    assert (spread.get_yscale(), spread.get_ylabel()[-11:]) == ("log", ", log scale")


def test_a_static_chart_shows_what_the_interactive_one_shows(drawn, header: StudyHeader):
    (accuracy, *_) = drawn
    axes = static_charts.draw(accuracy, arm_styles.of_arms(header.arms)).axes[0]
    lines = {line.get_label(): line for line in axes.get_lines()}

    assert np.asarray(lines["oort"].get_ydata()).tolist() == accuracy.curves[1].mean.tolist()
    assert np.asarray(lines["target 60 %, 80 %"].get_ydata()).tolist() == [0.8, 0.8]
    # A print without colours: no two arms have the same dash and marker.
    styles = {(str(line.get_linestyle()), line.get_marker()) for line in axes.get_lines()[:4]}
    assert len(styles) == 4


@pytest.mark.slow
def test_files_are_named_by_what_they_show_and_have_the_width_and_resolution_asked_for(
    tmp_path: Path, drawn: list[ChartData], header: StudyHeader
):
    looks = arm_styles.of_arms(header.arms)
    stems = static_charts.save(drawn[:1] * 2, looks, tmp_path, ("svg", "pdf"), hint="")
    (tmp_path / "png").mkdir()
    (png,) = static_charts.save(
        drawn[:1], looks, tmp_path / "png", ("png",), hint="", dpi=400, width_in=7
    )

    assert stems == ["accuracy-time-deadline-s-60", "accuracy-time-deadline-s-60-1"]
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == sorted(
        chain.from_iterable((f"{stem}.svg", f"{stem}.pdf") for stem in stems)
    )
    # 3.5 in of 72 pt, and 7 in of 400 dots.
    assert ElementTree.parse(tmp_path / f"{stems[0]}.svg").getroot().get("width") == "252pt"
    assert int.from_bytes((tmp_path / "png" / f"{png}.png").read_bytes()[16:20]) == 2800
    assert (tmp_path / f"{stems[0]}.pdf").read_bytes().startswith(b"%PDF")


def frame(*seeds: tuple[list[float], list[float]], arm: str = "a") -> pd.DataFrame:
    return pd.concat(
        pd.DataFrame(
            {"arm": arm, "seed": seed, "round": range(len(x)), "time_s": x, "accuracy": accuracy}
        )
        for seed, (x, accuracy) in enumerate(seeds)
    )


def test_a_seed_keeps_its_accuracy_until_the_next_evaluation_and_after_its_end():
    # Seed 0 is known at 10 and 30, seed 1 at 20 and 40: from 20 on both are.
    (curve,) = arm_curves(frame(([10, 30], [0.2, 0.6]), ([20, 40], [0.4, 0.8])), ["a"], "time_s")

    assert curve.x.tolist() == [20, 30, 40]
    assert curve.mean.tolist() == pytest.approx([0.3, 0.5, 0.7])
    assert curve.low.tolist() == pytest.approx([0.2, 0.4, 0.6])
    assert curve.high.tolist() == pytest.approx([0.4, 0.6, 0.8])


def test_five_seeds_have_a_t_interval_that_stays_within_zero_and_one():
    # Mean .5, s = sqrt(.025), t(.975, 4) = 2.776445 (a table of Student's t): half width .19632.
    seeds = [([1.0], [accuracy]) for accuracy in (0.3, 0.4, 0.5, 0.6, 0.7)]
    (curve,) = arm_curves(frame(*seeds), ["a"], "time_s")
    (wide,) = arm_curves(frame(*[([1.0], [v]) for v in (0.0, 1.0, 0.0, 1.0, 0.9)]), ["a"], "time_s")

    assert curve.low[0] == pytest.approx(0.5 - 0.19632, abs=1e-5)
    assert curve.high[0] == pytest.approx(0.5 + 0.19632, abs=1e-5)
    assert (wide.low[0], wide.high[0]) == (0.0, 1.0)


def test_arms_without_an_evaluated_round_have_no_curve():
    curves = frame(([1.0], [0.5]))
    curves.loc[:, "accuracy"] = np.nan

    assert arm_curves(curves, ["a", "b"], "time_s") == []


def test_a_long_run_keeps_first_and_last_point_of_its_grid():
    x = np.arange(1.0, 5001.0)
    grid = common_grid([SeedCurve(1, x, np.zeros(5000))])

    assert len(grid) == accuracy_curves.MOST_POINTS
    assert (grid[0], grid[-1]) == (1.0, 5000.0)


@pytest.mark.parametrize(
    ("reached_at", "is_early"), [(5.0, True), (50.0, False)], ids=["left", "middle"]
)
def test_a_curve_is_early_if_most_is_gained_in_the_first_fifth(reached_at: float, is_early: bool):
    x = np.arange(1.0, 101.0)
    mean = np.where(x >= reached_at, 0.9, 0.1)

    assert accuracy_curves.is_early([ArmCurve("a", x, mean, mean, mean, ())]) is is_early


@pytest.mark.parametrize(
    ("targets", "is_log", "begin"),
    [
        # By x = 10 both have 0.5; with a twentieth of the 0.38 above it the axis begins at 0.481.
        ((0.8,), False, 0.48),
        # 0.3 - 0.05 * 0.58 = 0.271 leaves out less than a quarter of 0.1 to 0.88.
        ((0.3, 0.8), False, 0.0),
        # The opening tenth of 1 to 100 ends at 10^0.2 = 1.6, where both still have 0.1.
        ((0.8,), True, 0.0),
    ],
)
def test_an_axis_begins_below_what_all_arms_have_after_its_opening_tenth_and_below_targets(
    targets: tuple[float, ...], is_log: bool, begin: float
):
    x = np.array([1.0, 10.0, 50.0, 100.0])
    means = np.array([[0.1, 0.6, 0.5, 0.8], [0.1, 0.55, 0.7, 0.88]])
    curves = [ArmCurve("a", x, mean, mean, mean, ()) for mean in means]

    assert accuracy_curves.zoomed_from(curves, targets, is_log=is_log) == begin
    assert accuracy_curves.zoomed_from([], targets, is_log=is_log) == 0.0
