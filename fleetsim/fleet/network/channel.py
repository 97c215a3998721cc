"""Rates of every client's links, and transfers over them.

A wired client has one link, its cable. Every other client has two: the cellular network that
`fleet.channel` describes and Wi-Fi (`wifi`); who transfers says over which of them. Cellular rates
never change (a constant channel, no fading), change from block to block (`cell` and `fading` say to
what, `rate` how fast that is) or were measured (`net_links`); Wi-Fi rates never change. `transport`
limits the rates of a new connection, `transfer` moves bits over what is left. Equations, sources,
limits: docs/models/channel.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Final

import numpy as np
from pydantic import Field

from fleetsim.contracts import BoolArray, FloatArray, IntArray
from fleetsim.fleet.devices.profile import RadioProfile
from fleetsim.fleet.network.arrivals import Arrivals, build_arrivals
from fleetsim.fleet.network.channel_settings import (
    CalibratedSettings,
    ConstantSettings,
    FadingSettings,
    NormalisedSettings,
    TraceSettings,
)
from fleetsim.fleet.network.direction import ROW, Direction
from fleetsim.fleet.network.measured_links import NetLinks, build_net_links
from fleetsim.fleet.network.radios.power import RadioPower, power_of
from fleetsim.fleet.network.sharing.flows import OwnRates, RateSteps
from fleetsim.fleet.network.transfer import Asked, LaidOut, lay_out_fading, lay_out_steady
from fleetsim.fleet.network.transport import RateCaps
from fleetsim.fleet.network.wireless.cell import Cell, build_cell
from fleetsim.fleet.network.wireless.wifi import WifiSettings, wifi_rates_bit_per_s
from fleetsim.fleet.timeline import Timeline, empty
from fleetsim.fleet.traces.network.files import load_net_trace

_MAX_TIME_S: Final = 1e12
"""Up to here (30,000 years) the shortest block, 1 ms, is far wider than the spacing of floats."""

ChannelSettings = Annotated[
    FadingSettings | NormalisedSettings | CalibratedSettings | ConstantSettings | TraceSettings,
    Field(discriminator="kind"),
]


@dataclass(frozen=True, slots=True)
class Channel:
    """Rates and transfers of N clients; a pure function of time, built by `build_channel`."""

    give_up_s: float
    fixed_bit_per_s: FloatArray
    """Cellular rate, or that of the cable, of the clients for whom it never changes [2, N]: row 0
    down, row 1 up; NaN: it does."""
    cell: Cell | None
    """None where no client is in a radio cell: then no rate fades."""
    arrivals: Arrivals | None
    """Which uploads arrive; None where the scenario does not force any to be lost."""
    net: NetLinks | None = None
    """None where no client lives through a network trace."""
    wifi_bit_per_s: FloatArray | None = None
    """Wi-Fi rate of every client, or that of its cable [2, N], rows as above; None: nobody is ever
    on Wi-Fi."""

    def mean_snr(self, client: int, direction: Direction) -> float:
        """Mean signal-to-noise ratio of a client in the cell; NaN for any other.

        Raises:
            ValueError: no such client.
        """
        self._check(client)
        return math.nan if self.cell is None else float(self.cell.snr[ROW[direction], client])

    def rate_at(
        self, client: int, direction: Direction, t_s: float, *, on_wifi: bool = False
    ) -> float:
        """Rate in bit/s at a moment, over Wi-Fi or over the cellular network.

        Raises:
            ValueError: no such client, or a time not in [0, 1e12] s.
        """
        self._check(client, t_s)
        rate_bit_per_s = self._steady(np.array([client]), direction, np.array([on_wifi]))[0]
        if self.cell is not None and math.isnan(rate_bit_per_s):
            block = self.cell.blocks_at(np.array([t_s]))
            rates = self.cell.rates_bit_per_s(np.array([client]), direction, block, num=1)
            rate_bit_per_s = rates[0, 0]
        if self.net is not None and math.isnan(rate_bit_per_s):
            rates = self.net.rate_at(np.array([client]), ROW[direction], np.array([t_s]))
            rate_bit_per_s = rates[0]
        return float(rate_bit_per_s)

    def _steady(
        self, clients: IntArray, direction: Direction, on_wifi: BoolArray | None
    ) -> FloatArray:
        """Rates of links that never change [n]; NaN for others."""
        rate_bit_per_s: FloatArray = self.fixed_bit_per_s[ROW[direction], clients]
        if on_wifi is None or not on_wifi.any():
            return rate_bit_per_s
        if self.wifi_bit_per_s is None:
            raise ValueError(f"client {clients[on_wifi][0]} is on Wi-Fi, which nobody has")
        return np.where(on_wifi, self.wifi_bit_per_s[ROW[direction], clients], rate_bit_per_s)

    def transfer(
        self, client: int, direction: Direction, start_s: float, bit: float, radio: RadioProfile
    ) -> Timeline:
        """A cellular (or wired) transfer of one client, as of `transfers`; of no bits: empty.

        Raises:
            ValueError: no such client, a time not in [0, 1e12] s, or bits < 0 or not finite.
        """
        if bit == 0.0:
            self._check(client, start_s)
            return empty(start_s)
        ((_, laid_out),) = self.transfers(
            np.array([client]),
            direction,
            np.array([start_s]),
            np.array([bit]),
            power_of([radio], direction),
        )
        return laid_out.row(0)

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
    ) -> LaidOut:
        """Transfers, exact across edges of rates; each ends with its last bit or at `give_up_s`.

        Progress in bits; one segment per block, step of a trace or step of the transport's limits
        that a transfer touches. In each the client's radio draws what it does at that rate.

        Args:
            clients: who transfers [n].
            direction: which way.
            start_s: when each begins [n].
            bit: what each moves, > 0 [n].
            power: of each client's radio in this direction [n].
            on_wifi: which of them go over Wi-Fi [n]; None: all over the cellular network.
            caps: limits of the transport after each start; None: no limits.

        Returns:
            (rows of these arguments, their transfers): transfers of similar lengths together.

        Raises:
            ValueError: no such client, a time not in [0, 1e12] s, or bits <= 0 or not finite.
        """
        self._check_all(clients, start_s, bit)
        deadline_s = start_s + self.give_up_s
        asked = Asked(clients, direction, start_s, deadline_s, bit, power, caps)
        rate_bit_per_s = self._steady(clients, direction, on_wifi)
        fades = np.isnan(rate_bit_per_s)
        steady = (~fades).nonzero()[0]
        laid_out: LaidOut = []
        if steady.size:
            laid_out += lay_out_steady(asked, steady, rate_bit_per_s[steady])
        if self.net is not None:
            rows = fades.nonzero()[0]

            def limited(
                at: IntArray, edges_s: FloatArray, rates_bit_per_s: FloatArray
            ) -> tuple[FloatArray, FloatArray]:
                return asked.limited(rows[at], edges_s, rates_bit_per_s)

            for part, edges_s, rates_bit_per_s in self.net.windows(
                clients[rows], ROW[direction], start_s[rows], deadline_s[rows], bit[rows], limited
            ):
                laid_out.append((rows[part], asked.lay_out(rows[part], edges_s, rates_bit_per_s)))
        if self.cell is not None and steady.size < clients.size:
            laid_out += lay_out_fading(asked, fades, self.cell)
        return laid_out

    def own_rates(
        self,
        clients: IntArray,
        direction: Direction,
        num_blocks: int,
        *,
        on_wifi: BoolArray | None = None,
    ) -> OwnRates:
        """Rates that the channel leaves to clients [n] who share further links.

        `on_wifi` is that of `transfers`. What it returns takes indices into `clients` [k] and
        moments [k], and gives the rates of `num_blocks` blocks or steps of a trace each, from the
        one around the moment on; one for ever where nobody's change.

        Raises:
            ValueError: no such client, or (by what it returns) a time not in [0, 1e12] s.
        """
        self._check_all(clients, np.zeros(clients.size), np.ones(clients.size))
        fixed_bit_per_s = self._steady(clients, direction, on_wifi)
        fades = np.isnan(fixed_bit_per_s)
        band_bit_per_s = self._steady_band(clients, direction, fixed_bit_per_s, on_wifi)

        def rates_from(rows: IntArray, t_s: FloatArray) -> RateSteps:
            self._check_all(clients[rows], t_s, np.ones(rows.size))
            if not fades.any():
                edges_s = np.array([t_s, np.full(rows.size, np.inf)]).T
                fixed = fixed_bit_per_s[rows, np.newaxis]
                return RateSteps(edges_s, fixed, band_bit_per_s[rows, np.newaxis])
            at = fades[rows].nonzero()[0]
            rates_bit_per_s = np.repeat(fixed_bit_per_s[rows, np.newaxis], num_blocks, axis=1)
            if self.net is not None:
                edges_s = np.full((rows.size, num_blocks + 1), np.inf)
                edges_s[:, 0] = t_s
                edges_s[at], rates_bit_per_s[at] = self.net.steps_from(
                    clients[rows[at]], ROW[direction], t_s[at], num_blocks
                )
                return RateSteps(edges_s, rates_bit_per_s, rates_bit_per_s)
            assert self.cell is not None
            first_block = self.cell.blocks_at(t_s)
            edges_s = self.cell.block_s * (first_block[:, np.newaxis] + np.arange(num_blocks + 1.0))
            carried = self.cell.band_bit_per_s(
                clients[rows[at]], direction, first_block[at], num_blocks
            )
            channel_bit_per_s = rates_bit_per_s.copy()
            channel_bit_per_s[at] = carried
            rates_bit_per_s[at] = self.cell.modem.limited(direction, carried)
            return RateSteps(edges_s, rates_bit_per_s, channel_bit_per_s)

        return rates_from

    def _steady_band(
        self,
        clients: IntArray,
        direction: Direction,
        fixed_bit_per_s: FloatArray,
        on_wifi: BoolArray | None,
    ) -> FloatArray:
        """`fixed_bit_per_s` [n] without the limits of the modem in a cell that does not fade."""
        if self.cell is None:
            return fixed_bit_per_s
        snr = self.cell.snr[ROW[direction], clients]
        is_in_cell = ~np.isnan(fixed_bit_per_s) & ~np.isnan(snr)
        if on_wifi is not None:
            is_in_cell &= ~on_wifi
        carried = self.cell.modem.band_bit_per_s(direction, snr)
        return np.where(is_in_cell, carried, fixed_bit_per_s)

    def _check(self, client: int, t_s: float = 0.0) -> None:
        self._check_all(np.array([client]), np.array([t_s]), np.ones(1))

    def _check_all(self, clients: IntArray, t_s: FloatArray, bit: FloatArray) -> None:
        size = self.fixed_bit_per_s.shape[1]
        is_client = (clients >= 0) & (clients < size)  # numpy would read -1 as the last client
        is_time = (t_s >= 0.0) & (t_s <= _MAX_TIME_S)
        is_size = (bit > 0.0) & (bit < math.inf)
        if (is_client & is_time & is_size).all():
            return
        if not is_client.all():
            raise ValueError(f"no client {clients[~is_client][0]} among {size}")
        if not is_time.all():
            wrong_s = t_s[~is_time][0]
            raise ValueError(f"the channel knows times from 0 to {_MAX_TIME_S:g} s, got {wrong_s}")
        raise ValueError(f"a transfer needs a finite number of bits > 0, got {bit[~is_size][0]}")


def build_channel(
    settings: ChannelSettings,
    *,
    seed: int,
    size: int,
    wired_bit_per_s: FloatArray,
    wifi: WifiSettings | None = None,
    radio: RadioProfile | None = None,
) -> Channel:
    """Place the clients and fix what never changes.

    Client i stands where it stands whatever the size N of the fleet.

    Args:
        settings: the cellular network.
        seed: the scenario's seed.
        size: number of clients N.
        wired_bit_per_s: rate of every wired client, both ways [N]; NaN: wireless.
        wifi: Wi-Fi of the clients; None: nobody is ever on it.
        radio: their cellular radio, whose modem limits rates where the settings leave it to that.

    Raises:
        ValueError: the wired rates are not [N], or one is neither NaN nor finite and > 0.
        ScenarioError: there is no such network trace, or the settings do not fit it.
        DataError: its file is wrong.
    """
    is_wired = ~np.isnan(wired_bit_per_s)
    is_valid = ~is_wired | ((wired_bit_per_s > 0.0) & np.isfinite(wired_bit_per_s))
    if wired_bit_per_s.shape != (size,) or not is_valid.all():
        raise ValueError(f"not {size} finite wired rates > 0 bit/s, or NaN: {wired_bit_per_s}")
    cell, net = None, None
    wireless_bit_per_s = np.full((2, size), np.nan)
    if isinstance(settings, ConstantSettings):
        wireless_bit_per_s[:] = [[settings.down_bit_per_s], [settings.up_bit_per_s]]
    elif isinstance(settings, TraceSettings):
        net = links_of(settings, seed=seed, size=size)
    else:
        cell = build_cell(settings, seed=seed, is_wired=is_wired, radio=radio)
        if settings.fading == "none":
            wireless_bit_per_s = cell.steady_bit_per_s()
    fixed_bit_per_s = np.where(is_wired, wired_bit_per_s, wireless_bit_per_s)
    fixed_bit_per_s.flags.writeable = False
    wifi_bit_per_s: FloatArray | None = None
    if wifi is not None:
        rates_bit_per_s = wifi_rates_bit_per_s(wifi, seed=seed, size=size)
        wifi_bit_per_s = np.where(is_wired, wired_bit_per_s, rates_bit_per_s)
        wifi_bit_per_s.flags.writeable = False
    arrivals = build_arrivals(settings.upload_success, seed=seed, size=size)
    return Channel(settings.give_up_s, fixed_bit_per_s, cell, arrivals, net, wifi_bit_per_s)


def links_of(settings: TraceSettings, *, seed: int, size: int) -> NetLinks:
    """Read the network trace that settings name and deal its records to N clients.

    Raises:
        ScenarioError: there is no such trace, or the settings do not fit it.
        DataError: its file is wrong.
    """
    return build_net_links(
        load_net_trace(settings.trace),
        seed=seed,
        size=size,
        shift=settings.shift,
        rate_scale=settings.rate_scale,
        up_over_down=settings.up_over_down,
        give_up_s=settings.give_up_s,
    )
