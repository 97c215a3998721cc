"""Power of a radio that is on the air for a share of the time.

A transfer at rate r over a link that carries `full` while it is on the air keeps the radio on the
air for the share r / full of the time (a PHY of fixed rate and packets spread over the transfer).
On the air it draws `busy_w`, between the packets `connected_w`:

    P(r) = connected_w * (1 - r / full) + busy_w * r / full
         = connected_w + r * (busy_w - connected_w) / full

which is affine in r. Android computes the energy of its Wi-Fi controller by the same sum, from
idle, receive and transmit times with a current each (aosp-mirror/platform_frameworks_base@083e1d9,
core/java/com/android/internal/os/WifiPowerCalculator.java), with the times taken from the rate.
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
