"""Power of a radio that is on the air for the share r / full of a transfer at rate r.

On the air it draws `busy_w`, between the packets `connected_w`:

    P(r) = connected_w + r * (busy_w - connected_w) / full

Sources: docs/models/energy.md (Radios).
"""

from __future__ import annotations


def duty_cycle(connected_w: float, busy_w: float, full_bit_per_s: float) -> tuple[float, float]:
    """Return the power of a transfer in watts, and the additional joules per bit.

    If `busy_w` is below `connected_w`, the radio draws `busy_w` at any rate.

    Args:
        connected_w: power between packets.
        busy_w: power on the air.
        full_bit_per_s: rate at which it is on the air all the time, > 0.

    >>> duty_cycle(0.1, 1.1, 50e6)
    (0.1, 2e-08)
    """
    between_w = min(connected_w, busy_w)
    return between_w, (busy_w - between_w) / full_bit_per_s
