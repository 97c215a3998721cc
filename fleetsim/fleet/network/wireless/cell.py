"""Radio cell: clients around an antenna, their mean signal-to-noise ratios and fading blocks.

`fading` gives the gain of a block, `rate` the rate of a ratio. Sources, limits:
docs/models/channel.md.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from fleetsim.contracts import FloatArray, IntArray
from fleetsim.fleet.network.direction import ROW, Direction
from fleetsim.fleet.network.transfer import RateSteps, TransferRequests
from fleetsim.fleet.network.wireless.fading import BlockFading
from fleetsim.fleet.network.wireless.rate import Modem
from fleetsim.fleet.timeline import TimelineGroups

_FIRST_BLOCKS: Final = 4
"""Blocks that are laid out beyond those that a transfer needs at 1.5 times its mean rate."""
_BLOCKS_AT_ONCE: Final = 1 << 18
"""Blocks of several transfers that are laid out together."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Links of the wireless clients; a pure function of time, built by `BlockSettings.build`."""

    fading: BlockFading
    modem: Modem
    distance_m: FloatArray | None
    """Distance of every client from the antenna [N]; wired clients have one too, unused. None
    without distances."""
    snr: FloatArray
    """Mean signal-to-noise ratio of every client [2, N]: row 0 down, row 1 up; NaN if wired."""

    def rates_bit_per_s(
        self, clients: IntArray, direction: Direction, first_block: IntArray, num: int
    ) -> FloatArray:
        """Return rates of consecutive blocks of each client [n, num]."""
        snr = self._block_snr(clients, direction, first_block, num)
        return self.modem.rates_bit_per_s(direction, snr)

    def _block_snr(
        self, clients: IntArray, direction: Direction, first_block: IntArray, num: int
    ) -> FloatArray:
        """Return ratios over the whole band in consecutive blocks of each client [n, num]."""
        gains = self.fading.gains(clients, direction, first_block, num)
        return np.asarray(gains * self.snr[ROW[direction], clients][:, np.newaxis])

    def steady_bit_per_s(self) -> FloatArray:
        """Return rates of every client if the gain is always 1 [2, N]; NaN if wired."""
        return np.stack(
            [
                self.modem.rates_bit_per_s(way, self.snr[ROW[way]])
                for way in (Direction.DOWN, Direction.UP)
            ]
        )

    def rates_at(self, clients: IntArray, direction: Direction, t_s: FloatArray) -> FloatArray:
        """Return rates of clients [n] at moments [n]."""
        return self.rates_bit_per_s(clients, direction, self.fading.blocks_at(t_s), num=1)[:, 0]

    def lay_out(self, requests: TransferRequests, rows: IntArray) -> TimelineGroups:
        """Return the timelines of those transfers whose indices are `rows` [k]."""
        block_s = self.fading.block_s
        first_block = self.fading.blocks_at(requests.start_s)
        max_blocks = self.fading.blocks_at(np.nextafter(requests.deadline_s, 0.0)) - first_block + 1
        # The result does not depend on this guess: gains are addressed, and cumsum adds in order.
        mean_snr = self.snr[ROW[requests.direction], requests.clients]
        best_bit_per_s = self.modem.best_bit_per_s(requests.direction, mean_snr)
        mean_bit = self.modem.limited(requests.direction, best_bit_per_s) * block_s
        with np.errstate(divide="ignore", over="ignore"):
            num_blocks = np.minimum(max_blocks, _FIRST_BLOCKS + 1.5 * requests.bit / mean_bit)
        laid_out: TimelineGroups = []
        is_waiting = np.zeros(requests.start_s.size, dtype=np.bool_)
        is_waiting[rows] = True
        width = _FIRST_BLOCKS
        while is_waiting.any():
            rows = (is_waiting & (num_blocks <= width)).nonzero()[0]
            rows = rows[: max(1, _BLOCKS_AT_ONCE // width)]
            if rows.size == 0:
                width *= 2
                continue
            edges_s = block_s * (first_block[rows, np.newaxis] + np.arange(width + 1.0))
            edges_s = np.maximum(edges_s, requests.start_s[rows, np.newaxis])
            edges_s = np.minimum(edges_s, requests.deadline_s[rows, np.newaxis])
            rates_bit_per_s = self.rates_bit_per_s(
                requests.clients[rows], requests.direction, first_block[rows], width
            )
            timelines = requests.lay_out(rows, *requests.limited(rows, edges_s, rates_bit_per_s))
            is_through = timelines.is_complete | (max_blocks[rows] <= width)
            if not is_through.all():
                num_blocks[rows[~is_through]] = 2 * width
                timelines, rows = timelines.take(is_through.nonzero()[0]), rows[is_through]
            is_waiting[rows] = False
            if rows.size:
                laid_out.append((rows, timelines))
        return laid_out

    def steps_from(
        self,
        clients: IntArray,
        direction: Direction,
        t_s: FloatArray,
        num_steps: int,
        fixed_bit_per_s: FloatArray,
    ) -> RateSteps:
        """Return rates of blocks from moments on; arguments as in `ChangingRates.steps_from`."""
        first_block = self.fading.blocks_at(t_s)
        edges_s = self.fading.block_s * (first_block[:, np.newaxis] + np.arange(num_steps + 1.0))
        rates_bit_per_s = np.repeat(fixed_bit_per_s[:, np.newaxis], num_steps, axis=1)
        channel_bit_per_s = rates_bit_per_s.copy()
        at = np.isnan(fixed_bit_per_s).nonzero()[0]
        snr = self._block_snr(clients[at], direction, first_block[at], num_steps)
        channel_bit_per_s[at] = self.modem.signal_bit_per_s(direction, snr)
        rates_bit_per_s[at] = self.modem.rates_bit_per_s(direction, snr)
        return RateSteps(edges_s, rates_bit_per_s, channel_bit_per_s)
