"""Time zones of the clients.

A client whose clock is h hours ahead of virtual time follows its record h hours ahead: at virtual
second 0 (midnight, or `starts_at_s`) its own clock shows h.
"""

from typing import Annotated

import numpy as np
from pydantic import Field

from fleetsim import rng
from fleetsim.contracts import IntArray
from fleetsim.fleet.traces.usage.records import HOUR_S, MOST_UTC_OFFSET_H
from fleetsim.settings import Settings


class TimeZoneSettings(Settings):
    """A time zone, and its share of the clients."""

    utc_offset_h: Annotated[float, Field(ge=-MOST_UTC_OFFSET_H, le=MOST_UTC_OFFSET_H)]
    """Hours by which local clocks are ahead of virtual time."""
    weight: Annotated[float, Field(ge=1e-9, le=1e9)]
    """Share of the clients, relative to the weights of the other zones."""


def assign_time_zones(zones: tuple[TimeZoneSettings, ...], *, seed: int, size: int) -> IntArray:
    """Return the seconds by which each client is ahead of virtual time [N]; 0 without zones.

    The zone of client i does not depend on the number of clients.
    """
    if not zones:
        return np.zeros(size, dtype=np.int64)
    share = np.cumsum([zone.weight for zone in zones])
    offset_s = np.array([round(zone.utc_offset_h * HOUR_S) for zone in zones], dtype=np.int64)
    draw = rng.stream(seed, "usage/time-zone").random(size) * share[-1]
    ahead_s: IntArray = offset_s[np.searchsorted(share, draw, side="right")]
    return ahead_s
