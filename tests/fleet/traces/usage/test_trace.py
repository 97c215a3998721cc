import numpy as np
import pytest

from fleetsim.errors import DataError
from fleetsim.fleet.traces.usage.trace import Trace, rotated, without_repeats


def make(**changed) -> Trace:
    """Two users: a changes at 0, 4, 6 of 10 s; b never changes in 5 s."""
    columns = {
        "name": "mine",
        "user_ids": ("a", "b"),
        "span_s": np.array([10, 5]),
        "offsets": np.array([0, 3, 4]),
        "times_s": np.array([0, 4, 6, 0]),
        "online": np.array([True, False, True, True]),
        "charging": np.array([False, False, True, False]),
        "unmetered": np.array([True, True, True, False]),
        "load": np.array([0.0, 0.25, 0.5, 0.0]),
    }
    return Trace(**(columns | changed))


def rows(trace: Trace) -> list[tuple[str, int, bool, float]]:
    user = np.repeat(trace.user_ids, np.diff(trace.offsets))
    columns = (user, trace.times_s, trace.online, trace.load)
    return list(zip(*(column.tolist() for column in columns), strict=True))


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"user_ids": ()}, "trace 'mine' is empty"),
        ({"user_ids": ("a", "a")}, "a user is named twice"),
        ({"load": np.zeros(3)}, "columns of different lengths"),
        ({"offsets": np.array([0, 4, 4])}, "user 'b' has no state at all"),
        ({"span_s": np.array([10, 0])}, "user 'b' has span_s = 0"),
        ({"times_s": np.array([0, 4, 6, 1])}, "user 'b', row 1 .* at second 1; it must be at 0"),
        ({"times_s": np.array([0, 6, 4, 0])}, "user 'a', row 3 .*: second 4 after 6; sort"),
        ({"times_s": np.array([0, 4, 4, 0])}, "user 'a', row 3 .*: a second state at second 4"),
        ({"times_s": np.array([0, 4.5, 6, 0])}, "times_s must be whole numbers, not float64"),
        ({"load": np.array([0, 1.0, 0, 0])}, r"user 'a', row 2 .*: load = 1.0 is outside \[0, 1\)"),
        ({"load": np.array([0, 0, 0, np.nan])}, r"user 'b', row 1 of the user: load = nan is"),
    ],
)
def test_a_broken_trace_is_refused_by_name_and_row(changed, says):
    with pytest.raises(DataError, match=says):
        make(**changed)


def test_repeated_states_are_joined_within_a_user_only():
    trace = make(
        online=np.ones(4, dtype=bool),
        charging=np.zeros(4, dtype=bool),
        unmetered=np.ones(4, dtype=bool),
        load=np.array([0.5, 0.5, 0.25, 0.25]),
    )

    assert rows(without_repeats(trace)) == [
        ("a", 0, True, 0.5),
        ("a", 6, True, 0.25),
        ("b", 0, True, 0.25),
    ]


def test_turning_a_record_brings_its_end_to_its_beginning():
    # a: load 0, .25, .5 from 0, 4, 6 of 10 s; 7 s later .25 begins at 11 = 1 and .5 at 13 = 3,
    # and second 0 is the old second 3.
    assert rows(rotated(make(), np.array([7, 0]))) == [
        ("a", 0, True, 0.0),
        ("a", 1, False, 0.25),
        ("a", 3, True, 0.5),
        ("a", 7, True, 0.0),
        ("b", 0, True, 0.0),
    ]


def test_turning_onto_a_change_splits_no_step_and_a_whole_span_changes_nothing():
    assert rows(rotated(make(), np.array([6, 12])))[:3] == [
        ("a", 0, False, 0.25),
        ("a", 2, True, 0.5),
        ("a", 6, True, 0.0),
    ]
    assert rows(rotated(make(), np.array([20, -5]))) == rows(make())
