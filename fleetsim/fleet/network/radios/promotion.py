"""Promotion of an idle radio, before the first bit of a transfer.

An idle cellular radio is first promoted to the connected state, which takes time and power (Huang
et al., "A close examination of performance and power characteristics of 4G LTE networks",
MobiSys'12). A transfer that begins during the tail of the same radio needs no promotion.
"""

import numpy as np

from fleetsim.contracts import FloatArray, IntArray
from fleetsim.fleet.timeline import TimelineGroups, Timelines


def with_promotions(
    rows: IntArray, timelines: Timelines, start_s: FloatArray, promotion_w: FloatArray
) -> TimelineGroups:
    """Return transfers with the promotions of their radios, during which nothing moves.

    Args:
        rows: indices of the transfers [k].
        timelines: the transfers from the end of their promotions on.
        start_s: start of each [k]; equal to that of its timeline if its radio is awake.
        promotion_w: power of each promotion [k].

    Returns:
        Timelines with their rows: those with and those without a promotion apart.
    """
    is_awake = timelines.start_s <= start_s
    groups = []
    if is_awake.any():
        groups.append((rows[is_awake], timelines.take(np.flatnonzero(is_awake))))
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
        groups.append((rows[asleep], whole))
    return groups
