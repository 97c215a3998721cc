"""Availability after the wrap: equal to a second-by-second table, in any order, over ten laps."""

import itertools
from collections.abc import Sequence
from fractions import Fraction
from math import floor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetsim.fleet.traces.periodic import PeriodicSteps, Schedule
from fleetsim.fleet.traces.usage.trace import Trace
from fleetsim.fleet.usage.usage import build_usage
from tests.fleet.alone import next_load

NUM_LAPS = 10
MOST_SPAN_S = 30

# One record: its states second by second. The oracle looks them up; fleetsim gets the changes.
seconds = st.lists(
    st.tuples(st.booleans(), st.booleans(), st.booleans(), st.sampled_from([0.0, 0.25, 0.75])),
    min_size=1,
    max_size=MOST_SPAN_S,
)
times = st.lists(
    st.one_of(
        st.integers(-MOST_SPAN_S, NUM_LAPS * MOST_SPAN_S).map(float),
        st.floats(-MOST_SPAN_S, NUM_LAPS * MOST_SPAN_S),
        st.integers(0, NUM_LAPS * MOST_SPAN_S).map(lambda t: float(np.nextafter(t, -np.inf))),
    ),
    min_size=1,
    max_size=12,
)


def looked_up(table: Sequence[Any], shift_s: int, t_s: float):
    return table[(floor(Fraction(t_s)) + shift_s) % len(table)]


def searched(table: Sequence[Any], shift_s: int, t_s: float) -> float:
    """Return the first second after t with another value, searched second by second over a lap."""
    now = looked_up(table, shift_s, t_s)
    first = floor(Fraction(t_s)) + 1
    for second in range(first, first + len(table) + 1):
        if looked_up(table, shift_s, second) != now:
            return float(second)
    return np.inf


def counted(table: list[bool], shift_s: int, t0_s: float, t1_s: float) -> Fraction:
    """True seconds in [t0, t1), second by second."""
    begin, end = Fraction(t0_s), Fraction(t1_s)
    return sum(
        (
            min(Fraction(second + 1), end) - max(Fraction(second), begin)
            for second in range(floor(begin), floor(end) + 1)
            if looked_up(table, shift_s, second) and begin < second + 1 and second < end
        ),
        Fraction(0),
    )


def trace_from(tables: list[list[tuple[bool, bool, bool, float]]]) -> Trace:
    """Return a trace with a change each second, repeats included; joining them is tested too."""
    online, charging, unmetered, load = (
        np.array(column) for column in zip(*itertools.chain(*tables), strict=True)
    )
    return Trace(
        name="tables",
        user_ids=tuple(map(str, range(len(tables)))),
        span_s=np.array([len(table) for table in tables]),
        offsets=np.cumsum([0, *map(len, tables)]),
        times_s=np.concatenate([np.arange(len(table)) for table in tables]),
        online=online,
        charging=charging,
        unmetered=unmetered,
        load=load,
        ram_byte=np.zeros(load.size, dtype=np.int64),
    )


def schedule_from(tables: list[list[bool]], shifts_s: list[int]) -> Schedule:
    """Return the trace in which client i follows table i with shift i."""
    lengths = np.array([len(table) for table in tables])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    times_s = np.concatenate([np.arange(length) for length in lengths])
    is_true = np.concatenate([np.array(table) for table in tables])
    row = np.arange(len(tables))
    steps, kept = PeriodicSteps.merged(
        row, np.array(shifts_s), lengths, offsets, times_s, (is_true,)
    )
    return Schedule.of(steps, is_true[kept])


