"""Static charts: size, type, legend and names of files."""

import dataclasses
from itertools import chain
from pathlib import Path
from xml.etree import ElementTree

import matplotlib.text
import numpy as np
import pytest

from fleetsim.studies.page import arm_styles, chart_data, static_charts
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
