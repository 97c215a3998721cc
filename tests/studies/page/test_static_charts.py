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
from fleetsim.studies.study_tables import StudyHeader, StudyTables


@pytest.fixture(scope="module")
def drawn(tables: StudyTables, header: StudyHeader) -> list[ChartData]:
    """One chart of every kind."""
    return [
        next(chart_data.accuracies(tables, header)),
        next(chart_data.planes(tables, header)),
        next(chart_data.level_effects(tables, header)),
        next(chart_data.ledgers(tables, header)),
    ]


@pytest.mark.parametrize("number", range(4), ids=["accuracy", "plane", "effect", "ledger"])
def test_a_static_chart_fits_a_column_in_type_of_eight_points_with_its_legend_off_the_data(
    number: int, drawn: list[ChartData], header: StudyHeader
):
    figure = static_charts.draw(drawn[number], arm_styles.of_arms(header.arms))
    figure.draw_without_rendering()
    (axes,), (legend,) = figure.axes, figure.legends
    texts = [text for text in figure.findobj(matplotlib.text.Text) if text.get_text()]
    drawn_in = figure.get_tightbbox()

    assert figure.get_figwidth() == 3.3
    assert {text.get_fontsize() for text in texts} == {8}
    assert legend.get_window_extent().y1 <= axes.get_window_extent().y0
    assert drawn_in.x0 >= -0.01
    assert drawn_in.x1 <= 3.31
    assert drawn_in.y0 >= -0.01


def test_early_gains_are_drawn_on_a_logarithmic_axis(drawn, header: StudyHeader):
    (accuracy, *_) = drawn
    looks = arm_styles.of_arms(header.arms)
    scales = [
        static_charts.draw(dataclasses.replace(accuracy, is_early=is_early), looks)
        .axes[0]
        .get_xscale()
        for is_early in (False, True)
    ]

    assert scales == ["linear", "log"]


def test_a_static_chart_shows_what_the_interactive_one_shows(drawn, header: StudyHeader):
    (accuracy, *_) = drawn
    axes = static_charts.draw(accuracy, arm_styles.of_arms(header.arms)).axes[0]
    lines = {line.get_label(): line for line in axes.get_lines()}

    assert np.asarray(lines["oort"].get_ydata()).tolist() == accuracy.curves[1].mean.tolist()


@pytest.mark.slow
def test_files_are_named_by_what_they_show_and_are_svg_and_pdf(
    tmp_path: Path, drawn: list[ChartData], header: StudyHeader
):
    looks = arm_styles.of_arms(header.arms)
    stems = static_charts.save(drawn[:1] * 2, looks, tmp_path, ("svg", "pdf"), hint="")

    assert stems == ["accuracy-time-deadline-s-60", "accuracy-time-deadline-s-60-1"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        chain.from_iterable((f"{stem}.svg", f"{stem}.pdf") for stem in stems)
    )
    # 3.3 in of 72 pt.
    assert ElementTree.parse(tmp_path / f"{stems[0]}.svg").getroot().get("width") == "237.6pt"
    assert (tmp_path / f"{stems[0]}.pdf").read_bytes().startswith(b"%PDF")
