"""Accuracy on a common grid, against values by hand."""

import numpy as np
import pandas as pd
import pytest

from fleetsim.studies.page import accuracy_curves
from fleetsim.studies.page.accuracy_curves import ArmCurve, SeedCurve, arm_curves, common_grid


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
