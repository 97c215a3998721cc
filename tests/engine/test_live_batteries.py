"""Batteries in a run: eligibility, levels after tasks, balance and conservation of joules."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleetsim.errors import SimulationError
from tests.engine.batches import world_of
from tests.engine.tiny import NANO_FILE, Tiny

CAPACITY_J = 3600.0
LIVE: dict[str, Any] = {
    "capacity_wh": 1.0, "charge_w": 10.0, "cutoff_fraction": 0.1, "charging": {"kind": "cc-cv"},
    "discharging": {"kind": "resistive"},
    "everyday": {"standby_w": 0.5, "screen_w": 1.0, "cpu_w": 8.0, "restart_fraction": 0.25},
}  # fmt: skip
STATES = st.tuples(st.booleans(), st.booleans(), st.sampled_from([0.0, 0.3, 0.8]))


def living(tiny: Tiny, trace, span_s, *, lives=LIVE, **battery) -> Tiny:
    """Phones, one unless there are more already."""
    tiny.devices, tiny.battery = {"pixel-6": 1.0}, lives | battery
    tiny.trace(trace, span_s=span_s)
    return tiny


@pytest.fixture
def tiny(tmp_path) -> Tiny:
    return Tiny(tmp_path, size=1)


def trace_of(states, step_s):
    """Trace whose states last so many seconds each."""
    return " ".join(
        f"{step_s * i},{int(on)},{int(plug)},1,{load}" for i, (on, plug, load) in enumerate(states)
    )


@pytest.mark.slow
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    states=st.lists(STATES, min_size=1, max_size=6),
    initial=st.floats(0.02, 1.0),
    others=st.lists(st.sampled_from([0.12, 0.3, 0.85]), min_size=1, max_size=2, unique=True),
    wants_charger=st.booleans(),
)
def test_eligible_is_what_level_and_rule_say_at_every_moment(
    tiny, states, initial, others, wants_charger
):
    span_s, tiny.size = 100 * len(states), 2
    living(tiny, trace_of(states, 100), span_s, initial_fraction=[initial, initial])
    any_of: list[Any] = [{"min_battery_fraction": least} for least in others]
    any_of += [{"charging": True}] if wants_charger else []
    fleet = tiny.fleet()
    world = world_of(fleet, min_battery_fraction=0.11, any_of=any_of)

    was, change_s = None, 0.0
    moments = np.arange(0.7, 1200.0, 6.3)
    first = np.zeros(moments.size, dtype=np.int64)
    start = fleet.batteries.initial(fleet.initial_j[first])
    charge = fleet.batteries.idle(first, start, np.zeros(moments.size), moments)
    for t_s, fraction, off in zip(
        moments.tolist(), (charge.level_j / CAPACITY_J).tolist(), charge.is_off, strict=True
    ):
        on, plug, _ = states[int(t_s % span_s) // 100]
        meets_a_condition = any(fraction >= least for least in others) or (wants_charger and plug)
        expected = bool(on and not off and fraction >= 0.11 and meets_a_condition)
        got = world.eligible.candidates(t_s).tolist()

        if min(abs(fraction - least) for least in (0.11, *others)) > 1e-9:
            assert got == ([0, 1] if expected else [])
            assert was is None or was == expected or change_s <= t_s
            was = expected
        else:
            was = None
        change_s = world.eligible.next_change_s(t_s)
        assert change_s > t_s


def test_a_phone_leaves_and_returns_at_the_moments_of_the_closed_forms(tiny):
    # 25 % (900 J) after 90 s at 10 W, and only then the phone is on, though 11 % came before.
    lossless = {"initial_fraction": [0.5, 0.5], "discharging": {"kind": "lossless"}}
    living(tiny, "0,1,0,1,0 5000,1,1,1,0", 100_000, **lossless)
    world = world_of(tiny.fleet(), min_battery_fraction=0.11)
    leaves_s = world.eligible.next_change_s(0.0)

    assert world.eligible.candidates(0.0).tolist() == [0]
    assert leaves_s == pytest.approx((1800.0 - 396.0) / 0.5)
    assert world.eligible.candidates(leaves_s).size == 0
    assert world.eligible.next_change_s(leaves_s) == pytest.approx(5090.0)
    assert world.eligible.candidates(5089.9).size == 0
    assert world.eligible.candidates(5090.0).tolist() == [0]


def test_a_phone_that_is_off_with_joules_in_its_battery_is_off_after_a_resume(tiny):
    # 180 J at 3.9 W: empty at 46 s. 50 s at 10 W are 500 J, short of the 900 J to start again.
    trace = "0,1,0,1,0.3 2000,1,1,1,0 2050,1,0,1,0.3"
    living(tiny, trace, 100_000, initial_fraction=[0.05, 0.05], charging={"kind": "constant"})
    fleet = tiny.fleet()
    world, resumed = (world_of(fleet) for _ in range(2))
    charge = world.idle.charge_at(3000.0)
    resumed.restore(world.take_changed())
    later = resumed.idle.charge_at(4000.0)

    assert charge.level_j.tolist() == pytest.approx([500.0])
    assert charge.is_off.tolist() == later.is_off.tolist() == [True]
    assert later.level_j.tolist() == charge.level_j.tolist()


@pytest.mark.slow
def test_questions_between_change_nothing_but_the_last_bits_of_nobody(tiny):
    tiny.size = 5
    living(tiny, "0,1,0,1,0.3 500,1,1,1,0 900,0,0,1,0.8", 1200, initial_fraction=[0.4, 0.9])
    fleet = tiny.fleet()
    often, once = (world_of(fleet) for _ in range(2))
    for t_s in np.linspace(0.0, 7000.0, 83).tolist():
        often.eligible.candidates(t_s)
        often.idle.charge_at(t_s)
    one, other = (world.idle.charge_at(7000.0) for world in (often, once))

    assert one.level_j.tobytes() == other.level_j.tobytes()
    assert one.flows_j.tobytes() == other.flows_j.tobytes()


@pytest.mark.slow
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    states=st.lists(STATES, min_size=1, max_size=5),
    initial=st.tuples(st.floats(0.05, 0.5), st.floats(0.5, 1.0)),
    health=st.floats(0.3, 1.0),
    seed=st.integers(1, 10**6),
)
def test_what_went_into_batteries_came_out_or_is_in_them(tmp_path, states, initial, health, seed):
    tiny = Tiny(tmp_path, size=6, seed=seed, samples=[200, 400, 800, 1600, 300, 600])
    whole = {"initial_fraction": list(initial), "health_fraction": [health, 1.0]}
    living(tiny, trace_of(states, 40), 40 * len(states), **whole)
    tiny.server = {"cohort": 4, "deadline_s": 90.0, "eligibility": {"min_battery_fraction": 0.11}}
    tiny.stop = {"rounds": 10, "time_s": 3000.0}
    tiny.run()
    columns = next(tiny.server_ran.clients())
    initial_j, charged_j, owner_j, loss_j, final_j, capacity_j = (
        np.array(getattr(columns, f"battery_{name}_j"))
        for name in ("initial", "charged", "owner", "loss", "final", "capacity")
    )

    task_j = np.zeros(6)
    for row in tiny.recorder.tasks:
        task_j[row.client] += row.energy_j
    out_j = task_j + owner_j + loss_j + final_j
    assert initial_j + charged_j == pytest.approx(out_j, rel=1e-9, abs=1e-6)
    assert (final_j <= capacity_j).all()
    assert (capacity_j <= CAPACITY_J).all()


def test_a_battery_that_gives_what_it_never_got_stops_the_run(tiny):
    living(tiny, "0,1,0,1,0", 1000)
    world = world_of(tiny.fleet())
    world.check_batteries(0.0)
    world.energy_j[0, 0] += 1.0

    with pytest.raises(SimulationError, match="joules of the battery are not conserved"):
        world.check_batteries(0.0)


def test_a_tail_loses_its_share_too_and_takes_no_more_than_there_is(tiny):
    living(tiny, "0,1,0,1,0", 100_000, initial_fraction=[0.5, 0.5])
    tiny.channel |= {"unmetered_radio": "lte-2012"}
    fleet = tiny.fleet()
    radio = fleet.radios_at(np.array([0]), np.zeros(1))
    tail_w, tail_s = float(fleet.radios.tail_w[radio][0]), float(fleet.radios.tail_s[radio][0])
    loss = tail_w * 0.18 / 3.887**2  # the volts from 50 to 60 %

    def after_tail(fraction):
        standing = world_of(fleet).begin(np.array([0]), 0.0, np.array([0]))
        standing.charge.level_j[:] = fraction * CAPACITY_J
        tail_j = standing.pay_tails(radio, np.zeros(1))
        return tail_j[0], standing.charge.level_j[0], standing.charge.flows_j[0, 2]

    tail_j, level_j, lost_j = after_tail(0.5)
    assert tail_j == pytest.approx(tail_w * tail_s)
    assert lost_j == pytest.approx(tail_w * tail_s * loss)
    assert level_j == pytest.approx(0.5 * CAPACITY_J - tail_w * tail_s * (1 + loss))
    tail_j, level_j, lost_j = after_tail(1e-3)
    assert level_j == 0.0
    assert tail_j + lost_j == pytest.approx(3.6)


def test_rounds_say_how_full_the_batteries_are_and_who_is_off(tiny):
    living(tiny, "0,1,0,1,0", 100_000, initial_fraction=[1.0, 1.0])
    tiny.devices, tiny.size = {"pixel-6": 0.5, NANO_FILE: 0.5}, 4
    tiny.usage["kinds"] = ["phone"]
    tiny.run(server={"cohort": 2, "deadline_s": 10_000.0}, stop={"rounds": 1, "time_s": 50_000.0})
    first = tiny.recorder.rounds[0]

    assert first.num_off == 0
    assert first.battery_low_fraction <= first.battery_high_fraction
    assert first.battery_low_fraction < 1.0
    # A fleet on mains says nothing of batteries.
    mains = Tiny(tiny.folder)
    mains.run()
    assert mains.recorder.rounds[0].num_off is None
    assert next(mains.server_ran.clients()).battery_charged_j is None
    assert math.isnan(next(mains.server_ran.clients()).battery_fraction[0])


@pytest.mark.parametrize(
    ("trace", "charge_w", "least"),
    [
        ("0,1,0,1,0 300,1,0,1,0.3", 10.0, 0.21),  # empty for good
        # On the charger for good, with less than the owner draws: off, on at 25 %, empty again ...
        ("0,1,1,1,0", 0.4, 0.3),
    ],
)
def test_a_fleet_that_never_has_the_battery_ends_the_run(tiny, trace, charge_w, least):
    living(tiny, trace, 5000, initial_fraction=[0.2, 0.2], charge_w=charge_w)
    tiny.server = {"cohort": 1, "eligibility": {"min_battery_fraction": least}}

    assert tiny.run(stop={"rounds": 3, "time_s": 1e6}).rule in ("no_clients", "time_s")
    assert tiny.recorder.tasks == []


def test_a_full_phone_that_rests_at_the_level_asked_for_reaches_it(tiny):
    # 360 J at 10 W, f .344 and .169: full after 180 / 3.44 + 180 / 1.69 s, and then it stays full.
    discharging = {"kind": "lossless"}
    living(tiny, "0,1,1,1,0", 5000, initial_fraction=[0.9, 0.9], discharging=discharging)
    world = world_of(tiny.fleet(), min_battery_fraction=1.0)
    full_s = world.eligible.next_change_s(0.0)

    assert full_s == pytest.approx(180 / 3.44 + 180 / 1.69)
    assert world.eligible.candidates(full_s).tolist() == [0]
    assert world.eligible.candidates(full_s + 100_000.0).tolist() == [0]


# One watt-hour; the charger gives 10 W from second 100 to 150 of a very long lap.
PLAIN = {"capacity_wh": 1, "charge_w": 10, "cutoff_fraction": 0, "initial_fraction": [0.5, 0.5]}
TRACE = "0,1,0,1,0 100,1,1,1,0 150,1,0,1,0"


@pytest.mark.parametrize(
    ("initial", "now_s", "charged_j"),
    [
        (0.5, 90.0, 0.0),  # before the charger comes
        (0.5, 130.0, 300.0),  # 10 W for 30 s
        (0.5, 900.0, 500.0),  # 10 W for 50 s
        (0.99, 900.0, 36.0),  # a hundredth of 3600 J is missing
    ],
)
def test_an_idle_battery_was_given_what_fits_into_it(tiny, initial, now_s, charged_j):
    plain = {**PLAIN, "initial_fraction": [initial, initial]}
    world = world_of(living(tiny, TRACE, 1_000_000, lives=plain).fleet())
    balance = world.battery_balance(np.arange(1), now_s)

    assert balance["battery_charged_j"] == pytest.approx([charged_j], abs=1e-9)
    assert balance["battery_final_j"] == pytest.approx([3600.0 * initial + charged_j])
    assert [*balance["battery_owner_j"], *balance["battery_loss_j"]] == [0.0, 0.0]


@pytest.mark.parametrize("spent_j", [-600.0, 1000.0])
def test_joules_that_no_charger_gave_are_a_fault(tiny, spent_j):
    tiny.size = 2
    world = world_of(living(tiny, TRACE, 1_000_000, lives=PLAIN).fleet())
    world.energy_j[1, 0] = spent_j

    with pytest.raises(SimulationError, match=r"500\.0 J are the most that could be") as caught:
        world.battery_balance(np.arange(2), 900.0)
    assert caught.value.client == 1
