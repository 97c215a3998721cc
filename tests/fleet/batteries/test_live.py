"""Batteries with use by owners, charging curves and resistive losses."""

import math
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from fleetsim.fleet.batteries.base import Charge, Flow, Phases
from fleetsim.fleet.population import Fleet
from tests.fleet.alone import side_by_side
from tests.fleet.made_fleets import charge_after, phase, phones_with_records

CAPACITY_J = 3600.0
"""Of a battery of 1 Wh."""
OWNER: dict[str, Any] = {"standby_w": 0.5, "screen_w": 1.0, "cpu_w": 4.0}
STANDBY: dict[str, Any] = {"standby_w": 4.0, "screen_w": 0.0, "cpu_w": 0.0}
SHARPEST_CHANGE_W = 45.0
"""No step changes d level/dt by more: 15 W of charger, 26 W of draw, their loss."""


def charge_of(fleet: Fleet, level_j: list[float]) -> Charge:
    return fleet.batteries.initial(np.array(level_j))


def test_resistance_takes_its_share_of_what_is_drawn_in_every_band(tmp_path):
    curve: dict[str, Any] = {"kind": "resistive", "internal_ohm": 0.5}
    curve |= {"from_fraction": [0.0, 0.5], "open_circuit_v": [2.0, 4.0]}
    battery = {"capacity_wh": 1.0, "discharging": curve, "everyday": STANDBY}
    fleet = phones_with_records(tmp_path, ["0,0,0"], 100_000, battery)
    # 4 W: (4/4)^2 * .5 = .5 W lost above 1800 J, (4/2)^2 * .5 = 2 W below: 4.5 and 6 W in all.
    after = charge_after(fleet, 2250.0, 100.0 + 50.0)

    assert after.level_j[0] == pytest.approx(1800.0 - 50.0 * 6.0)
    assert after.flows_j[0, Flow.OWNER] == pytest.approx(150.0 * 4.0)
    assert after.flows_j[0, Flow.LOSS] == pytest.approx(100.0 * 0.5 + 50.0 * 2.0)
    assert after.flows_j[0, Flow.CHARGED] == 0.0


def test_a_charger_feeds_the_owner_first_and_then_the_battery(tmp_path):
    curve = {"kind": "cc-cv", "from_fraction": [0.0, 0.5], "power_fraction": [1.0, 0.25]}
    battery = {"capacity_wh": 1.0, "charge_w": 10.0, "charging": curve, "everyday": STANDBY}
    fleet = phones_with_records(tmp_path, ["0,1,0"], 100_000, battery)
    # Below half: 10 - 4 W into the battery, above: 2.5 W, though 6 would be left; full: 4 W given.
    after = charge_after(fleet, 1200.0, 100.0 + 720.0 + 10.0)

    assert after.level_j[0] == CAPACITY_J
    assert after.flows_j[0, Flow.CHARGED] == pytest.approx(1000.0 + 720.0 * 6.5 + 10.0 * 4.0)
    assert after.flows_j[0, Flow.OWNER] == pytest.approx(830.0 * 4.0)


def test_an_empty_phone_is_off_until_it_holds_the_restart_level(tmp_path):
    battery = {"capacity_wh": 1.0, "charge_w": 10.0, "everyday": OWNER | {"restart_fraction": 0.05}}
    fleet = phones_with_records(tmp_path, ["0,0,0 1000,1,0 1017,0,0 2000,1,0"], 100_000, battery)

    def at(t_s: float) -> tuple[Any, bool]:
        after = charge_after(fleet, 100.0, t_s)
        return float(after.level_j[0]), bool(after.is_off[0])

    # 100 J at .5 W: empty at 200 s. 17 s at 10 W are 170 J, short of 180; nothing draws on them.
    assert at(199.0) == (pytest.approx(0.5), False)
    assert at(200.0) == (0.0, True)
    assert at(1008.0) == (pytest.approx(80.0), True)
    assert at(1999.0) == (pytest.approx(170.0), True)
    # 10 J more on the charger: on again at 2001 s, and from there 10 - .5 W.
    assert at(2000.5) == (pytest.approx(175.0), True)
    assert at(2001.0) == (pytest.approx(180.0), False)
    assert at(2011.0) == (pytest.approx(275.0), False)


def test_task_and_owner_together_meet_the_cut_off_at_its_moment(tmp_path):
    battery = {"capacity_wh": 1.0, "cutoff_fraction": 0.1, "everyday": OWNER}
    fleet = phones_with_records(tmp_path, ["0,0,0 40,0,0.5"], 100_000, battery)
    # 560 J over 360: 40 s at 2 + .3 + .5 = 2.8 W leave 88 J; then 2 + .3 + 3.5 = 5.8 W.
    phases = side_by_side(phase(0.0, (100.0, 2.0)))
    end_s = np.array([100.0])

    charge, spent_j = charge_of(fleet, [560.0]), phases.energy_until(end_s)
    after, empty_s = fleet.batteries.work(
        Phases(np.array([0]), charge, phases, spent_j, np.array([0.3]), end_s)
    )

    assert empty_s[0] == pytest.approx(40.0 + 88.0 / 5.8)
    assert after.level_j[0] == 360.0
    assert after.flows_j[0, Flow.OWNER] == pytest.approx(40 * 0.5 + 88.0 / 5.8 * 3.5)


