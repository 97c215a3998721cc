import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fleetsim.engine.event_order import Clock, Rank, priority
from fleetsim.errors import SimulationError

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
