"""Legends beside the axes of figures, never over them."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from fleetsim.report.figures import batteries, diagnostics, opinions, style
from fleetsim.report.pages import comparison, run_figures
from tests.report.figures.test_batteries import live_row
from tests.report.figures.test_diagnostics_figure import FAVOR
from tests.report.figures.test_selection_figures import EVALUATED, OPINIONS
from tests.report.made_runs import MadeUp, make_run
from tests.report.rows import round_frame


def test_no_legend_is_over_axes(tmp_path: Path) -> None:
    run, large = (
        make_run(tmp_path / f"{size}", MadeUp(size=size, num_probes=2)) for size in (40, 200)
    )
    compared = comparison._figures(comparison.compare([run, large], different_worlds=True))
    drawn = [each[1] for _, each_of in run_figures.sections(run, [0.5]) for each in each_of]
    drawn += [each[1] for each in run_figures.ledger_figures(run, run.ledger())]
    drawn += [each[1] for each in (*run_figures.selection_figures(large, large.clients), *compared)]
    drawn += [
        batteries.levels(round_frame(*map(live_row, range(1, 5)))),
        opinions.opinions(OPINIONS, EVALUATED, np.array([1, 3])),
        diagnostics.diagnostics(FAVOR),
    ]
    num_legends = 0
    for figure in (each for each in drawn if isinstance(each, Figure)):
        with style.house_style():
            figure.draw_without_rendering()
        own = [axes.get_legend() for axes in figure.axes]
        legends = [legend.get_window_extent() for legend in (*figure.legends, *own) if legend]
        num_legends += len(legends)
        for axes in (each for each in figure.axes if each.axison):
            assert not any(axes.get_window_extent().overlaps(legend) for legend in legends)
    assert num_legends > 15