@st.composite
def records(draw: st.DrawFn) -> list[tuple[int, bool, float]]:
    """(second, on the charger, load) from 0 on, each different from the one before."""
    moments = draw(st.lists(st.integers(1, 280), max_size=6, unique=True))
    record = [
        (t, draw(st.booleans()), draw(st.sampled_from([0.0, 0.25, 0.5, 0.9])))
        for t in (0, *sorted(moments))
    ]
    return [step for i, step in enumerate(record) if i == 0 or step[1:] != record[i - 1][1:]]


@st.composite
def curves(draw: st.DrawFn) -> dict[str, Any]:
    def steps(low: float, high: float, *, rises: bool) -> tuple[list[float], list[float]]:
        inner = draw(st.lists(st.integers(1, 19), max_size=4, unique=True))
        begins = [0.0, *(k / 20 for k in sorted(inner))]
        values = [draw(st.floats(low, high)) for _ in begins]
        return begins, sorted(values) if rises else values

    given_from, given = steps(0.1, 1.0, rises=False)
    volt_from, volt = steps(3.0, 4.4, rises=True)
    return {
        "capacity_wh": 1.0,
        "charge_w": draw(st.sampled_from([2.0, 7.5, 15.0])),
        "cutoff_fraction": draw(st.sampled_from([0.0, 0.05, 0.15])),
        "charging": {"kind": "cc-cv", "from_fraction": given_from, "power_fraction": given},
        "discharging": {
            "kind": "resistive",
            "internal_ohm": draw(st.sampled_from([0.05, 0.18, 0.5])),
            "from_fraction": volt_from,
            "open_circuit_v": volt,
        },
        "everyday": OWNER | {"restart_fraction": draw(st.sampled_from([0.01, 0.05]))},
    }


STEP_S = 0.05
"""Step of the slow walk."""


class Slow(NamedTuple):
    """End of a slow walk."""

    level_j: float
    is_off: bool
    met_s: float
    """Time at which the floor was met; inf: never."""
    bound_j: float
    """A step in which something changes is wrong by a step's worth of that change at most."""
    nearest_miss_j: float
    """Least distance of the level, while off, from the one at which the phone starts again."""


def walked(battery, record, level_j, until_s, load_w=lambda _: 0.0, floor_j=None) -> Slow:
    """A phone stepped through its record, a twentieth of a second at a time (Euler)."""
    restart_j = battery["everyday"]["restart_fraction"] * CAPACITY_J
    off, flow_before, num_changes, nearest_miss_j, met_s = False, None, 0, math.inf, math.inf

    def value(curve: str, key: str) -> float:
        begins = battery[curve]["from_fraction"]
        band = sum(begin * CAPACITY_J <= level_j for begin in begins) - 1
        return float(battery[curve][key][band])

    for k in range(round(until_s / STEP_S)):
        t_s = k * STEP_S
        _, charging, load = [step for step in record if step[0] <= t_s + 1e-9][-1]
        owner_w = 0.5 + (1.0 if load >= 0.05 else 0.0) + 4.0 * load
        charger_w = battery["charge_w"] if charging else 0.0
        off = off and level_j < restart_j
        drawn_w = (0.0 if off else owner_w) + load_w(t_s)
        if floor_j is not None and level_j <= floor_j and charger_w < drawn_w:
            met_s = t_s
            break
        if floor_j is None and level_j <= 0.0 and charger_w < drawn_w:
            off, drawn_w = True, 0.0
        if charger_w >= drawn_w:
            share = value("charging", "power_fraction")
            rate_w = min(share * charger_w, charger_w - drawn_w)
            rate_w = 0.0 if level_j >= CAPACITY_J else rate_w
        else:
            from_battery_w, volt = drawn_w - charger_w, value("discharging", "open_circuit_v")
            ohm = battery["discharging"]["internal_ohm"]
            rate_w = -from_battery_w - ohm * (from_battery_w / volt) ** 2
        flow = (charger_w, drawn_w, rate_w)
        if flow_before not in (None, flow):
            num_changes += 1
            if off:
                nearest_miss_j = min(nearest_miss_j, abs(level_j - restart_j))
        flow_before = flow
        level_j = min(max(level_j + rate_w * STEP_S, 0.0), CAPACITY_J)
    if off:
        nearest_miss_j = min(nearest_miss_j, abs(level_j - restart_j))
    bound_j = STEP_S * SHARPEST_CHANGE_W * (num_changes + 2)
    return Slow(level_j, off, met_s, bound_j, nearest_miss_j)


def fleet_with(folder, some, battery) -> Fleet:
    lines = [" ".join(f"{t},{int(charging)},{load}" for t, charging, load in one) for one in some]
    return phones_with_records(folder, lines, 10_000, battery)


