"""Ends of the windows of a semi-synchronous server: whole multiples of the window length.

Window k ends at k * length, computed as this one product (k = 1, 2, ...). The window of a moment
follows from the moment alone, so a resumed run needs no counter.
"""

from __future__ import annotations

import math

from fleetsim.errors import SimulationError

_MAX_WINDOWS = 2**50
"""Largest quotient of moment and length whose error is below one window."""


def window_end_s(at_s: float, length_s: float, *, is_after: bool) -> float:
    """Return the first end of a window at or after a moment (>= 0), never 0.

    With `is_after` an end at the moment itself does not count.

    Raises:
        SimulationError: too many windows lie before the moment for their ends to differ.

    >>> 9 * 3.3  # and floor(9 * 3.3 / 3.3) + 1 is 9 again
    29.7
    >>> window_end_s(9 * 3.3, 3.3, is_after=True)
    33.0
    >>> window_end_s(9 * 3.3, 3.3, is_after=False)
    29.7
    """
    if not at_s / length_s < _MAX_WINDOWS:
        raise SimulationError(
            f"windows of {length_s:g} s cannot be told apart any more; make server.window_s longer",
            time_s=at_s,
        )
    # The quotient is rounded: begin one window early and compare the products themselves.
    number = max(1, math.floor(at_s / length_s) - 1)
    while number * length_s < at_s or (is_after and number * length_s == at_s):
        number += 1
    return number * length_s
