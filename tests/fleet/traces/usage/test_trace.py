import numpy as np
import pytest

from fleetsim.errors import DataError
from fleetsim.fleet.traces.usage.trace import Trace


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
