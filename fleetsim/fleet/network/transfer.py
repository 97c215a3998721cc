"""Transfers of bits over rates that change from step to step, exact across edges."""

import math
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from fleetsim.contracts import FloatArray, IntArray
from fleetsim.fleet.network.direction import Direction
from fleetsim.fleet.network.radio_power import RadioPower
from fleetsim.fleet.network.transport import RateCaps, capped_steps
from fleetsim.fleet.timeline import TimelineGroups, Timelines

_LEAST_STEPS: Final = 4
_STEPS_AT_ONCE: Final = 1 << 18
"""Steps of several transfers that are laid out together."""


class RateSteps(NamedTuple):
    """Demands of k flows from some moments on: rates that their own channels allow."""

    edges_s: FloatArray
    """Edges around each moment and after it [k, m+1]; the last is inf if the rate never changes
    again. A row with fewer than m rates repeats its last edge."""
    rates_bit_per_s: FloatArray
    """Rates that modem and transport allow between the edges [k, m]."""
    channel_bit_per_s: FloatArray
    """Rates that the channel would carry without them [k, m], over the whole band of a cell;
    Shannon's if it has steps of modulation and coding."""


Demands = Callable[[IntArray, FloatArray], RateSteps]
"""Function that returns demands of flows (indices [k]) from moments [k] on; m is constant."""


class TransferRequests(NamedTuple):
    """n transfers that are to be laid out as timelines; all arrays [n]."""

    clients: IntArray
    direction: Direction
    start_s: FloatArray
    deadline_s: FloatArray
    """Moment at which each is given up."""
    bit: FloatArray
    """Bits of each, > 0."""
    power: RadioPower
    caps: RateCaps | None = None
    """Caps of the transport protocol after each start; None: no caps."""
    multiple: FloatArray | None = None
    """Factor on the rates of each one's link; None: 1 for all."""

    def bit_over_multiple(self, rows: IntArray) -> FloatArray:
        """Return the bits that some of them [k] would move meanwhile without the factor."""
        return self.bit[rows] if self.multiple is None else self.bit[rows] / self.multiple[rows]

    def limited(
        self, rows: IntArray, edges_s: FloatArray, rates_bit_per_s: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return edges [k, m+1] and rates [k, m] of some of them, from those of their links.

        Rates get their factor, and then the transport's caps.
        """
        if self.multiple is not None:
            rates_bit_per_s = rates_bit_per_s * self.multiple[rows, np.newaxis]
        if self.caps is None:
            return edges_s, rates_bit_per_s
        start_s, caps = self.start_s[rows], self.caps.take(rows)
        return capped_steps(edges_s, rates_bit_per_s, start_s, caps)[:2]

    def lay_out(
        self, rows: IntArray, edges_s: FloatArray, rates_bit_per_s: FloatArray
    ) -> Timelines:
        """Lay out some of them [k], from their first edges [k, m+1] on, at these rates [k, m].

        There is one segment for each rate. A row is incomplete if it has bits left at the last
        edge.
        """
        bit = self.bit[rows]
        progress = np.zeros(edges_s.shape)
        moved_bit = rates_bit_per_s * (edges_s[:, 1:] - edges_s[:, :-1])
        np.cumsum(moved_bit, axis=1, out=progress[:, 1:])
        is_complete = progress[:, -1] >= bit
        # The first edge at which all bits have moved, or the time is over.
        is_last = (progress >= bit[:, np.newaxis]) | (edges_s >= edges_s[:, -1:])
        last = is_last.argmax(axis=1)
        here, before = np.arange(last.size), last - 1
        begin_s = edges_s[here, before]
        with np.errstate(divide="ignore", over="ignore"):  # a block of rate 0 ends no transfer
            end_s = begin_s + (bit - progress[here, before]) / rates_bit_per_s[here, before]
        # Rounding must neither empty the last segment nor move its end out of its block.
        end_s = np.minimum(np.maximum(end_s, np.nextafter(begin_s, math.inf)), edges_s[here, last])
        end_s = np.where(is_complete, end_s, edges_s[:, -1])
        done_bit = np.where(is_complete, bit, progress[:, -1])
        num_edges = int(last.max()) + 1
        is_after = np.arange(num_edges) >= last[:, np.newaxis]
        power_w = self.power.take(rows).at(rates_bit_per_s[:, : num_edges - 1])
        return Timelines(
            edges_s=np.where(is_after, end_s[:, np.newaxis], edges_s[:, :num_edges]),
            progress=np.where(is_after, done_bit[:, np.newaxis], progress[:, :num_edges]),
            power_w=np.where(is_after[:, :-1], 0.0, power_w),
            num_segments=last,
            is_complete=is_complete,
        )


def lay_out_changing(
    requests: TransferRequests,
    rows: IntArray,
    num_steps: FloatArray,
    most_steps: IntArray,
    steps_of: Callable[[IntArray, int], tuple[FloatArray, FloatArray]],
) -> TimelineGroups:
    """Lay out transfers of some rows at rates [k] that change, those of similar lengths together.

    `steps_of` returns edges [n, m+1] and rates [n, m] of the first m steps of some of the rows. A
    transfer has at most `most_steps` [k] until its deadline, and needs about `num_steps` [k]; the
    result does not depend on this guess, because the same steps are added up in the same order.
    """
    width = 1 << np.ceil(np.log2(np.maximum(num_steps, _LEAST_STEPS))).astype(np.int64)
    is_waiting = np.ones(rows.size, dtype=np.bool_)
    laid_out: TimelineGroups = []
    while is_waiting.any():
        common = int(width[is_waiting].min())
        at = np.flatnonzero(is_waiting & (width == common))[: max(1, _STEPS_AT_ONCE // common)]
        edges_s, rates_bit_per_s = steps_of(at, common)
        chosen = rows[at]
        start_s, deadline_s = requests.start_s[chosen], requests.deadline_s[chosen]
        edges_s = edges_s.clip(start_s[:, np.newaxis], deadline_s[:, np.newaxis])
        limited = requests.limited(chosen, edges_s, rates_bit_per_s)
        timelines = requests.lay_out(chosen, *limited)
        is_through = timelines.is_complete | (most_steps[at] <= common)
        if not is_through.all():
            width[at[~is_through]] *= 2
            at, timelines = at[is_through], timelines.take(is_through)
        is_waiting[at] = False
        if at.size:
            laid_out.append((rows[at], timelines))
    return laid_out
