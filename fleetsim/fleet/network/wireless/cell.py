"""Radio cell: clients around an antenna, their mean signal-to-noise ratios and fading blocks.

`fading` gives the gain of a block, `rate` the rate of a ratio. Sources, limits:
docs/models/channel.md.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from fleetsim.contracts import FloatArray, IntArray
from fleetsim.fleet.network.direction import ROW, Direction
from fleetsim.fleet.network.transfer import RateSteps, TransferRequests, lay_out_changing
from fleetsim.fleet.network.wireless.fading import BlockFading
from fleetsim.fleet.network.wireless.rate import Modem
from fleetsim.fleet.timeline import TimelineGroups

_SPARE_BLOCKS: Final = 4
"""Blocks that are laid out beyond 1.5 times those that a transfer needs at its mean rate."""


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
        return np.stack([self.modem.rates_bit_per_s(way, self.snr[ROW[way]]) for way in Direction])

    def rates_at(self, clients: IntArray, direction: Direction, t_s: FloatArray) -> FloatArray:
        """Return rates of clients [n] at moments [n]."""
        return self.rates_bit_per_s(clients, direction, self.fading.blocks_at(t_s), num=1)[:, 0]

    def lay_out(self, requests: TransferRequests, rows: IntArray) -> TimelineGroups:
        """Return the timelines of those transfers whose indices are `rows` [k]."""
        clients, direction = requests.clients[rows], requests.direction
        first_block = self.fading.blocks_at(requests.start_s[rows])
        last_block = self.fading.blocks_at(np.nextafter(requests.deadline_s[rows], 0.0))
        most_blocks = last_block - first_block + 1
        best_bit_per_s = self.modem.best_bit_per_s(direction, self.snr[ROW[direction], clients])
        mean_bit = self.modem.limited(direction, best_bit_per_s) * self.fading.block_s
        with np.errstate(divide="ignore", over="ignore"):
            num_blocks = _SPARE_BLOCKS + 1.5 * requests.bit_over_multiple(rows) / mean_bit

        def blocks(at: IntArray, num: int) -> tuple[FloatArray, FloatArray]:
            edges_s = self.fading.block_s * (first_block[at, np.newaxis] + np.arange(num + 1.0))
            return edges_s, self.rates_bit_per_s(clients[at], direction, first_block[at], num)

        num_blocks = np.minimum(most_blocks, num_blocks)
        return lay_out_changing(requests, rows, num_blocks, most_blocks, blocks)

    def steps_from(
        self, clients: IntArray, direction: Direction, t_s: FloatArray, num_steps: int
    ) -> RateSteps:
        """Return rates of blocks from moments on; arguments as in `ChangingRates.steps_from`."""
        first_block = self.fading.blocks_at(t_s)
        edges_s = self.fading.block_s * (first_block[:, np.newaxis] + np.arange(num_steps + 1.0))
        snr = self._block_snr(clients, direction, first_block, num_steps)
        rates_bit_per_s = self.modem.rates_bit_per_s(direction, snr)
        return RateSteps(edges_s, rates_bit_per_s, self.modem.signal_bit_per_s(direction, snr))
