"""Timelines of transfers that share links, computed together from event to event.

Between two events every flow has one rate. At each event (a flow begins or ends, its own channel
changes, its client is lost) the links are divided anew, max-min fair; a flow whose rate does not
change continues in the same segment. Time is not discretised: segments are exact to rounding.

For n flows of b blocks each there are about 2 n + b events of O(n) each, and one segment for each
change of a rate: up to n (n + b) if a link is always full, and n b if none is.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fleetsim.contracts import FloatArray, IntArray
from fleetsim.fleet.network.radio_power import RadioPower
from fleetsim.fleet.network.transfer import Demands
from fleetsim.fleet.timeline import TimelineGroups, Timelines

_LEAST_WIDTH = 4
"""Segments of the shortest timelines; longer ones are grouped by powers of two."""
_ROUNDINGS = 4.0
"""Ends within this many spacings of floats are one event."""


FairRates = Callable[[FloatArray, FloatArray], FloatArray]
"""Function that returns rates of all flows [n]. Arguments: demand of each [n], 0 if it is not
active, and the rate that its channel would carry without modem and transport [n]."""


@dataclass(frozen=True, slots=True, eq=False)
class Flows:
    """n transfers that may share links; all arrays [n]."""

    start_s: FloatArray
    bit: FloatArray
    """Bits of each, > 0."""
    give_up_at_s: FloatArray
    """Moment at which each is given up, after its start."""
    lost_at_s: FloatArray
    """Moment at which its client is lost, which frees its share of the links; inf: never."""
    power: RadioPower


def lay_out_flows(flows: Flows, demands: Demands, fair_rates: FairRates) -> TimelineGroups:
    """Lay out transfers that share links, as `Channel.transfers` does.

    The timeline of a flow whose client is lost continues at its last rate. After the loss it is
    only a forecast, and takes no share of a link.
    """
    state = _State(flows, demands)
    order = np.argsort(flows.start_s, kind="stable")
    starts_s = np.append(flows.start_s[order], np.inf)
    num_begun, now_s = 0, float(starts_s[0])
    while now_s < np.inf:
        state.end(now_s)
        now_begun = int(np.searchsorted(starts_s[:-1], now_s, side="right"))
        state.begin(order[num_begun:now_begun], now_s)
        num_begun = now_begun
        state.change_demands(now_s)
        state.set_rates(fair_rates(state.demand_bit_per_s, state.channel_bit_per_s), now_s)
        now_s = min(float(starts_s[num_begun]), state.next_event_s())
    return state.timelines()


class _State:
    """State of flows between two events; arrays [n], with neutral values for inactive flows."""

    def __init__(self, flows: Flows, demands: Demands) -> None:
        size = flows.bit.size
        self._flows, self._demands = flows, demands
        self._is_on = np.zeros(size, dtype=np.bool_)
        self.demand_bit_per_s: FloatArray = np.zeros(size)
        self.channel_bit_per_s: FloatArray = np.zeros(size)
        self._rate_bit_per_s = np.zeros(size)
        self._since_s = flows.start_s.copy()
        """Begin of the present segment of each."""
        self._done_bit = np.zeros(size)
        """Bits that each had moved by then."""
        self._full_at_s = np.full(size, np.inf)
        """Moment at which each has moved all its bits, at its present rate."""
        self._leaves_at_s = np.full(size, np.inf)
        self._changes_at_s = np.full(size, np.inf)
        """Next change of the demand of each."""
        self._steps = demands(np.arange(size), flows.start_s)
        self._num_rates = _num_rates(self._steps.edges_s)
        """Number of these rates that each row uses."""
        self._column = np.zeros(size, dtype=np.int64)
        """Index of the present rate of each."""
        self._end_s = np.zeros(size)
        self._end_bit = np.zeros(size)
        self._is_complete = np.zeros(size, dtype=np.bool_)
        self._segments: list[tuple[IntArray, FloatArray, FloatArray, FloatArray]] = []
        """In the order of time: flows, begin of their segments, bits moved by then, rates."""

    def next_event_s(self) -> float:
        """Return the next moment at which an active flow ends or its channel changes, or inf."""
        return float(min(self._full_at_s.min(), self._leaves_at_s.min(), self._changes_at_s.min()))

    def begin(self, rows: IntArray, now_s: float) -> None:
        """Begin these flows; one whose client is lost at that moment never gets a share."""
        if rows.size == 0:
            return
        flows = self._flows
        is_lost = flows.lost_at_s[rows] <= now_s
        if is_lost.any():
            lost, rows = rows[is_lost], rows[~is_lost]
            self._end_s[lost] = flows.give_up_at_s[lost]
            nothing = np.zeros(lost.size)
            self._segments.append((lost, np.full(lost.size, now_s), nothing, nothing))
        self._is_on[rows] = True
        self._rate_bit_per_s[rows] = np.nan  # differs from every rate that they can get
        self._leaves_at_s[rows] = np.minimum(flows.lost_at_s[rows], flows.give_up_at_s[rows])
        self._use_step(rows, np.zeros(rows.size, dtype=np.int64))

    def change_demands(self, now_s: float) -> None:
        """Take the demands that hold from now on."""
        rows = (self._changes_at_s <= now_s).nonzero()[0]
        if rows.size == 0:
            return
        column = self._column[rows] + 1
        if (column == self._num_rates[rows]).any():
            # For all flows at once: otherwise each would need a call at its own moment.
            rows = self._is_on.nonzero()[0]
            more = self._demands(rows, np.full(rows.size, now_s))
            for all_rows, new in zip(self._steps, more, strict=True):
                all_rows[rows] = new
            self._num_rates[rows] = _num_rates(more.edges_s)
            column = np.zeros(rows.size, dtype=np.int64)
        self._use_step(rows, column)

    def _use_step(self, rows: IntArray, column: IntArray) -> None:
        """Set the demands of these flows to their steps in these columns."""
        self._column[rows] = column
        self.demand_bit_per_s[rows] = self._steps.rates_bit_per_s[rows, column]
        self.channel_bit_per_s[rows] = self._steps.channel_bit_per_s[rows, column]
        self._changes_at_s[rows] = self._steps.edges_s[rows, column + 1]

    def set_rates(self, rate_bit_per_s: FloatArray, now_s: float) -> None:
        """Divide the links like this from now on."""
        rows = (self._is_on & (rate_bit_per_s != self._rate_bit_per_s)).nonzero()[0]
        if rows.size == 0:
            return
        since_s, bit = self._since_s[rows], self._flows.bit[rows]
        done_bit = self._done_bit[rows]
        is_new = since_s == now_s
        moved_bit = self._rate_bit_per_s[rows] * (now_s - since_s)
        done_bit = np.where(is_new, done_bit, np.minimum(done_bit + moved_bit, bit))
        rate = rate_bit_per_s[rows]
        with np.errstate(divide="ignore", over="ignore"):  # a rate may be 0
            full_at_s = now_s + (bit - done_bit) / rate
        # Rounding must not empty a segment.
        full_at_s = np.where(rate > 0.0, np.maximum(full_at_s, np.nextafter(now_s, np.inf)), np.inf)
        self._segments.append((rows, np.full(rows.size, now_s), done_bit, rate))
        self._since_s[rows], self._done_bit[rows] = now_s, done_bit
        self._rate_bit_per_s[rows], self._full_at_s[rows] = rate, full_at_s

    def end(self, now_s: float) -> None:
        """End the flows that have moved all their bits, or whose client leaves."""
        is_over = self._full_at_s <= now_s + _ROUNDINGS * np.spacing(now_s)
        is_over |= self._leaves_at_s <= now_s
        rows = is_over.nonzero()[0]
        if rows.size == 0:
            return
        full_at_s, give_up_at_s = self._full_at_s[rows], self._flows.give_up_at_s[rows]
        is_complete, bit = full_at_s <= give_up_at_s, self._flows.bit[rows]
        moved_bit = self._rate_bit_per_s[rows] * (give_up_at_s - self._since_s[rows])
        self._end_s[rows] = np.minimum(full_at_s, give_up_at_s)
        self._end_bit[rows] = np.where(
            is_complete, bit, np.minimum(self._done_bit[rows] + moved_bit, bit)
        )
        self._is_complete[rows] = is_complete
        self._is_on[rows] = False
        self.demand_bit_per_s[rows] = self._rate_bit_per_s[rows] = 0.0
        for moment_s in (self._full_at_s, self._leaves_at_s, self._changes_at_s):
            moment_s[rows] = np.inf

    def timelines(self) -> TimelineGroups:
        """Return the timelines of all flows, after the last has ended."""
        row, *columns = map(np.concatenate, zip(*self._segments, strict=True))
        order = np.argsort(row, kind="stable")
        begin_s, done_bit, rate_bit_per_s = (column[order] for column in columns)
        num = np.bincount(row, minlength=self._is_on.size)
        first = np.cumsum(num) - num
        laid_out, width, is_left = [], _LEAST_WIDTH, np.ones(num.size, dtype=np.bool_)
        while is_left.any():
            rows = (is_left & (num <= width)).nonzero()[0]
            if rows.size:
                column = np.arange(int(num[rows].max()) + 1)
                is_used = column < num[rows, np.newaxis]
                place = np.minimum(first[rows, np.newaxis] + column, begin_s.size - 1)
                power_w = self._flows.power.take(rows).at(rate_bit_per_s[place[:, :-1]])
                timelines = Timelines(
                    edges_s=np.where(is_used, begin_s[place], self._end_s[rows, np.newaxis]),
                    progress=np.where(is_used, done_bit[place], self._end_bit[rows, np.newaxis]),
                    power_w=np.where(is_used[:, :-1], power_w, 0.0),
                    num_segments=num[rows],
                    is_complete=self._is_complete[rows],
                )
                laid_out.append((rows, timelines))
                is_left[rows] = False
            width *= 2
        return laid_out


def _num_rates(edges_s: FloatArray) -> IntArray:
    """Count the rates between edges [n, m+1] before the first that repeats the last one [n]."""
    num: IntArray = (edges_s[:, :-1] < edges_s[:, -1:]).sum(axis=1)
    return num
