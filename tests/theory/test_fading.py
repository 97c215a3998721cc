"""Clients and transfers in a cell with Rayleigh fading against closed forms.

Intervals: `intervals`. Gains and rates of one client, for all laws: `test_fading_laws`.

Closed forms for |h|^2 ~ Exp(1): outage Pr[R < rho B] = 1 - exp(-(2^rho - 1) / snr); ergodic rate
(B / ln 2) exp(1 / snr) E1(1 / snr), Alouini and Goldsmith, IEEE Trans. Veh. Technol. 48(4), 1999.
"""

import math

import numpy as np
import pytest
from scipy import special

from fleetsim.contracts import FloatArray
from fleetsim.fleet.devices.profile import RadioProfile
from fleetsim.fleet.network.channel import Channel, build_channel
from fleetsim.fleet.network.channels import FadingSettings
from fleetsim.fleet.network.direction import Direction
from fleetsim.fleet.network.wireless.cell import Cell
from fleetsim.validation import channel
from fleetsim.validation.channel import LAWS, FadingLaw
from tests.fleet.alone import transfer
from tests.theory.intervals import Z, assert_distributed, assert_mean, assert_uncorrelated

NUM_BLOCKS = 400_000
DOWN, UP = Direction.DOWN, Direction.UP
BANDWIDTH_HZ = 1e6
RADIO = RadioProfile("none", 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def channel_at(distance_m: float, **settings: float | str) -> Channel:
    """Two clients at one distance, with the power and the band of Tong et al. (P0 = 20 dBm)."""
    return build_channel(
        FadingSettings.model_validate(
            {
                "min_distance_m": distance_m,
                "cell_radius_m": distance_m,
                "tx_power_dbm": 20.0,
                "bandwidth_hz": BANDWIDTH_HZ,
                **settings,
            }
        ),
        seed=2024,
        size=2,
        wired_bit_per_s=np.full(2, np.nan),
    )


def cell_at(distance_m: float) -> Cell:
    cell = channel_at(distance_m).cell
    assert cell is not None
    return cell


def gains_of(
    cell: Cell, client: int, direction: Direction, first_block: int, num: int
) -> FloatArray:
    """Gains of one client [num]."""
    gains: FloatArray = cell.fading.gains(
        np.array([client]), direction, np.array([first_block]), num
    )[0]
    return gains


def test_the_mean_gain_over_clients_is_one() -> None:
    cell = cell_at(1000.0)
    gains = cell.fading.gains(np.arange(50_000), UP, np.full(50_000, 77), 1)[:, 0]

    assert_mean(gains, mean=1.0, variance=1.0)
    assert_uncorrelated(gains[1:], gains[:-1])


def test_a_long_transfer_runs_at_the_ergodic_capacity() -> None:
    num_blocks = 50_000
    channel = channel_at(800.0, give_up_s=1e6)
    snr = channel.mean_snr(0, UP)
    mean = BANDWIDTH_HZ / math.log(2.0) * math.exp(1.0 / snr) * float(special.exp1(1.0 / snr))
    square = LAWS[0].mean_of(lambda gain: (BANDWIDTH_HZ * math.log2(1.0 + gain * snr)) ** 2)
    variance = square - mean**2
    laid_out = transfer(channel, 0, UP, 5.5, num_blocks * mean, RADIO)
    half_width_s = Z * math.sqrt(num_blocks * variance) / mean  # delta method for the time

    assert laid_out.is_complete
    assert half_width_s < 0.02 * num_blocks
    assert abs(laid_out.end_s - 5.5 - num_blocks) < half_width_s


def test_clients_are_independent() -> None:
    cell = cell_at(1000.0)

    assert_uncorrelated(gains_of(cell, 0, UP, 0, NUM_BLOCKS), gains_of(cell, 1, UP, 0, NUM_BLOCKS))


def test_clients_stand_uniformly_over_the_ring() -> None:
    channel = build_channel(
        FadingSettings(min_distance_m=100.0, cell_radius_m=500.0),
        seed=3,
        size=100_000,
        wired_bit_per_s=np.full(100_000, np.nan),
    )
    assert channel.cell is not None
    assert channel.cell.distance_m is not None
    distance_m = channel.cell.distance_m
    within_300_m = (300.0**2 - 100.0**2) / (500.0**2 - 100.0**2)

    assert 100.0 <= distance_m.min() < distance_m.max() <= 500.0
    assert_mean(
        (distance_m < 300.0).astype(np.float64),
        mean=within_300_m,
        variance=within_300_m * (1.0 - within_300_m),
    )
    # d^2 is uniform on [100^2, 500^2]
    assert_mean(distance_m**2, mean=130_000.0, variance=240_000.0**2 / 12.0)


every_law = pytest.mark.parametrize("law", LAWS, ids=lambda law: law.title)


@every_law
def test_moments_outage_rates_and_correlations_are_those_of_the_law(law: FadingLaw) -> None:
    for estimate in channel.estimates(law):
        assert estimate.is_inside, estimate
        # The interval is narrow enough to notice an error that matters.
        assert estimate.half_width < max(0.06 * abs(estimate.theory), 0.01), estimate


@every_law
def test_gains_are_distributed_by_the_law(law: FadingLaw) -> None:
    for direction in Direction:
        assert_distributed(channel.gains_of(law, direction)[:100_000], law.cdf)


@pytest.mark.parametrize("law", [FadingLaw("rician", 0.0), FadingLaw("nakagami", 1.0)])
def test_rayleigh_is_a_special_case(law: FadingLaw) -> None:
    """Draw for draw, since they use the same words."""
    np.testing.assert_allclose(channel.gains_of(law), channel.gains_of(LAWS[0]), rtol=1e-9)