@settings(max_examples=40)  # each asks up to 36 queries twice
@given(
    lives=st.lists(
        st.tuples(seconds, st.integers(-2 * MOST_SPAN_S, 3 * MOST_SPAN_S)), min_size=1, max_size=3
    ),
    asked=times,
    data=st.data(),
)
def test_states_and_next_changes_equal_the_table_whatever_the_order_and_the_shift(
    lives, asked, data
):
    """Queries ahead and back, single and batched, equal the table for each shift."""
    tables, shifts_s = (list(column) for column in zip(*lives, strict=True))
    usage = build_usage(
        trace_from(tables),
        seed=1,
        has_people=np.ones(len(tables), dtype=bool),
        shift="none",
        starts_at_s=np.array(shifts_s),
    )
    queries = [(client, t_s) for client in range(len(tables)) for t_s in asked]
    clients, times_s = (np.array(column) for column in zip(*queries, strict=True))
    lived = [(tables[usage.user[client]], shifts_s[client], t_s) for client, t_s in queries]
    expected = [looked_up(*at) for at in lived]
    states = usage.state_at(clients, times_s)
    changes_s = usage.steps.next_change_after(clients, times_s)

    rows = list(zip(states.online, states.charging, states.unmetered, states.load, strict=True))
    assert rows == expected
    assert changes_s.tolist() == [searched(*at) for at in lived]
    for i in data.draw(st.permutations(range(len(queries)))):
        (client, t_s), (table, shift_s, _) = queries[i], lived[i]
        assert usage.state_at(clients[[i]], times_s[[i]]).load[0] == expected[i][3]
        assert usage.is_unmetered_at(clients[[i]], t_s)[0] == expected[i][2]
        until_s, load = next_load(usage, client, t_s)
        assert load == expected[i][3]
        assert until_s == searched([second[3] for second in table], shift_s, t_s)


@pytest.mark.slow
@given(
    lives=st.lists(
        st.tuples(
            st.lists(st.booleans(), min_size=1, max_size=MOST_SPAN_S),
            st.integers(0, 3 * MOST_SPAN_S),
        ),
        min_size=1,
        max_size=3,
    ),
    asked=times,
)
def test_a_schedule_equals_the_table_for_any_shift_and_order(lives, asked):
    tables, shifts_s = zip(*lives, strict=True)
    schedule = schedule_from(list(tables), list(shifts_s))
    for t_s in asked:
        clients = np.arange(len(lives))[::-1]
        is_at = schedule.is_at(clients, t_s)
        change_s = schedule.next_change_after(clients, t_s)
        true_s = schedule.next_true_after(clients, t_s)
        for at, client in enumerate(clients.tolist()):
            now = looked_up(tables[client], shifts_s[client], t_s)
            change = searched(tables[client], shifts_s[client], t_s)

            assert is_at[at] == schedule.is_at_one(client, t_s) == now
            assert change_s[at] == schedule.next_change_after_one(client, t_s) == change
            soonest = t_s if now else change
            assert true_s[at] == soonest


@pytest.mark.slow
@given(
    table=st.lists(st.booleans(), min_size=1, max_size=MOST_SPAN_S),
    shift_s=st.integers(0, 3 * MOST_SPAN_S),
    asked=times,
)
def test_seconds_true_equal_the_count(table, shift_s, asked):
    schedule = schedule_from([table], [shift_s])
    for t0_s, t1_s in itertools.pairwise(asked):
        begin_s, end_s = min(t0_s, t1_s), max(t0_s, t1_s)
        exact_s = counted(table, shift_s, begin_s, end_s)
        seconds_true = schedule.seconds_true(np.zeros(1, dtype=int), begin_s, end_s)[0]

        assert abs(Fraction(float(seconds_true)) - exact_s) <= Fraction(1, 2**44)


@given(
    table=st.lists(st.booleans(), min_size=1, max_size=MOST_SPAN_S),
    lap=st.integers(0, 10**9),
    second=st.integers(0, MOST_SPAN_S),
)
def test_a_billion_laps_later_it_is_still_exact(table, lap, second):
    schedule = schedule_from([table], [0])
    t_s = float(lap * len(table) + second)
    per_lap_s, rest_s = sum(table), counted(table, 0, 0.0, float(second))

    assert schedule.is_at_one(0, t_s) == table[second % len(table)]
    assert schedule.seconds_true(np.zeros(1, dtype=int), 0.0, t_s)[0] == lap * per_lap_s + rest_s
