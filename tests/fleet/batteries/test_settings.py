"""Settings of batteries, sources of their defaults, and their assignment."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from fleetsim.fleet.batteries.assignment import bands_of
from fleetsim.fleet.batteries.plain import walk_battery
from fleetsim.fleet.batteries.settings import (
    BatterySettings,
    ResistiveSettings,
    TaperedChargingSettings,
)
from fleetsim.fleet.population import Fleet
from tests.fleet.made_fleets import always_on_phones, charge_after, fleet_of, phase

PIXEL_J = 4.614 * 3600 * 3.85
OCV_V = {
    0: 3.000, 1: 3.340, 2: 3.462, 3: 3.542, 4: 3.600, 5: 3.643, 6: 3.668, 7: 3.676, 8: 3.680,
    9: 3.682, 10: 3.684, 11: 3.686, 13: 3.693, 16: 3.712, 20: 3.734, 25: 3.753, 30: 3.770,
    35: 3.786, 40: 3.804, 45: 3.826, 50: 3.850, 55: 3.884, 60: 3.930, 65: 3.984, 70: 4.030,
    75: 4.081, 80: 4.134, 85: 4.190, 90: 4.247, 95: 4.306, 100: 4.372,
}  # fmt: skip
"""ASUS Z00T at 25 C, percent: volt."""


def volt(fraction: Any) -> Any:
    return np.interp(np.asarray(fraction) * 100, list(OCV_V), list(OCV_V.values()))


def test_the_default_voltages_are_the_means_of_the_published_table():
    curve = ResistiveSettings(kind="resistive")
    bands = itertools.pairwise([*curve.from_fraction, 1.0])
    means = [volt(np.linspace(lower, upper, 20_001)).mean() for lower, upper in bands]

    assert curve.open_circuit_v == pytest.approx(means, abs=6e-4)


def test_the_default_taper_is_what_the_voltage_limit_lets_through():
    curve = TaperedChargingSettings(kind="cc-cv")
    bands = itertools.pairwise([*curve.from_fraction, 1.0])
    middles_v = [(volt(lower) + volt(upper)) / 2 for lower, upper in bands]

    shares = [min(1.0, (4.4 - middle_v) / (0.18 * 2.0)) for middle_v in middles_v]
    assert curve.power_fraction == pytest.approx(shares, abs=2e-3)


def tapered(begins: tuple[float, ...], shares: tuple[float, ...]) -> dict[str, Any]:
    return {"kind": "cc-cv", "from_fraction": begins, "power_fraction": shares}


def resistive(begins: tuple[float, ...], volt: tuple[float, ...]) -> dict[str, Any]:
    return {"kind": "resistive", "from_fraction": begins, "open_circuit_v": volt}


def test_both_curves_hold_in_common_bands_and_a_full_battery_takes_nothing():
    lossy = resistive((0, 0.5), (2.0, 4.0)) | {"internal_ohm": 1.0}
    curves = {"charging": tapered((0, 0.8), (1, 0.5)), "discharging": lossy}
    bands = bands_of(BatterySettings.model_validate(curves))

    assert bands.from_fraction.tolist() == [0.0, 0.5, 0.8, 1.0]
    assert bands.charge_fraction.tolist() == [1.0, 1.0, 0.5, 0.0]
    assert bands.loss_per_w.tolist() == [0.25, 0.0625, 0.0625, 0.0625]


@pytest.mark.parametrize(("key", "value", "message"), [
    ("initial_fraction", (0.9, 0.2), "must be"),
    ("health_fraction", (0.9, 0.2), "must be"),
    ("charging", tapered((0.0, 0.9), (1,)), "for each of from_fraction"),
    ("charging", tapered((0.1,), (1,)), "with 0"),
    ("charging", tapered((), ()), "with 0"),
    ("charging", tapered((0.0, 0.9, 0.8), (1, 1, 1)), "ascending, got 0.8 after 0.9"),
    ("discharging", resistive((0.0, 0.5), (3.9, 3.8)), "not fall .* rises, got 3.8 after 3.9"),
])  # fmt: skip
def test_what_makes_no_sense_is_refused_with_a_reason(key, value, message):
    with pytest.raises(ValidationError, match=message):
        BatterySettings.model_validate({key: value})


def mixed(size: int, battery: dict[str, Any]) -> Fleet:
    devices = {"pixel-6": 0.5, "market": 0.25, "jetson-nano-cpu": 0.25}
    return fleet_of(devices, size=size, seed=3, battery=battery)


def test_a_size_in_watt_hours_is_everybodys_who_has_a_battery():
    fleet = mixed(40, {"capacity_wh": 10.0})
    is_board = np.array([fleet.profile(c).kind == "board" for c in range(40)])

    assert np.isnan(fleet.batteries.capacity_j[is_board]).all()
    assert (fleet.batteries.capacity_j[~is_board] == 36_000.0).all()


def test_age_takes_a_uniform_share_and_levels_are_shares_of_what_is_left():
    num_clients = 4000
    fleet = always_on_phones(num_clients, {"health_fraction": [0.6, 1.0]})
    new = always_on_phones(num_clients, {})
    health = fleet.batteries.capacity_j / PIXEL_J
    # Of 4000 uniform draws on [0.6, 1.0] the mean has a standard deviation of .4 / sqrt(12 * 4000).
    slack = 5 * 0.4 / np.sqrt(12 * num_clients)

    assert health.min() >= 0.6
    assert health.max() <= 1.0 + 1e-12
    assert health.mean() == pytest.approx(0.8, abs=slack)
    assert fleet.initial_j / fleet.batteries.capacity_j == pytest.approx(
        new.initial_j / new.batteries.capacity_j
    )


def test_devices_have_the_chargers_that_the_scenario_gives_them():
    fleet = mixed(40, {"charge_w_of": {"pixel-6": 20.0, "market": 10.0}})
    watts = {
        "market" if name.startswith("market:") else name: set(
            fleet.batteries.charge_w[[fleet.profile(c).name == name for c in range(40)]].tolist()
        )
        for name in {fleet.profile(c).name for c in range(40)}
    }

    assert watts == {"pixel-6": {20.0}, "market": {10.0}, "jetson-nano-cpu": {7.5}}
    pixel = next(c for c in range(40) if fleet.profile(c).name == "pixel-6")
    assert charge_after(fleet, 100.0, 10.0, client=pixel).level_j.tolist() == [300.0]
    with pytest.raises(ValidationError, match=r"is not one of fleet\.devices \(pixel-6\)"):
        always_on_phones(2, {"charge_w_of": {"pixel-7": 10.0}})


def test_a_battery_falls_by_its_load_and_dies_where_its_level_meets_the_cut_off():
    never = (math.inf, 0.0)
    # 100 J, floor 40 J; 2 W + 1 W idle: 60 J last 20 s.
    one = phase(5.0, (60.0, 2.0))
    after = walk_battery(100.0, 200.0, 40.0, one.edges_s, one.power_w, 1.0, iter([never]), 65.0)
    assert after == (40.0, 25.0)
    # The walk ends in the middle of the second segment.
    two = phase(0.0, (10.0, 2.0), (10.0, 4.0))
    after = walk_battery(100.0, 100.0, 0.0, two.edges_s, two.power_w, 0.0, iter([never]), 12.5)
    assert after == pytest.approx((100.0 - 20.0 - 10.0, math.inf))


def test_an_idle_battery_never_holds_more_than_its_capacity():
    fleet = always_on_phones(1, {"charge_w": 7.5})
    capacity_j = 63_950.04  # 4614 mAh x 3.85 V

    def after(level_j: float, seconds: float) -> float:
        return float(charge_after(fleet, level_j, seconds).level_j[0])

    assert after(50.0, 1.0) == 57.5
    assert after(capacity_j - 10.0, 100.0) == pytest.approx(capacity_j)


@pytest.mark.slow
@given(
    st.floats(0, 100),
    st.lists(st.tuples(st.floats(0.1, 20), st.floats(0, 5)), min_size=1, max_size=5),
    st.lists(st.floats(0.5, 15), min_size=1, max_size=6),
    st.booleans(),
)
def test_a_battery_matches_a_second_by_second_simulation(level_j, segments, on_off_s, is_on):
    capacity_j, charge_w, idle_w = 100.0, 6.0, 0.5
    timeline = phase(0.0, *segments)
    edges = list(itertools.accumulate(on_off_s))
    steps = [(t, charge_w if is_on ^ (i % 2 == 1) else 0.0) for i, t in enumerate(edges)]
    steps.append((math.inf, 0.0))

    got_j, died_s = walk_battery(
        level_j,
        capacity_j,
        0.0,
        timeline.edges_s,
        timeline.power_w,
        idle_w,
        iter(steps),
        timeline.end_s,
    )

    num_steps = 10_000
    dt_s = timeline.end_s / num_steps
    at_s = (np.arange(num_steps) + 0.5) * dt_s
    drain_w = timeline.power_w[np.searchsorted(timeline.edges_s, at_s) - 1] + idle_w
    gain_w = np.array([w for _, w in steps])[np.searchsorted([t for t, _ in steps], at_s)]
    slow_j = level_j
    for net_w in gain_w - drain_w:
        slow_j = min(slow_j + net_w * dt_s, capacity_j)
        if slow_j < 0.0:
            break
    bound_j = 12.0 * dt_s * (len(segments) + len(steps) + 2)
    if slow_j < 0.0:
        assert died_s < math.inf or got_j < bound_j
    else:
        assert got_j == pytest.approx(slow_j, abs=bound_j)
