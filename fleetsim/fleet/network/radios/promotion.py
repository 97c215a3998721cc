"""What it takes to wake a radio: it draws power for a while before the first bit moves.

A cellular radio that is idle is first promoted to the connected state (Huang et al., "A close
examination of performance and power characteristics of 4G LTE networks", MobiSys'12). A transfer
that begins inside the tail of the same radio finds it connected and begins at once.
"""

from __future__ import annotations

import numpy as np

from fleetsim.contracts import FloatArray, IntArray
from fleetsim.fleet.timeline import TimelineGroups, Timelines


def with_promotions(
    rows: IntArray, timelines: Timelines, start_s: FloatArray, promotion_w: FloatArray
) -> TimelineGroups:
    """Transfers that begin at `start_s`, where some were laid out from a later moment on.

    Between the two the radio is promoted; nothing moves.

    Args:
        rows: which transfers these are [k].
        timelines: the transfers from the end of the promotion on.
        start_s: when each begins; where that is when it is laid out from, its radio is awake [k].
        promotion_w: power of each promotion [k].

    Returns:
        (rows, their transfers): those whose radio is promoted apart from the others.
    """
    is_awake = timelines.start_s <= start_s
    parts = []
    if is_awake.any():
        parts.append((rows[is_awake], timelines.take(np.flatnonzero(is_awake))))
    if not is_awake.all():
        asleep = np.flatnonzero(~is_awake)
        later, nothing = timelines.take(asleep), np.zeros((asleep.size, 1))
        whole = Timelines(
            edges_s=np.hstack([start_s[asleep, np.newaxis], later.edges_s]),
            progress=np.hstack([nothing, later.progress]),
            power_w=np.hstack([promotion_w[asleep, np.newaxis], later.power_w]),
            num_segments=later.num_segments + 1,
            is_complete=later.is_complete,
        )
        parts.append((rows[asleep], whole))
    return parts
