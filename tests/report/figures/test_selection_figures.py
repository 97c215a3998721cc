"""Figures of coverage, selection ratio, opinions and regret: what they draw, by hand."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle, StepPatch

from fleetsim.record.saved_run import Run, open_run
from fleetsim.report.figures import coverage, opinions, selection_ratio
from fleetsim.report.pages import comparison, regret
from tests.report.drawn import dots, line, words, x_of, y_of
from tests.report.made_runs import MadeUp, reworded, write_run
from tests.report.rows import round_frame, round_row


def panel(figure: Figure, title: str) -> Axes:
    (match,) = [axes for axes in figure.axes if title in axes.get_title(loc="left")]
    return match


def steps(axes: Axes) -> dict[str, StepPatch]:
    matches = [patch for patch in axes.patches if isinstance(patch, StepPatch)]
    return {str(patch.get_label()): patch for patch in matches}


def heights(patch: StepPatch) -> list[float]:
    return [float(value) for value in patch.get_data()[0]]


def test_the_share_seen_begins_at_nothing_and_has_a_dot_at_ninety_percent_and_all() -> None:
    shares = {"run": np.array([0.5, 0.5, 0.95, 1.0])}
    axes = panel(coverage.coverage(shares, {"run": np.array([1, 1])}), "at least once")

    assert x_of(line(axes, "run")) == [0, 1, 2, 3, 4]
    assert y_of(line(axes, "run")) == [0.0, 0.5, 0.5, 0.95, 1.0]
    assert (x_of(dots(axes)), y_of(dots(axes))) == ([3, 4], [0.95, 1.0])


def test_the_histogram_counts_clients_by_times_selected() -> None:
    figure = coverage.coverage({"run": np.array([1.0])}, {"run": np.array([3, 0, 1, 1, 3, 3])})
    values, edges, _ = steps(panel(figure, "clients by times"))["run"].get_data()
    drawn = panel(figure, "times selected of each").patches
    bars = [bar.get_height() for bar in drawn if isinstance(bar, Rectangle)]

    assert (list(values), list(edges)) == ([1, 2, 0, 3], [-0.5, 0.5, 1.5, 2.5, 3.5])
    assert bars == [3, 0, 1, 1, 3, 3]


@given(st.integers(0, 5000), st.integers(1, 100_000))
def test_classes_are_as_wide_and_cover_all_counts(largest: int, num_clients: int) -> None:
    edges = coverage.bin_edges(largest, num_clients)
    most = min(max(8, 2 * int(num_clients**0.5)), 40)

    assert edges[0] == 0
    assert edges[-2] <= largest < edges[-1]
    assert len(set(np.diff(edges))) == 1
    assert edges.size - 1 <= most


def test_the_ratio_and_its_devices_round_by_round() -> None:
    devices = pd.DataFrame({"board": [0.25, 1.0], "phone": [0.75, 0.0]}, index=[1, 3])
    figure = selection_ratio.ratios(np.array([0.5, 0.0, 0.25]), devices, {"board": 0.5})
    (above,) = steps(panel(figure, "selected share")).values()
    below = panel(figure, "selected clients by device")
    handles, labels = below.get_legend_handles_labels()

    assert heights(above) == [0.5, 0.0, 0.25]
    # The larger mean share first; nobody in round 2.
    assert labels == ["board (50.0 % of the fleet)", "phone"]
    assert isinstance(handles[0], PolyCollection)
    corners = {(x, y) for x, y in np.asarray(handles[0].get_paths()[0].vertices).tolist()}
    assert {(0.5, 0.25), (1.5, 0.25), (1.5, 0.0), (2.5, 0.0), (2.5, 1.0), (3.5, 1.0)} <= corners
    assert (2.5, 0.25) not in corners
    assert "Selected share of the fleet: 25.0 % on average" in words(figure)


@given(st.integers(1, 3000))
def test_windows_hold_every_round_once(num_rounds: int) -> None:
    edges = selection_ratio.windows(num_rounds)

    assert (edges[0], edges[-1]) == (0, num_rounds)
    assert len(set(np.diff(edges)[:-1])) <= 1
    assert 1 <= np.diff(edges)[-1] <= np.diff(edges)[0]
    assert edges.size <= 121


OPINIONS = pd.DataFrame(
    {
        "round": [2, 2, 4, 4],
        "client": [0, 1, 0, 1],
        "opinion": [0.25, 0.75, 0.5, 1.0],
        "belief": [0.5, 0.625, 0.25, 0.75],
    }
)
EVALUATED = round_frame(round_row(1, 0.3), round_row(2, 0.4), round_row(3, 0.5), round_row(4, 0.6))


def test_opinions_are_drawn_by_the_round_that_was_judged() -> None:
    figure = opinions.opinions(OPINIONS, EVALUATED, np.array([1, 3]))
    above, below = figure.axes

    assert x_of(line(above, "mean opinion")) == [2, 4]
    assert y_of(line(above, "mean opinion")) == [0.5, 0.75]
    assert y_of(line(above, "on the server's test set")) == [0.4, 0.6]
    # Client 1 was selected more often.
    assert y_of(line(below, "#1 (3 times)")) == [0.625, 0.75]
    assert y_of(line(below, "mean of all")) == [0.5625, 0.5]


def make(folder: Path, selector: dict[str, object], *accuracy: float | None) -> Run:
    rows = [round_row(n, value) for n, value in enumerate(accuracy, 1)]
    return write_run(folder, MadeUp(selector=selector), rows)


@pytest.fixture
def runs(tmp_path: Path) -> dict[str, Run]:
    return {
        "bandit": make(tmp_path / "ucb", {"kind": "ucb", "slot_rounds": 2}, 0.1, 0.2, 0.3, 0.5),
        "bad": make(tmp_path / "bad", {"kind": "fixed", "clients": [7]}, 0.9, 0.3, 0.9, 0.4),
        "good": make(tmp_path / "good", {"kind": "fixed", "clients": [1]}, 0.5, 0.6, 0.7, 0.7, 0.7),
    }


def test_regret_is_against_the_best_fixed_set_in_the_bandits_slots(runs: dict[str, Run]) -> None:
    result = regret.regrets(runs)

    # Slots end with rounds 2 and 4: .6 + .7 beats .3 + .4.
    assert result is not None
    assert (result.best, result.slot_rounds) == ("good", 2)
    assert result.curves["bandit"] == pytest.approx([0.4, 0.6])
    assert result.curves["bad"] == pytest.approx([0.3, 0.6])
    assert regret.table(result).rows == [
        ("bandit", "2", "0.600", "0.300"),
        ("bad", "2", "0.600", "0.300"),
    ]


def test_without_a_fixed_set_or_accuracy_or_rounds_there_is_no_regret(runs, tmp_path):
    blind = make(tmp_path / "blind", {"kind": "fixed", "clients": [1]}, None, None)
    runs["bandit"] = reworded(runs["bandit"], "server:\n", "server:\n  mode: buffered\n")

    assert regret.regrets({"bandit": runs["bandit"]}) is None
    assert regret.regrets({"good": runs["good"]}) is None
    assert regret.regrets({"good": runs["good"], "blind": blind}) is None
    assert regret.regrets({"good": runs["good"], "b": open_run(runs["bandit"].folder)}) is None


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
def test_a_comparison_with_a_fixed_set_has_regret_and_another_world_has_none(runs, tmp_path):
    result = comparison.compare(list(runs.values()))
    comparison.write(result, tmp_path / "out", ["svg"])
    table = comparison.frame(result)
    rows = [round_row(1, 0.5)]
    other = write_run(tmp_path / "other", MadeUp(seed=2), rows)
    apart = comparison.compare([*runs.values(), other], different_worlds=True)

    assert (tmp_path / "out" / "comparison-regret.svg").is_file()
    assert "\n\nRegret  " in comparison.text_table(result)
    assert table["regret"].round(6).tolist()[:2] == [0.6, 0.6]
    assert np.isnan(table["regret"].iloc[2])
    assert apart.regrets is None
    assert "regret" not in comparison.frame(apart)


def test_many_rounds_are_drawn_as_means_of_neighbours() -> None:
    alternating = np.tile([0.0, 0.5], 120)
    devices = pd.DataFrame({"phone": np.ones(240)}, index=np.arange(1, 241))
    (drawn,) = steps(selection_ratio.ratios(alternating, devices).axes[0]).values()

    assert heights(drawn) == [0.25] * 120


def test_a_run_that_is_ahead_has_a_regret_below_nothing(tmp_path: Path) -> None:
    ahead = {
        "random": make(tmp_path / "r", {"kind": "random"}, 0.75, 0.75),
        "fixed": make(tmp_path / "f", {"kind": "fixed", "clients": [1]}, 0.5, 0.5),
    }
    result = regret.regrets(ahead)

    assert result is not None
    assert regret.table(result).rows == [("random", "2", "-0.500", "-0.250")]
    (axes,) = regret.figure(result, list(ahead)).axes
    assert y_of(line(axes, "random")) == [0.0, -0.25, -0.5]
