"""Eligibility rules against a brute-force oracle, and conditions that hold throughout a task."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from fleetsim.contracts import Outcome
from fleetsim.engine.eligibility import Condition, EligibilitySettings
from fleetsim.engine.event_order import Clock, Rank, priority
from fleetsim.errors import ScenarioError, SimulationError
from fleetsim.scenario import load
from fleetsim.units import BYTE_PER_GIB
from tests.engine.batches import world_of

CAPACITY_J = 4614e-3 * 3600 * 3.85  # Pixel 6
RAM_GIB = {"pixel-6": 8.0, "redmi-note-10": 4.0, "t2.small": 2.0}
STEP_S, END_S = 0.2, 26.0
_FREE_FRACTION = 0.5


def eligible(rule: dict[str, Any], now: dict[str, Any]) -> bool:
    """Evaluate the rule literally, for one client at one moment."""
    checks = [
        not rule.get("charging") or now["charging"],
        not rule.get("unmetered") or now["unmetered"],
        now["level"] >= rule.get("min_battery_fraction", 0.0) - 1e-9,
        now["ram_gib"] >= rule.get("min_ram_gib", 0.0),
        "min_free_ram_gib" not in rule or now["free_gib"] >= rule["min_free_ram_gib"],
        all(eligible(part, now) for part in rule.get("all_of", [])),
        "any_of" not in rule or any(eligible(part, now) for part in rule["any_of"]),
        not any(eligible(part, now) for part in rule.get("none_of", [])),
    ]
    return all(checks)


LEAVES = st.one_of(
    st.just({"charging": True}),
    st.just({"unmetered": True}),
    st.sampled_from([0.35, 0.5, 0.65, 0.95]).map(lambda least: {"min_battery_fraction": least}),
    st.sampled_from([2.0, 3.0, 8.0]).map(lambda least: {"min_ram_gib": least}),
    st.sampled_from([1.0, 2.0, 4.0]).map(lambda least: {"min_free_ram_gib": least}),
)
CONDITIONS = st.recursive(
    LEAVES,
    lambda below: st.builds(
        lambda key, parts: {key: parts},
        st.sampled_from(["all_of", "any_of", "none_of"]),
        st.lists(below, min_size=1, max_size=3, unique_by=Condition.model_validate),
    ),
    max_leaves=6,
)
STATES = st.tuples(
    st.integers(0, 1), st.integers(0, 1), st.integers(0, 1), st.sampled_from([0.0, 0.5, 1.0, 3.5])
)


# Thirty examples: each asks the world 130 times.
@pytest.mark.slow
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    condition=CONDITIONS,
    states=st.lists(STATES, min_size=1, max_size=6),
    initial=st.sampled_from([0.32, 0.47, 0.92]),
    least=st.sampled_from([0.2, 0.5]),
    spare_gib=st.none() | st.tuples(*[st.sampled_from([-1.0, 0.0, 0.5, 0.75, 9.0])] * 3),
)
def test_eligible_is_what_the_words_of_the_rule_say_at_every_moment(
    tiny, condition, states, initial, least, spare_gib
):
    # Four seconds of each state; a second on the charger fills a twentieth of the battery.
    lines = [
        f"{4 * i},{on},{plug},{wifi},0,{int(apps_gib * BYTE_PER_GIB)}"
        for i, (on, plug, wifi, apps_gib) in enumerate(states)
    ]
    span_s = 4 * len(states)
    tiny.trace(" ".join(lines), span_s=span_s)
    tiny.size, tiny.devices = 3, dict.fromkeys(RAM_GIB, 1 / 3)
    tiny.memory = {"kind": "share", "free_fraction": [_FREE_FRACTION, _FREE_FRACTION]}
    tiny.battery = {"initial_fraction": [initial, initial], "charge_w": CAPACITY_J / 20}
    fleet = tiny.fleet()
    rule = {"min_battery_fraction": least, "any_of": [condition]}
    spare_byte = None if spare_gib is None else np.array(spare_gib) * BYTE_PER_GIB
    world = world_of(fleet, spare_byte=spare_byte, **rule)
    capacity_j = fleet.batteries.capacity_j
    ram_gib = [RAM_GIB[fleet.profile(client).name] for client in range(3)]

    was: list[int] | None = None
    charged_s, change_s, plugged = 0.0, 0.0, 0
    for t_s in np.arange(STEP_S / 2, END_S, STEP_S).tolist():
        on, plug, wifi, apps_gib = states[int(t_s % span_s) // 4]
        # Changes of the trace fall half-way between two moments.
        charged_s += STEP_S / 2 * (plug + plugged)
        plugged = plug
        levels = np.minimum(1.0, initial + charged_s * CAPACITY_J / 20 / capacity_j)
        levels[~np.isfinite(capacity_j)] = 1.0
        expected = []
        for client, (level, ram) in enumerate(zip(levels, ram_gib, strict=True)):
            now = {"charging": bool(plug), "unmetered": bool(wifi), "level": level}
            now |= {"ram_gib": ram, "free_gib": ram * _FREE_FRACTION - apps_gib}
            has_room = spare_gib is None or apps_gib <= spare_gib[client]
            if on and has_room and eligible(rule, now):
                expected.append(client)

        assert world.eligible.candidates(t_s).tolist() == expected
        assert was is None or was == expected or change_s <= t_s
        was, change_s = expected, world.eligible.next_change_s(t_s)


def test_the_next_change_is_when_the_battery_reaches_a_level_that_matters(tiny):
    # 0.2 of 63,950 J at 7.5 W on the charger, which begins at 100 s and is wanted or 0.8.
    tiny.devices, tiny.size = {"pixel-6": 1.0}, 1
    tiny.battery = {"initial_fraction": [0.6, 0.6]}
    tiny.trace("0,1,0,1,0 100,1,1,0,0", span_s=100_000)
    at_seven = {"unmetered": True, "min_battery_fraction": 0.7}
    world = world_of(tiny.fleet(), any_of=[at_seven, {"min_battery_fraction": 0.8}])

    assert world.eligible.candidates(0.0).size == 0
    assert world.eligible.next_change_s(0.0) == pytest.approx(100.0 + 0.2 * CAPACITY_J / 7.5)
    assert world.eligible.candidates(world.eligible.next_change_s(0.0)).tolist() == [0]


CHARGING_OR_FULL = {"any_of": [{"charging": True}, {"min_battery_fraction": 0.8}]}


@pytest.mark.parametrize(("initial", "outcome"), [(0.5, Outcome.OFFLINE), (0.9, Outcome.DELIVERED)])
def test_what_the_battery_vouched_for_at_the_beginning_survives_the_charger(tiny, initial, outcome):
    tiny.devices = {"pixel-6": 1.0}
    tiny.battery = {"initial_fraction": [initial, initial]}
    tiny.trace("0,1,1,1,0 2,1,0,1,0", span_s=1000)
    row = tiny.rows(server={"cohort": 1, "eligibility": CHARGING_OR_FULL})[0]

    assert row.outcome is outcome
    assert (row.finished_at_s == 2.0) == (outcome is Outcome.OFFLINE)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"any_of": []}, "at least 1 item"),
        ({"any_of": [{"charging": True}, {"charging": True}]}, "named twice"),
        ({"any_of": [{}]}, "asks for nothing"),
        ({"any_of": [{"charging": None}]}, "asks for nothing"),
        ({"none_of": [{"charging": False}]}, "True"),
        ({"any_of": [{"battery": 0.5}]}, "not permitted"),
        ({"any_of": [{"min_battery_fraction": 0.0}]}, "greater than or equal to 0.000001"),
    ],
)
def test_a_condition_that_says_nothing_sure_is_refused(rule, message):
    with pytest.raises(ValidationError, match=message):
        EligibilitySettings.model_validate(rule)


def test_free_memory_that_nobody_knows_cannot_be_asked_for():
    with pytest.raises(ScenarioError, match=r"eligibility.*set fleet\.memory\.kind = 'share'"):
        load("quickstart", ["server.eligibility={none_of: [{min_free_ram_gib: 1.0}]}"])


def test_apps_of_too_many_sizes_are_refused_with_a_hint(tiny):
    tiny.trace(" ".join(f"{t_s},1,1,1,0,{t_s}" for t_s in range(1025)), span_s=2000)
    tiny.memory = {"kind": "share", "free_fraction": [0.5, 0.5]}
    with pytest.raises(ScenarioError, match="1025 different amounts of memory; round ram_byte"):
        world_of(tiny.fleet(), min_free_ram_gib=1.0)


@pytest.mark.parametrize("charge_w", [7.5, 1e3, 1e4])
def test_the_next_change_is_never_now(tiny, charge_w):
    """At any charging power: a change that rounds to the present would stop the clock."""
    tiny.devices, tiny.size = {"pixel-6": 1.0}, 1
    tiny.battery = {"charge_w": charge_w, "initial_fraction": [0.4, 0.4]}
    tiny.trace("0,1,0,1,0 500,1,1,1,0", span_s=1000)
    # 6e-5 J more than it has
    world = world_of(tiny.fleet(), min_battery_fraction=0.4 + 1e-9)

    now_s, changes = 500.0, 0
    while world.eligible.candidates(now_s).size == 0:
        change_s = world.eligible.next_change_s(now_s)
        assert change_s > now_s
        now_s, changes = change_s, changes + 1
    # A moment is rounded, so that the battery may lack a little of the level then.
    assert changes <= 3


times_s = st.floats(0.0, 1e10, allow_nan=False)


@given(times_s, times_s)
@example(1.461132526397705, 4294967297.642539)  # no delay added to the first gives the second
def test_an_event_happens_at_exactly_its_absolute_time(a_s, b_s):
    now_s, time_s = sorted((a_s, b_s))
    clock = Clock(now_s)

    clock.run(until=clock.at(time_s, Rank.WAKE))

    assert clock.now == time_s


@pytest.mark.parametrize("time_s", [0.5, math.inf, math.nan])
def test_an_event_in_the_past_or_at_no_time_is_refused(time_s):
    with pytest.raises(ValueError, match="cannot place an event"):
        Clock(1.0).at(time_s, Rank.WAKE)


def test_events_of_one_instant_follow_the_written_rule_whatever_their_order_of_creation():
    clock = Clock()
    happened: list[str] = []
    for rank in reversed(Rank):
        for task in (2, 1):
            event = clock.at(5.0, rank, task)
            event.callbacks.append(
                lambda _, name=f"{rank.name} {task}": happened.append(name)  # type: ignore[misc]
            )

    clock.run()

    ranks = ["DELIVERY", "LOSS", "DEADLINE", "WAKE", "STOP"]
    assert happened == [f"{rank} {task}" for rank in ranks for task in (1, 2)]


def test_a_task_number_never_outweighs_a_rank():
    assert priority(Rank.DELIVERY, 2**40) < priority(Rank.LOSS, 0)


@pytest.mark.parametrize(
    ("rank", "task", "moves", "message"),
    [
        (Rank.WAKE, (), False, r"^at virtual time 8\.0 s: the clock stands still: 10300 events"
         " within 1e-06 s, the last of which was a wake-up of the server$"),
        # It moves less than it can tell.
        (Rank.LOSS, (12,), True, "task 12: .* the last of which was the loss of a"),
    ],
)  # fmt: skip
def test_a_clock_that_stands_still_stops_and_names_the_event(rank, task, moves, message):
    clock = Clock(7.0, clients_at_work=3)

    def asks_for_ever():
        yield clock.at(8.0, Rank.DELIVERY, 5)
        while True:
            yield clock.at(math.nextafter(clock.now, 9.0) if moves else clock.now, rank, *task)

    clock.process(asks_for_ever())

    with pytest.raises(SimulationError, match=message):
        clock.run()


def test_many_clients_may_end_at_one_instant():
    clock = Clock(0.0, clients_at_work=20)
    for task in range(12_000):
        clock.at(1.0, Rank.DELIVERY, task)

    clock.run()

    assert clock.now == 1.0
