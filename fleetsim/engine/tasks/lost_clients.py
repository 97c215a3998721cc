"""Losses of clients during transfers that share links.

A lost client leaves its share to the others, which finish sooner, or draw more power and reach
their cut-off level sooner. So the moment of a loss depends on earlier losses, but never on later
ones. Given all losses up to a moment, the first battery that meets its cut-off level afterwards
does so at the right time. This needs one timeline per battery that fails, plus one.
"""

from collections.abc import Callable

import numpy as np

from fleetsim.contracts import FloatArray, IntArray
from fleetsim.engine.client_state import ClientState
from fleetsim.fleet.timeline import Timelines

TransferTimelines = list[tuple[IntArray, Timelines]]
"""Pairs of rows and the timelines of their transfers, from `Channel.transfers`."""


def until_lost(
    lay_out: Callable[[FloatArray], TransferTimelines], state: ClientState, lost_at_s: FloatArray
) -> TransferTimelines:
    """Return the transfers of n tasks in which a client holds its share only until it is lost.

    `lay_out` gives the transfers for the moments at which clients are lost [n]. They are lost at
    `lost_at_s` [n], or inf, but for their batteries, whose state is that before the transfers.
    """
    while True:
        laid_out = lay_out(lost_at_s)
        if state.fleet.links is None or not state.fleet.batteries.has_any:
            return laid_out
        empty_s = np.full(lost_at_s.size, np.inf)
        for at, timelines in laid_out:
            end_s = np.minimum(timelines.end_s, lost_at_s[at])
            spent_j = timelines.energy_until(end_s)
            at_risk = (~state.take(at).is_safe(timelines, spent_j, end_s)).nonzero()[0]
            rows, end_s = at[at_risk], end_s[at_risk]
            _, met_s = state.take(rows).drained(timelines.take(at_risk), spent_j[at_risk], end_s)
            empty_s[rows] = np.where(met_s < end_s, met_s, np.inf)
        first_s = empty_s.min()
        if first_s == np.inf:
            return laid_out
        lost_at_s = np.where(empty_s == first_s, first_s, lost_at_s)
