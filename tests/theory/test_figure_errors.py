"""Errors of device figures: log-normal with the stated spread, median 1, one per address."""

import numpy as np
import pytest
from scipy import stats

from fleetsim.contracts import FloatArray
from fleetsim.fleet.devices.figures import PowerFigure
from fleetsim.fleet.devices.uncertainty import FigureErrors
from tests.theory.intervals import (
    assert_distributed,
    assert_mean,
    assert_share,
    assert_uncorrelated,
)

SIZE = 60_000


def factors(seed: int = 1, *, sd: float = 0.3, key: str = "power.idle_awake_w") -> FloatArray:
    """Factors of one figure in many devices; half of the devices have it inferred."""
    errors = FigureErrors(seed, inferred=sd, measured=0.05)
    figure = PowerFigure(value=1.0, source="test", inferred=True)
    return np.array([errors.factor("device", f"d{n}", key, figure) for n in range(SIZE)])


@pytest.mark.slow
@pytest.mark.parametrize("sd", [0.05, 0.3, 1.0])
def test_factors_are_log_normal_with_the_stated_spread(sd):
    """A spread 2 % off moves the mean of the squares by 4 %, beyond the interval."""
    drawn = factors(sd=sd)

    assert_distributed(np.log(drawn), stats.norm(0.0, sd).cdf)
    # The square of a normal variable of variance s^2 has the mean s^2 and the variance 2 s^4.
    assert_mean(np.log(drawn) ** 2, sd**2, 2.0 * sd**4, within=0.03)
    assert_share((drawn > 1.0).astype(np.float64), 0.5)


def test_the_mark_of_a_figure_decides_its_spread():
    errors = FigureErrors(1, inferred=0.3, measured=0.05)
    figure = PowerFigure(value=1.0, source="test")
    measured = np.array(
        [errors.factor("device", f"d{n}", "wifi.receive_w", figure) for n in range(20_000)]
    )

    assert_mean(np.log(measured) ** 2, 0.05**2, 2.0 * 0.05**4, within=0.05)


@pytest.mark.slow
@pytest.mark.parametrize(
    "other",
    [{"seed": 2}, {"key": "power.train_above_idle_w"}],
    ids=["the next seed", "the next figure"],
)
def test_factors_of_other_addresses_are_independent(other):
    one, two = np.log(factors()) / 0.3, np.log(factors(**other)) / 0.3

    assert_uncorrelated(1.0 + one, 1.0 + two)
