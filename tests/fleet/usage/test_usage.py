import numpy as np
import pytest
from pydantic import ValidationError

from fleetsim.fleet.traces.usage.trace import Trace
from fleetsim.fleet.usage.usage import Usage, UsageSettings, build_usage
from tests.fleet.alone import next_load

DAY_S = 86_400
ONE = np.array([0])


def trace_of(*users: tuple[int, list[tuple[int, bool, bool, bool, float]]]) -> Trace:
    """A trace of (span, changes) per user."""
    changes = [change for _, rows in users for change in rows]
    times_s, online, charging, unmetered, load = (
        np.array(column) for column in zip(*changes, strict=True)
    )
    return Trace(
        name="hand-made",
        user_ids=tuple(str(user) for user in range(len(users))),
        span_s=np.array([span_s for span_s, _ in users]),
        offsets=np.cumsum([0, *(len(rows) for _, rows in users)]),
        times_s=times_s,
        online=online,
        charging=charging,
        unmetered=unmetered,
        load=load,
    )


# Ten seconds: online [0, 4) and [6, 10), charging and unmetered in [6, 10), load .5 in [2, 4).
TEN = trace_of(
    (
        10,
        [
            (0, True, False, False, 0.0),
            (2, True, False, False, 0.5),
            (4, False, False, False, 0.0),
            (6, True, True, True, 0.0),
        ],
    )
)


def lived(trace: Trace | None, size: int = 1, *, seed: int = 1, shift="none") -> Usage:
    return build_usage(trace, seed=seed, has_people=np.ones(size, dtype=bool), shift=shift)


def days(num_users: int, num_days: int) -> Trace:
    """Users who are online on their first day only."""
    rows = [(0, True, True, True, 0.0), (DAY_S, False, False, False, 0.0)]
    return trace_of(*[(num_days * DAY_S, rows)] * num_users)


def test_states_hold_from_their_second_on_lap_after_lap():
    states = lived(TEN).state_at(np.zeros(5, dtype=int), np.array([3.9, 4.0, 25.9, 26.0, -4.0]))

    assert states.online.tolist() == [True, False, False, True, True]
    assert states.charging.tolist() == [False, False, False, True, True]
    assert states.unmetered.tolist() == [False, False, False, True, True]
    assert states.load.tolist() == [0.5, 0.0, 0.0, 0.0, 0.0]


def test_the_next_change_is_strictly_later_and_skips_repeats():
    times_s = np.array([0.0, 1.5, 2.0, 3.999, 6.0, 9.5, 10.0])
    changes_s = lived(TEN).steps.next_change_after(np.zeros(7, dtype=int), times_s)

    assert changes_s.tolist() == [2.0, 2.0, 4.0, 4.0, 10.0, 10.0, 12.0]


def test_a_lap_that_ends_as_it_begins_has_no_change_at_the_seam():
    rows = [(0, True, True, True, 0.0), (3, False, True, True, 0.0), (5, True, True, True, 0.0)]
    usage = lived(trace_of((10, rows)))

    assert usage.steps.next_change_after(ONE, 7.0).tolist() == [13.0]
    assert usage.steps.next_change_after_one(0, 7.0) == 13.0


def test_the_last_instant_of_a_week_is_still_that_week():
    week_s = 7 * DAY_S
    rows = [(0, True, True, True, 0.0), (week_s - 1, False, True, True, 0.0)]
    usage = lived(trace_of((week_s, rows)))
    last_s = np.nextafter(5 * week_s, 0.0)

    assert not usage.state_at(ONE, last_s).online[0]
    assert usage.steps.next_change_after(ONE, last_s)[0] == 5 * week_s
    assert usage.state_at(ONE, 5 * week_s).online[0]


@pytest.mark.parametrize("t_s", [np.inf, -np.inf, np.nan])
def test_a_time_that_is_not_finite_is_refused(t_s):
    with pytest.raises(ValueError, match="time must be finite, got"):
        lived(TEN).state_at(ONE, t_s)


def test_load_steps_follow_the_load_alone_for_ever():
    usage, steps = lived(TEN), [(3.0, 0.0)]
    for _ in range(4):
        steps.append(next_load(usage, 0, steps[-1][0]))

    assert steps[1:] == [(4.0, 0.5), (12.0, 0.0), (14.0, 0.5), (22.0, 0.0)]


def test_a_load_that_never_changes_is_one_step():
    assert next_load(lived(None), 0, 3.0) == (np.inf, 0.0)


def test_without_a_trace_everybody_is_always_on():
    usage = lived(None, 3)
    states = usage.state_at(np.arange(3), 1e9)

    assert states.online.all()
    assert states.charging.all()
    assert states.unmetered.all()
    assert not states.load.any()
    assert usage.steps.next_change_after(np.arange(3), 0.0).tolist() == [np.inf] * 3
    assert usage.charging_schedule().seconds_true(ONE, 1.25, 3.5).tolist() == [2.25]


def test_only_clients_with_people_live_through_the_trace():
    usage = build_usage(TEN, seed=1, has_people=np.array([True, False]), shift="none")

    assert usage.user.tolist() == [0, -1]
    assert usage.state_at(np.arange(2), 5.0).online.tolist() == [False, True]
    assert usage.is_unmetered_at(np.arange(2), 5.0).tolist() == [False, True]


