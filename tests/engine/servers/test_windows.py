"""Windows of a semi-synchronous server end at whole multiples of their length, each once."""

from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fleetsim.engine.servers.buffered import window_end_s
from fleetsim.errors import SimulationError

lengths_s = st.floats(1e-6, 1e6)


@given(lengths_s, st.integers(0, 300))
@example(3.3, 0)  # floor(3 * 3.3 / 3.3) + 1 is 3
@example(0.1, 0)
def test_window_after_window_ends_at_the_next_multiple(length_s, first):
    at_s = first * length_s
    for number in range(first + 1, first + 101):
        ends_s = window_end_s(at_s, length_s, is_after=True)

        assert ends_s == number * length_s
        assert ends_s > at_s
        assert window_end_s(ends_s, length_s, is_after=False) == ends_s
        at_s = ends_s


@given(lengths_s, st.floats(0.0, 1e8), st.booleans())
def test_a_moment_lies_in_the_window_that_exact_arithmetic_gives(length_s, at_s, is_after):
    ends_s = window_end_s(at_s, length_s, is_after=is_after)
    before = round(Fraction(ends_s) / Fraction(length_s)) - 1

    assert ends_s >= at_s
    assert ends_s > at_s or not is_after
    assert (before + 1) * length_s == ends_s
    # The window before is over, or is none at all.
    assert before == 0 or before * length_s < at_s or (is_after and before * length_s == at_s)


@pytest.mark.parametrize("length_s", [1e-12, 5e-324])
def test_windows_that_no_clock_can_tell_apart_are_refused(length_s):
    with pytest.raises(SimulationError, match=r"make server\.window_s longer"):
        window_end_s(1e6, length_s, is_after=True)
