"""Rates of every client's links, and transfers over them.

A wired client has one link, its cable. Every other client has two, and each transfer uses one of
them: Wi-Fi, whose rates never change, and the cellular network, whose rates are constant, change
from block to block or were measured. Equations, sources, limits: docs/models/channel.md.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from fleetsim.contracts import BoolArray, FloatArray, IntArray
from fleetsim.fleet.devices.profile import RadioProfile
from fleetsim.fleet.network.arrivals import Arrivals, build_arrivals
from fleetsim.fleet.network.channels.settings import ChangingRates, TransferSettings
from fleetsim.fleet.network.direction import ROW, Direction
from fleetsim.fleet.network.radio_power import RadioPower
from fleetsim.fleet.network.transfer import Demands, RateSteps, TransferRequests
from fleetsim.fleet.network.transport import RateCaps
from fleetsim.fleet.network.wireless.cell import Cell
from fleetsim.fleet.network.wireless.wifi import WifiSettings
from fleetsim.fleet.timeline import TimelineGroups
from fleetsim.fleet.traces.followed_records import FollowedRecords

_MAX_TIME_S: Final = 1e12
"""30,000 years; up to here the shortest block, 1 ms, is far wider than the spacing of floats."""


@dataclass(frozen=True, slots=True)
class Channel:
    """Rates and transfers of N clients; a pure function of time, built by `build_channel`."""

    give_up_s: float
    fixed_bit_per_s: FloatArray
    """Cellular rate, or that of the cable, where it never changes [2, N]: row 0 down, row 1 up;
    NaN where it does."""
    changing: ChangingRates | None
    """Source of the cellular rates that change; None where none does."""
    cell: Cell | None
    """Radio cell of the clients; None where the channel has no band."""
    arrivals: Arrivals | None
    """Uploads that arrive; None where the scenario forces none to be lost."""
    wifi_bit_per_s: FloatArray | None = None
    """Wi-Fi rate of every client, or that of its cable [2, N], rows as above; None: no client is
    ever on Wi-Fi."""
    multiple: FloatArray | None = None
    """Factor on all these rates of every client, both ways [N]; None: 1 for all clients."""
    followed: FollowedRecords | None = None
    """Records of a network trace that the clients follow; None without a trace."""

    def mean_snr(self, client: int, direction: Direction) -> float:
        """Return the mean signal-to-noise ratio of a client in the cell; NaN for any other."""
        return math.nan if self.cell is None else float(self.cell.snr[ROW[direction], client])

    def rate_at(
        self, client: int, direction: Direction, t_s: float, *, on_wifi: bool = False
    ) -> float:
        """Rate in bit/s at a moment, over Wi-Fi or over the cellular network."""
        clients, moments_s = np.array([client]), np.array([t_s])
        self._check(clients, moments_s)
        rate_bit_per_s = self._steady(clients, direction, np.array([on_wifi]))
        if self.changing is not None and np.isnan(rate_bit_per_s[0]):
            rate_bit_per_s = self.changing.rates_at(clients, direction, moments_s)
        multiple = 1.0 if self.multiple is None else float(self.multiple[client])
        return float(rate_bit_per_s[0]) * multiple

    def _steady(
        self, clients: IntArray, direction: Direction, on_wifi: BoolArray | None
    ) -> FloatArray:
        """Rates of links that never change [n]; NaN for others."""
        rate_bit_per_s: FloatArray = self.fixed_bit_per_s[ROW[direction], clients]
        if on_wifi is None or not on_wifi.any():
            return rate_bit_per_s
        assert self.wifi_bit_per_s is not None  # of networks on which a client can be
        return np.where(on_wifi, self.wifi_bit_per_s[ROW[direction], clients], rate_bit_per_s)

    def transfers(
        self,
        clients: IntArray,
        direction: Direction,
        start_s: FloatArray,
        bit: FloatArray,
        power: RadioPower,
        *,
        on_wifi: BoolArray | None = None,
        caps: RateCaps | None = None,
    ) -> TimelineGroups:
        """Lay out transfers, exact across edges of rates.

        Each ends with its last bit, or after `give_up_s`, and has one segment for each block, step
        of a trace or step of the transport's caps that it touches. Arguments are those of
        `TransferRequests`, and which transfers use Wi-Fi [n]; None: all use the cellular network.
        """
        self._check(clients, start_s)
        if not ((bit > 0.0) & (bit < math.inf)).all():
            raise ValueError(f"a transfer needs a finite number of bits > 0, got {bit}")
        requests = TransferRequests(
            clients,
            direction,
            start_s,
            start_s + self.give_up_s,
            bit,
            power,
            caps,
            None if self.multiple is None else self.multiple[clients],
        )
        rate_bit_per_s = self._steady(clients, direction, on_wifi)
        changes = np.isnan(rate_bit_per_s)
        steady = (~changes).nonzero()[0]
        laid_out: TimelineGroups = []
        if steady.size:
            edges_s = np.array([requests.start_s[steady], requests.deadline_s[steady]]).T
            limited = requests.limited(steady, edges_s, rate_bit_per_s[steady, np.newaxis])
            laid_out.append((steady, requests.lay_out(steady, *limited)))
        if self.changing is not None and steady.size < changes.size:
            laid_out += self.changing.lay_out(requests, changes.nonzero()[0])
        return laid_out

    def demands(
        self,
        clients: IntArray,
        direction: Direction,
        num_blocks: int,
        *,
        on_wifi: BoolArray | None = None,
    ) -> Demands:
        """Return a function of the channel's rates for clients [n] that share further links.

        It returns the rates of `num_blocks` blocks or steps of a trace, from the one around each
        moment on; a single rate that never ends if no client's rate changes.
        """
        fixed_bit_per_s = self._steady(clients, direction, on_wifi)
        num_steps = num_blocks if np.isnan(fixed_bit_per_s).any() else 1
        band_bit_per_s = self._steady_band(clients, direction, fixed_bit_per_s, on_wifi)

        def rates_from(rows: IntArray, t_s: FloatArray) -> RateSteps:
            self._check(clients[rows], t_s)
            edges_s = np.full((rows.size, num_steps + 1), np.inf)
            edges_s[:, 0] = t_s
            fixed, band = (
                np.repeat(rate_bit_per_s[rows, np.newaxis], num_steps, axis=1)
                for rate_bit_per_s in (fixed_bit_per_s, band_bit_per_s)
            )
            steps = RateSteps(edges_s, fixed, band)
            at = np.isnan(fixed[:, 0]).nonzero()[0]
            if at.size:
                assert self.changing is not None
                changing = self.changing.steps_from(
                    clients[rows[at]], direction, t_s[at], num_steps
                )
                for column, theirs in zip(steps, changing, strict=True):
                    column[at] = theirs
            if self.multiple is None:
                return steps
            factor = self.multiple[clients[rows], np.newaxis]
            return RateSteps(edges_s, fixed * factor, band * factor)

        return rates_from

    def _steady_band(
        self,
        clients: IntArray,
        direction: Direction,
        fixed_bit_per_s: FloatArray,
        on_wifi: BoolArray | None,
    ) -> FloatArray:
        """`fixed_bit_per_s` [n], in a cell that does not fade the signal as `Band` takes it."""
        if self.cell is None:
            return fixed_bit_per_s
        snr = self.cell.snr[ROW[direction], clients]
        is_in_cell = ~np.isnan(fixed_bit_per_s) & ~np.isnan(snr)
        if on_wifi is not None:
            is_in_cell &= ~on_wifi
        signal_bit_per_s = self.cell.modem.signal_bit_per_s(direction, snr)
        return np.where(is_in_cell, signal_bit_per_s, fixed_bit_per_s)

    def _check(self, clients: IntArray, t_s: FloatArray) -> None:
        size = self.fixed_bit_per_s.shape[1]
        if not ((clients >= 0) & (clients < size)).all():  # numpy would read -1 as the last client
            raise ValueError(f"not all clients {clients} are among {size}")
        if not ((t_s >= 0.0) & (t_s <= _MAX_TIME_S)).all():
            raise ValueError(f"the channel knows times from 0 to {_MAX_TIME_S:g} s, got {t_s}")


def build_channel(
    settings: TransferSettings,
    *,
    seed: int,
    size: int,
    wired_bit_per_s: FloatArray,
    wifi: WifiSettings | None = None,
    radio: RadioProfile | None = None,
    multiple: FloatArray | None = None,
) -> Channel:
    """Build the links of N clients: cellular network, Wi-Fi and cables.

    Wired clients have a rate, both ways [N]; it is NaN for others. Without `wifi` no client is ever
    on it. The modem of `radio` limits cellular rates where the settings say so. `multiple` is a
    factor on all rates of a client [N].
    """
    is_wired = ~np.isnan(wired_bit_per_s)
    links = settings.build(seed=seed, is_wired=is_wired, radio=radio)
    fixed_bit_per_s = np.where(is_wired, wired_bit_per_s, links.fixed_bit_per_s)
    fixed_bit_per_s.flags.writeable = False
    wifi_bit_per_s: FloatArray | None = None
    if wifi is not None:
        rates_bit_per_s = wifi.rates_bit_per_s(seed=seed, size=size)
        wifi_bit_per_s = np.where(is_wired, wired_bit_per_s, rates_bit_per_s)
        wifi_bit_per_s.flags.writeable = False
    arrivals = build_arrivals(settings.upload_success, seed=seed, size=size)
    return Channel(
        give_up_s=settings.give_up_s,
        fixed_bit_per_s=fixed_bit_per_s,
        changing=links.changing,
        cell=links.cell,
        arrivals=arrivals,
        wifi_bit_per_s=wifi_bit_per_s,
        multiple=multiple,
        followed=links.followed,
    )