TWO = st.lists(records(), min_size=2, max_size=2)
# An example takes 20 ms: a walk of up to 6,000 steps for each of its clients.
SLOWLY = settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.slow
@SLOWLY
@given(battery=curves(), some=TWO, level=st.floats(0.0, 1.0), until_s=st.integers(1, 300))
def test_idle_batteries_match_a_slow_walk(tmp_path, battery, some, level, until_s):
    fleet = fleet_with(tmp_path, some, battery)
    before = charge_of(fleet, [level * CAPACITY_J] * 2)
    after = fleet.batteries.idle(np.arange(2), before, np.zeros(2), float(until_s))

    # The order of the users is drawn.
    for client, user in enumerate(fleet.usage.user.tolist()):
        slow = walked(battery, some[user], level * CAPACITY_J, until_s)
        assume(slow.nearest_miss_j > slow.bound_j)
        got_j = float(after.level_j[client])
        assert got_j == pytest.approx(slow.level_j, abs=slow.bound_j)
        if slow.level_j > slow.bound_j:
            assert bool(after.is_off[client]) == slow.is_off
        put_in_j = level * CAPACITY_J + after.flows_j[client, Flow.CHARGED]
        out_j = after.flows_j[client, Flow.OWNER] + after.flows_j[client, Flow.LOSS] + got_j
        assert put_in_j == pytest.approx(out_j, abs=1e-6)


@pytest.mark.slow
@SLOWLY
@given(
    battery=curves(),
    some=TWO,
    level=st.floats(0.15, 1.0),
    segments=st.lists(st.tuples(st.integers(1, 75), st.floats(0.0, 15.0)), min_size=1, max_size=4),
    share=st.floats(0.05, 1.0),
)
def test_batteries_in_tasks_match_a_slow_walk(tmp_path, battery, some, level, segments, share):
    fleet = fleet_with(tmp_path, some, battery)
    timeline = phase(0.0, *((float(seconds), watts) for seconds, watts in segments))
    until_s = min(max(1.0, round(share * timeline.end_s)), timeline.end_s)
    phases, ends_s, idle_w = side_by_side(timeline, timeline), np.full(2, until_s), 0.25

    charge, spent_j = charge_of(fleet, [level * CAPACITY_J] * 2), phases.energy_until(ends_s)
    after, empty_s = fleet.batteries.work(
        Phases(np.arange(2), charge, phases, spent_j, np.full(2, idle_w), ends_s)
    )

    def load_w(t_s: float) -> float:
        segment = sum(edge <= t_s + 1e-9 for edge in timeline.edges_s[1:].tolist())
        return idle_w + float(timeline.power_w[min(segment, timeline.power_w.size - 1)])

    floor_j = battery["cutoff_fraction"] * CAPACITY_J
    for client, user in enumerate(fleet.usage.user.tolist()):
        slow = walked(battery, some[user], level * CAPACITY_J, until_s, load_w, floor_j)
        got_j, met_s = float(after.level_j[client]), float(empty_s[client])
        if slow.met_s < math.inf and met_s < math.inf:
            # Nothing drains at less than .75 W here.
            assert met_s == pytest.approx(slow.met_s, abs=slow.bound_j / 0.75 + STEP_S)
            assert got_j == floor_j
        elif slow.met_s < math.inf or met_s < math.inf:
            assert abs(slow.level_j - floor_j) <= slow.bound_j
        else:
            assert got_j == pytest.approx(slow.level_j, abs=slow.bound_j)
        lived_s = min(met_s, until_s)
        task_j = float(timeline.energy_until(lived_s)) + idle_w * lived_s
        put_in_j = level * CAPACITY_J + after.flows_j[client, Flow.CHARGED]
        used_j = task_j + after.flows_j[client, Flow.OWNER] + after.flows_j[client, Flow.LOSS]
        assert put_in_j == pytest.approx(used_j + got_j, abs=1e-6)


def test_to_go_on_from_the_last_change_is_the_same_bit_for_bit(tmp_path):
    battery = {
        "charging": {"kind": "cc-cv"},
        "discharging": {"kind": "resistive"},
        "everyday": {"restart_fraction": 0.07},
    }
    record = "0,0,0.3 900,0,0 7000,1,0.1 9001,0,0.7 30000,1,0 31111,0,0.4 50000,1,0.2"
    fleet = phones_with_records(tmp_path, [record], 90_000, battery)
    one, start_s = np.array([0]), np.zeros(1)
    start = charge_of(fleet, [20_000.0])
    moments = np.linspace(0.0, 300_000.0, 19).tolist()

    whole = [fleet.batteries.idle(one, start, start_s, t_s) for t_s in moments]
    charge, at_s, parts = start, start_s, []
    for t_s in moments:
        charge, at_s = fleet.batteries.last_change(one, charge, at_s, t_s)
        parts.append(fleet.batteries.idle(one, charge, at_s, t_s))

    assert any(w.is_off[0] for w in whole)
    for w, p in zip(whole, parts, strict=True):
        assert w.level_j.tobytes() == p.level_j.tobytes()
        assert w.is_off.tobytes() == p.is_off.tobytes()
        assert w.flows_j.tobytes() == p.flows_j.tobytes()
