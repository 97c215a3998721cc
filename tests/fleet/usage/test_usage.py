from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from fleetsim.fleet.traces.usage.trace import Trace
from fleetsim.fleet.usage.usage import (
    TimeZoneSettings,
    Usage,
    UsageSettings,
    assign_time_zones,
    build_usage,
)
from tests.fleet.made_fleets import phones_with_records

DAY_S = 86_400
ONE = np.array([0])


def trace_of(*users: tuple[int, list[tuple[int, bool, bool, bool, float]]]) -> Trace:
    """A trace of (span, changes) per user."""
    changes = [change for _, rows in users for change in rows]
    columns: Iterable[Any] = map(np.array, zip(*((*each, 0) for each in changes), strict=True))
    return Trace(
        "hand-made",
        tuple(str(user) for user in range(len(users))),
        np.array([span_s for span_s, _ in users]),
        np.cumsum([0, *(len(rows) for _, rows in users)]),
        *columns,
    )


# Ten seconds: online [0, 4) and [6, 10), charging in [6, 9), unmetered in [6, 10), load in [2, 4).
BEGIN = [(0, True, False, False, 0.0), (2, True, False, False, 0.5), (4, False, False, False, 0.0)]
TEN = trace_of((10, [*BEGIN, (6, True, True, True, 0.0), (9, True, False, True, 0.0)]))


def usage_of(trace: Trace | None, size: int = 1, *, seed: int = 1, shift="none") -> Usage:
    return build_usage(trace, seed=seed, has_people=np.ones(size, dtype=bool), shift=shift)


def days(num_users: int, num_days: int) -> Trace:
    """Users who are online on their first day only."""
    rows = [(0, True, True, True, 0.0), (DAY_S, False, False, False, 0.0)]
    return trace_of(*[(num_days * DAY_S, rows)] * num_users)


def test_without_a_trace_everybody_is_always_on():
    usage = usage_of(None, 3)
    states = usage.state_at(np.arange(3), 1e9)

    assert (states.online & states.charging & states.unmetered).all()
    assert not states.load.any()
    assert usage.steps.next_change_after(np.arange(3), 0.0).tolist() == [np.inf] * 3
    assert usage.charging_schedule().seconds_true(ONE, 1.25, 3.5).tolist() == [2.25]


def test_only_clients_with_people_live_through_the_trace():
    usage = build_usage(TEN, seed=1, has_people=np.array([True, False]), shift="none")

    assert usage.user.tolist() == [0, -1]
    assert usage.state_at(np.arange(2), 5.0).online.tolist() == [False, True]
    assert usage.is_unmetered_at(np.arange(2), 5.0).tolist() == [False, True]


def test_a_clients_life_depends_neither_on_the_size_of_the_fleet_nor_on_who_else_has_people():
    has_people = np.arange(40) % 3 == 0
    few, many = usage_of(days(7, 5), 40, shift="days"), usage_of(days(7, 5), 9000, shift="days")
    some = build_usage(days(7, 5), seed=1, has_people=has_people, shift="days")

    assert many.user[:40].tolist() == few.user.tolist()
    assert many.shift_s[:40].tolist() == few.shift_s.tolist()
    assert some.user[has_people].tolist() == few.user[has_people].tolist()
    assert some.shift_s[has_people].tolist() == few.shift_s[has_people].tolist()


def test_every_user_is_dealt_once_before_any_is_dealt_again():
    user = usage_of(days(7, 5), 21).user
    assert [sorted(user[lap : lap + 7].tolist()) for lap in (0, 7, 14)] == [list(range(7))] * 3
    assert user[:7].tolist() != user[7:14].tolist()


def test_shifts_are_whole_days_of_the_record_and_use_all_of_them():
    shift_s = usage_of(days(3, 5), 300, shift="days").shift_s

    assert sorted(set(shift_s.tolist())) == [0, DAY_S, 2 * DAY_S, 3 * DAY_S, 4 * DAY_S]
    assert not usage_of(days(3, 5), 20, shift="none").shift_s.any()
    assert not usage_of(TEN, 20, shift="days").shift_s.any()  # a record of less than a day


def test_eligible_is_online_and_what_the_rule_asks_for_and_charging_is_so_offline_too():
    usage = usage_of(TEN)
    true_s = [
        usage.eligible_schedule(charging, unmetered).seconds_true(ONE, 0.0, 10.0).item()
        for charging in (False, True)
        for unmetered in (False, True)
    ]
    assert true_s == [8.0, 4.0, 3.0, 3.0]

    # On the charger while offline.
    usage = usage_of(trace_of((10, [(0, False, True, True, 0.0), (4, True, False, True, 0.0)])))
    assert usage.charging_schedule().seconds_true(ONE, 0.0, 10.0).tolist() == [4.0]
    assert usage.eligible_schedule(True, False).seconds_true(ONE, 0.0, 10.0).tolist() == [0.0]


@pytest.mark.parametrize(("wrong", "message"), [
    ({"trace": "a", "synthetic": {"availability": 0.5}}, "both given; leave one out"),
    ({"time_zones": ({"utc_offset_h": 1, "weight": 1},)}, "time_zones need people"),
])  # fmt: skip
def test_settings_that_do_not_go_together_are_refused(wrong, message):
    with pytest.raises(ValidationError, match=message):
        UsageSettings.model_validate(wrong)


HOUR_S = 3_600
ZONES = (
    TimeZoneSettings(utc_offset_h=0.0, weight=1.0),
    TimeZoneSettings(utc_offset_h=-5.5, weight=3.0),
)


def test_clients_are_dealt_to_zones_by_weight_whatever_their_number():
    dealt_s = assign_time_zones(ZONES, seed=1, size=8000)

    assert set(dealt_s.tolist()) == {0, -5.5 * HOUR_S}
    # Binomial(8000, 3/4): standard deviation 39.
    assert abs((dealt_s < 0).sum() - 6000) < 4 * 39
    assert assign_time_zones(ZONES, seed=1, size=10).tolist() == dealt_s[:10].tolist()
    assert assign_time_zones((), seed=1, size=3).tolist() == [0, 0, 0]


def test_a_client_ahead_lives_through_its_record_so_much_earlier(tmp_path):
    records = [f"0,1,0 {9_000 * user},0,0.5 70000,1,0.2" for user in range(1, 8)]
    zones = [{"utc_offset_h": 8.0, "weight": 1.0}, {"utc_offset_h": 0.0, "weight": 1.0}]
    same, apart = (
        phones_with_records(tmp_path, records, 86_400, {}, time_zones=time_zones).usage
        for time_zones in ([], zones)
    )
    offset_s = apart.shift_s - same.shift_s
    clients = np.arange(7)

    assert sorted(set(offset_s.tolist())) == [0, 8 * HOUR_S]
    for t_s in (0.0, 40_000.5, 3e6):
        now, then = apart.state_at(clients, t_s), same.state_at(clients, t_s + offset_s)
        assert now.charging.tolist() == then.charging.tolist()
