"""Ends of the windows of a semi-synchronous server: whole multiples of the window length.

Window k ends at k * length, computed as this one product (k = 1, 2, ...). The window that a moment
lies in is found from the moment alone, so a resumed run needs no counter.
"""

from __future__ import annotations

import math

from fleetsim.errors import SimulationError

_MAX_WINDOWS = 2**50
"""Up to here the quotient of moment and length is off by less than one window."""


def window_end_s(at_s: float, length_s: float, *, is_after: bool) -> float:
    """First end of a window of this length (> 0) at or after a moment (>= 0), never 0.

    Args:
        at_s: the moment.
        length_s: of every window.
        is_after: whether an end at that very moment does not count.

    Raises:
        SimulationError: there are too many windows up to the moment to tell them apart.

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
