"""Which clients are lost in the middle of transfers that share links, and when.

Whoever is lost leaves its share to the others, who are through sooner, or draw more power and run
dry sooner: so when a battery meets its cut-off depends on who was lost before. But nothing depends
on what comes later. So in a layout that knows of the losses up to a moment, the first battery to
meet its cut-off after it does so at the right time, and that loss is known too: one layout per
battery that dies, plus one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fleetsim.contracts import FloatArray, IntArray
from fleetsim.engine.client_state import Standing
from fleetsim.fleet.timeline import Timelines

LaidOut = list[tuple[IntArray, Timelines]]
"""(rows, their transfers), as of `Channel.transfers`."""


def until_lost(
    lay_out: Callable[[FloatArray], LaidOut], standing: Standing, lost_at_s: FloatArray
) -> LaidOut:
    """Transfers of n tasks, laid out so that a client holds its share only until it is lost.

    Args:
        lay_out: lays the transfers out by when each client is lost [n].
        standing: how the clients stand before them [n].
        lost_at_s: when each client is lost for other reasons than its battery, or inf [n].
    """
    while True:
        laid_out = lay_out(lost_at_s)
        if standing.fleet.links is None or not standing.fleet.batteries.has_any:
            return laid_out
        empty_s = np.full(lost_at_s.size, np.inf)
        for at, timelines in laid_out:
            end_s = np.minimum(timelines.end_s, lost_at_s[at])
            spent_j = timelines.energy_until(end_s)
            at_risk = (~standing.take(at).is_safe(timelines, spent_j, end_s)).nonzero()[0]
            rows, end_s = at[at_risk], end_s[at_risk]
            _, met_s = standing.take(rows).drained(timelines.take(at_risk), spent_j[at_risk], end_s)
            empty_s[rows] = np.where(met_s < end_s, met_s, np.inf)
        first_s = empty_s.min()
        if first_s == np.inf:
            return laid_out
        lost_at_s = np.where(empty_s == first_s, first_s, lost_at_s)
