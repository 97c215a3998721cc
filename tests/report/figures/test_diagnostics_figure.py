"""The figure of what a selector told: its panels, and what they draw."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.figure import Figure

from fleetsim.report.figures.diagnostics import (
    MAX_CURVES,
    MAX_PANELS,
    diagnostics,
    rank_correlation,
)
from tests.report.drawn import line, words, x_of, y_of


def numbers(rounds: dict[int, dict[str, float | list[float]]]) -> pd.DataFrame:
    """Rows as of `Run.diagnostics`."""
    rows = [
        (round_, name, step, each)
        for round_, numbers in rounds.items()
        for name, value in sorted(numbers.items())
        for step, each in enumerate(value if isinstance(value, list) else [value])
    ]
    return pd.DataFrame(rows, columns=["round", "name", "step", "value"])


def titles(figure: Figure) -> list[str]:
    return [title for axes in figure.axes if (title := axes.get_title(loc="left"))]


def panel(figure: Figure, title: str) -> Axes:
    (match,) = [axes for axes in figure.axes if axes.get_title(loc="left").startswith(title)]
    return match


FAVOR = numbers(
    {
        2: {"expected": 1.0, "realised": 2.0, "loss": 0.5},
        3: {"realised": 4.0, "loss": 0.25},
        5: {"expected": 3.0, "realised": 1.0},
        6: {"expected": 2.0, "realised": 1.5},
    }
)


def test_expected_and_realised_share_a_panel_with_gaps_and_are_drawn_against_each_other():
    figure = diagnostics(FAVOR)
    both = panel(figure, "expected and realised by round")
    (dots,) = figure.axes[0].collections
    assert isinstance(dots, PathCollection)

    # Ranks 1, 3, 2 and 3, 1, 2: squared differences 4, 4, 0, so 1 - 6 * 8 / (3 * 8) = -1.
    assert titles(figure) == [
        "realised against expected, rank correlation -1.00",
        "expected and realised by round",
        "loss by round",
    ]
    assert np.asarray(dots.get_offsets()).tolist() == [[1.0, 2.0], [3.0, 1.0], [2.0, 1.5]]
    assert np.asarray(dots.get_array()).tolist() == [2, 5, 6]
    assert x_of(line(both, "expected")) == [2, 3, 4, 5, 6]
    np.testing.assert_array_equal(y_of(line(both, "expected")), [1.0, np.nan, np.nan, 3.0, 2.0])
    np.testing.assert_array_equal(y_of(line(both, "realised")), [2.0, 4.0, np.nan, 1.0, 1.5])
    assert panel(figure, "loss").get_xlim() == both.get_xlim() == (1.5, 6.5)


def curves_of(axes: Axes) -> LineCollection:
    (match,) = axes.collections
    assert isinstance(match, LineCollection)
    return match


def test_a_list_is_a_curve_over_its_steps_coloured_by_round():
    figure = diagnostics(numbers({4: {"ascent": [1.0, 2.0, 4.0]}, 7: {"ascent": [3.0, 5.0]}}))
    drawn = curves_of(panel(figure, "ascent by step"))

    assert [part.tolist() for part in drawn.get_segments()] == [
        [[0.0, 1.0], [1.0, 2.0], [2.0, 4.0]],
        [[0.0, 3.0], [1.0, 5.0]],
    ]
    assert np.asarray(drawn.get_array()).tolist() == [4.0, 7.0]
    assert "round" in words(figure)


def test_of_many_rounds_some_curves_are_drawn_the_first_and_the_last_among_them():
    many = numbers({n: {"ascent": [1.0 * n, 2.0]} for n in range(1, 202)})
    axes = panel(diagnostics(many), "ascent by step, 60 of 201 rounds")
    rounds = np.asarray(curves_of(axes).get_array())

    assert rounds.size == MAX_CURVES
    assert (rounds[0], rounds[-1]) == (1.0, 201.0)


def test_names_of_any_selector_have_a_panel_each_up_to_a_limit_that_the_title_states():
    names = [f"number_{chr(ord('a') + k)}" for k in range(MAX_PANELS + 3)]
    figure = diagnostics(numbers({n: dict.fromkeys(names, 1.0) for n in (1, 2)}))

    assert titles(figure) == [f"{name} by round" for name in names[:MAX_PANELS]]
    assert "3 more are not shown" in words(figure)
    assert "not shown" not in words(diagnostics(FAVOR))


@pytest.mark.parametrize(
    ("expected", "realised"), [([1.0, 2.0], [1.0, 2.0]), ([1.0, 1.0, 1.0], [1.0, 2.0, 3.0])]
)
def test_two_pairs_or_a_constant_have_no_rank_correlation(expected, realised):
    assert rank_correlation(np.array(expected), np.array(realised)) is None
