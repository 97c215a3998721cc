"""How bits move over rates that change from one block of time to the next, exact across edges."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from fleetsim.contracts import BoolArray, FloatArray, IntArray
from fleetsim.fleet.network.direction import ROW, Direction
from fleetsim.fleet.network.radios.power import RadioPower
from fleetsim.fleet.network.transport import RateCaps, capped
from fleetsim.fleet.network.wireless.cell import Cell
from fleetsim.fleet.timeline import Timelines

_FIRST_BLOCKS: Final = 4
"""Blocks that are laid out beyond those that a transfer needs at 1.5 times its mean rate."""
_BLOCKS_AT_ONCE: Final = 1 << 18
"""Blocks of several transfers that are laid out together."""

LaidOut = list[tuple[IntArray, Timelines]]
"""(rows of what was asked for, their transfers): transfers of similar lengths together."""


class Asked(NamedTuple):
    """n transfers that are to be laid out."""

    clients: IntArray
    """Who transfers [n]."""
    direction: Direction
    start_s: FloatArray
    """When each begins [n]."""
    deadline_s: FloatArray
    """When each is given up [n]."""
    bit: FloatArray
    """What each moves, > 0 [n]."""
    power: RadioPower
    """Power of each client's radio in this direction [n]."""
    caps: RateCaps | None = None
    """What the transport protocol allows after each start [n]; None: all that the channel does."""

    def limited(
        self, rows: IntArray, edges_s: FloatArray, rates_bit_per_s: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Edges [k, m+1] and rates [k, m] of some of them under what the transport allows."""
        if self.caps is None:
            return edges_s, rates_bit_per_s
        return capped(edges_s, rates_bit_per_s, self.start_s[rows], self.caps.take(rows))

    def lay_out(
        self, rows: IntArray, edges_s: FloatArray, rates_bit_per_s: FloatArray
    ) -> Timelines:
        """Some of them [k], from their first edges [k, m+1] on, at the rates between [k, m].

        One segment per rate that a transfer meets. A row is incomplete if its bits are not through
        by the last edge.
        """
        bit = self.bit[rows]
        progress = np.zeros(edges_s.shape)
        moved_bit = rates_bit_per_s * (edges_s[:, 1:] - edges_s[:, :-1])
        np.cumsum(moved_bit, axis=1, out=progress[:, 1:])
        is_complete = progress[:, -1] >= bit
        # The first edge by which every bit is through, or by which time is up.
        is_last = (progress >= bit[:, np.newaxis]) | (edges_s >= edges_s[:, -1:])
        last = is_last.argmax(axis=1)
        here, before = np.arange(last.size), last - 1
        begin_s = edges_s[here, before]
        with np.errstate(divide="ignore", over="ignore"):  # a silent block ends no transfer
            end_s = begin_s + (bit - progress[here, before]) / rates_bit_per_s[here, before]
        # Rounding must neither empty the last segment nor push its end out of its block.
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


def lay_out_steady(asked: Asked, rows: IntArray, rate_bit_per_s: FloatArray) -> LaidOut:
    """Transfers of some rows at rates [k] that never change."""
    edges_s = np.array([asked.start_s[rows], asked.deadline_s[rows]]).T
    limited = asked.limited(rows, edges_s, rate_bit_per_s[:, np.newaxis])
    return [(rows, asked.lay_out(rows, *limited))]


def lay_out_fading(asked: Asked, fades: BoolArray, cell: Cell) -> LaidOut:
    """Transfers of those rows [n] that fade, over the blocks of a cell."""
    block_s = cell.block_s
    first_block = cell.blocks_at(asked.start_s)
    max_blocks = cell.blocks_at(np.nextafter(asked.deadline_s, 0.0)) - first_block + 1
    # The result does not depend on this guess: gains are addressed, and cumsum adds in order.
    mean_snr = cell.snr[ROW[asked.direction], asked.clients]
    best_bit_per_s = cell.modem.best_bit_per_s(asked.direction, mean_snr)
    mean_bit = cell.modem.limited(asked.direction, best_bit_per_s) * block_s
    with np.errstate(divide="ignore", over="ignore"):
        num_blocks = np.minimum(max_blocks, _FIRST_BLOCKS + 1.5 * asked.bit / mean_bit)
    laid_out: LaidOut = []
    is_waiting = fades.copy()
    width = _FIRST_BLOCKS
    while is_waiting.any():
        rows = (is_waiting & (num_blocks <= width)).nonzero()[0]
        rows = rows[: max(1, _BLOCKS_AT_ONCE // width)]
        if rows.size == 0:
            width *= 2
            continue
        edges_s = block_s * (first_block[rows, np.newaxis] + np.arange(width + 1.0))
        edges_s = np.maximum(edges_s, asked.start_s[rows, np.newaxis])
        edges_s = np.minimum(edges_s, asked.deadline_s[rows, np.newaxis])
        rates_bit_per_s = cell.rates_bit_per_s(
            asked.clients[rows], asked.direction, first_block[rows], width
        )
        timelines = asked.lay_out(rows, *asked.limited(rows, edges_s, rates_bit_per_s))
        is_through = timelines.is_complete | (max_blocks[rows] <= width)
        if not is_through.all():
            num_blocks[rows[~is_through]] = 2 * width
            timelines, rows = timelines.take(is_through.nonzero()[0]), rows[is_through]
        is_waiting[rows] = False
        if rows.size:
            laid_out.append((rows, timelines))
    return laid_out
