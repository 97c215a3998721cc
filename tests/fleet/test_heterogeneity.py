"""Multipliers of speed and bandwidth: constant mean, growing tails, exact scaling of transfers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetsim.fleet.heterogeneity import NUM_VALUES, multipliers, quantile_means
from fleetsim.fleet.network.channel import build_channel
from fleetsim.fleet.network.channels import ConstantSettings, FadingSettings
from fleetsim.fleet.network.direction import Direction
from fleetsim.fleet.network.radio_power import RadioPower
from tests.fleet.one_timeline import row_of

SEVERITIES = [0.0, 0.1, 0.25, 0.5, 0.75, 1.0]


def test_the_fast_get_faster_and_the_slow_slower_and_the_mean_stays_one():
    spread = [multipliers(s, "test", seed=3, size=1000) for s in SEVERITIES]

    assert [drawn.mean() for drawn in spread] == pytest.approx([1.0] * len(spread), rel=1e-12)
    assert min(drawn.min() for drawn in spread) > 0.0
    assert (np.diff([drawn.max() for drawn in spread]) > 0).all()
    assert (np.diff([drawn.min() for drawn in spread]) < 0).all()


def test_the_values_are_those_of_a_lognormal_of_mean_one():
    """Against the quantiles of 400,000 draws; a value is the mean of a hundredth of them."""
    drawn = np.sort(np.exp(0.7 * np.random.default_rng(1).standard_normal(400_000) - 0.7**2 / 2))
    by_hand = drawn.reshape(NUM_VALUES, -1).mean(axis=1)

    # The widest hundredth has a relative standard error of 0.5 %.
    assert quantile_means(0.7) == pytest.approx(by_hand, rel=0.03)


@given(size=st.integers(1, 300), more=st.integers(0, 300), seed=st.integers(0, 9))
def test_a_clients_multiplier_does_not_depend_on_the_size_of_the_fleet(size, more, seed):
    few = multipliers(0.8, "test", seed=seed, size=size)

    assert multipliers(0.8, "test", seed=seed, size=size + more)[:size].tolist() == few.tolist()


def test_speed_bandwidth_and_seeds_are_drawn_independently():
    speed, bandwidth = (multipliers(1.0, what, seed=1, size=5000) for what in ("a", "b"))

    # The correlation of independent orders has a standard deviation of 1 / sqrt(5000) = 0.014.
    assert abs(np.corrcoef(speed, bandwidth)[0, 1]) < 0.06
    assert speed.tolist() != multipliers(1.0, "a", seed=2, size=5000).tolist()


CHANNELS: dict[str, FadingSettings | ConstantSettings] = {
    "constant": ConstantSettings(down_bit_per_s=1e6, up_bit_per_s=1e6, give_up_s=50.0),
    "fading": FadingSettings(give_up_s=50.0, bandwidth_hz=2e5),
}


@pytest.mark.parametrize("kind", CHANNELS)
def test_a_transfer_at_twice_the_rate_takes_half_the_bits_time_and_the_same_joules_a_bit(kind):
    multiple = np.array([0.5, 1.0, 2.0, 3.0, 0.01, 7.0, 1.0, 1.3])
    wireless = np.full(8, np.nan)
    plain, scaled = (
        build_channel(CHANNELS[kind], seed=1, size=8, wired_bit_per_s=wireless, multiple=factor)
        for factor in (None, multiple)
    )
    clients, bit = np.arange(8), np.full(8, 6e6)
    start_s, power = np.full(8, 3.3), RadioPower.line(np.zeros(8), np.full(8, 1e-7))
    rows, laid_out = zip(*scaled.transfers(clients, Direction.UP, start_s, bit, power), strict=True)
    for client in range(8):
        part = next(i for i, some in enumerate(rows) if client in some)
        timeline = row_of(laid_out[part], rows[part].tolist().index(client))
        alone = row_of(plain.transfers(
            clients[[client]], Direction.UP, start_s[:1], bit[:1] / multiple[client],
            power.take(np.array([0])),
        )[-1][1], 0)  # fmt: skip

        assert timeline.end_s == pytest.approx(alone.end_s, rel=1e-12)
        assert timeline.is_complete == alone.is_complete == (client != 4)
        if timeline.is_complete:
            assert timeline.progress[-1] == bit[client]
            assert timeline.energy_until(1e9) == pytest.approx(bit[client] * 1e-7, rel=1e-9)
        assert (np.diff(timeline.progress) >= 0).all()