def test_a_clients_life_does_not_depend_on_the_size_of_the_fleet():
    few, many = lived(days(7, 5), 50, shift="days"), lived(days(7, 5), 9000, shift="days")

    assert many.user[:50].tolist() == few.user.tolist()
    assert many.shift_s[:50].tolist() == few.shift_s.tolist()


def test_a_clients_life_does_not_depend_on_who_else_has_people():
    has_people = np.arange(40) % 3 == 0
    some = build_usage(days(7, 5), seed=1, has_people=has_people, shift="days")
    everybody = lived(days(7, 5), 40, shift="days")

    assert some.user[has_people].tolist() == everybody.user[has_people].tolist()
    assert some.shift_s[has_people].tolist() == everybody.shift_s[has_people].tolist()


def test_every_user_is_dealt_once_before_any_is_dealt_again():
    user = lived(days(7, 5), 21).user

    assert [sorted(user[lap : lap + 7].tolist()) for lap in (0, 7, 14)] == [list(range(7))] * 3
    assert user[:7].tolist() != user[7:14].tolist()


def test_another_seed_deals_other_lives():
    one, two = (lived(days(50, 5), 50, seed=seed, shift="days") for seed in (1, 2))

    assert one.user.tolist() != two.user.tolist()
    assert one.shift_s.tolist() != two.shift_s.tolist()


def test_shifts_are_whole_days_of_the_record_and_use_all_of_them():
    shift_s = lived(days(3, 5), 300, shift="days").shift_s

    assert sorted(set(shift_s.tolist())) == [0, DAY_S, 2 * DAY_S, 3 * DAY_S, 4 * DAY_S]


def test_a_shifted_client_begins_so_many_days_into_the_record():
    usage = lived(days(1, 2), 20, shift="days")
    online = usage.state_at(np.arange(20), 0.0).online

    assert online.tolist() == (usage.shift_s == 0).tolist()
    assert 0 < online.sum() < 20


@pytest.mark.parametrize(("trace", "shift"), [(days(3, 5), "none"), (TEN, "days")])
def test_without_shifts_and_of_less_than_a_day_records_begin_at_their_beginning(trace, shift):
    assert not lived(trace, 20, shift=shift).shift_s.any()


def test_virtual_time_may_begin_in_the_middle_of_the_records():
    whole = lived(TEN, 1)
    late = build_usage(TEN, seed=1, has_people=np.ones(1, dtype=bool), shift="none", starts_at_s=7)
    client = np.zeros(1, dtype=np.int64)

    for t_s in range(25):
        now, then = late.state_at(client, t_s), whole.state_at(client, t_s + 7)
        assert (now.online, now.load) == (then.online, then.load)


@pytest.mark.parametrize(
    ("charging", "unmetered", "true_s"),
    [(False, False, 8.0), (True, False, 4.0), (False, True, 4.0), (True, True, 4.0)],
)
def test_eligible_is_online_and_what_the_rule_asks_for(charging, unmetered, true_s):
    schedule = lived(TEN).eligible_schedule(charging, unmetered)

    assert schedule.seconds_true(ONE, 0.0, 10.0).tolist() == [true_s]


def test_who_charges_while_offline_charges_but_is_not_eligible():
    rows = [(0, False, True, True, 0.0), (4, True, False, True, 0.0)]
    usage = lived(trace_of((10, rows)))

    assert usage.charging_schedule().seconds_true(ONE, 0.0, 10.0).tolist() == [4.0]
    assert usage.eligible_schedule(True, False).seconds_true(ONE, 0.0, 10.0).tolist() == [0.0]


def test_next_true_is_now_or_the_next_beginning_or_never():
    usage = lived(TEN)
    schedule = usage.eligible_schedule(True, True)
    clients = np.zeros(4, dtype=int)

    assert schedule.next_true_after(clients, np.array([1.0, 6.0, 8.5, 10.0])).tolist() == [
        6.0,
        6.0,
        8.5,
        16.0,
    ]
    never = lived(trace_of((10, [(0, False, True, True, 0.0)]))).eligible_schedule(False, False)
    assert never.next_true_after(ONE, 3.0).tolist() == [np.inf]


def test_seconds_true_counts_parts_of_seconds_and_whole_laps():
    schedule = lived(TEN).charging_schedule()

    # Half of [6, 7) at first, three whole laps of 4 s, then [6, 6.25) of the fourth.
    assert schedule.seconds_true(ONE, 6.5, 46.25).tolist() == [3.5 + 3 * 4 + 0.25]


def test_an_interval_that_ends_before_it_begins_is_refused():
    schedule = lived(TEN).charging_schedule()

    with pytest.raises(ValueError, match="must not end before it begins"):
        schedule.seconds_true(ONE, 2.0, 1.0)


def test_answers_to_no_client_are_empty():
    usage, nobody = lived(TEN), np.empty(0, dtype=np.int64)

    assert usage.state_at(nobody, 1.0).online.size == 0
    assert usage.charging_schedule().seconds_true(nobody, 0.0, 1.0).size == 0


def test_usage_cannot_be_written_to():
    usage = lived(TEN)

    with pytest.raises(ValueError, match="read-only"):
        usage.user[0] = 3
    with pytest.raises(ValueError, match="read-only"):
        usage.charging_schedule().is_true[0] = True


@pytest.mark.parametrize("wrong", [{"shift": "hours"}, {"unknown": "drop"}, {"kinds": []}])
def test_settings_refuse_what_is_not_offered(wrong):
    with pytest.raises(ValidationError):
        UsageSettings.model_validate(wrong)
