"""How fast bits travel to and from a client: path loss, Rayleigh block fading, Shannon rate.

The wireless clients of a cell stand still at distance d from the server's antenna. With transmit
power P, noise density N0, noise figure F, bandwidth B and a fading gain |h|^2 per block of time

    PL [dB] = 128.1 + 37.6 log10(d / 1 km)
    snr     = P / (PL * N0 * B * F)              mean signal-to-noise ratio of the client
    R       = B log2(1 + |h|^2 snr)              bit/s; |h|^2 ~ Exp(1), anew in every block

Block b covers [b * block_s, (b + 1) * block_s) of virtual time. Its gain is addressed by (seed,
client, b, direction): it can be asked for in any order. Sources, limits: docs/models/channel.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from fleetsim import rng
from fleetsim.contracts import FloatArray, IntArray
from fleetsim.fleet.net_links import NetLinks, NetShift, build_net_links
from fleetsim.fleet.net_trace_files import load_net_trace
from fleetsim.fleet.profile import RadioProfile
from fleetsim.fleet.timeline import Timeline, Timelines, empty
from fleetsim.settings import Settings
from fleetsim.units import db_to_ratio, dbm_to_w

_MAX_TIME_S: Final = 1e12
"""Up to here (30,000 years) the shortest block, 1 ms, is far wider than the spacing of floats."""
_MAX_BLOCKS: Final = 10_000_000
"""Blocks of one transfer, which is laid out block by block in memory."""
_SPARE_BLOCKS: Final = 4
"""Blocks that are laid out beyond those that a transfer needs at 1.5 times its mean rate."""
_BLOCKS_AT_ONCE: Final = 1 << 18
"""Blocks of several transfers that are laid out together."""

PowerDbm = Annotated[float, Field(ge=-100.0, le=100.0)]


class Direction(StrEnum):
    """Which way a transfer goes: down to the client, which receives, or up from it."""

    DOWN = "down"
    UP = "up"


_ROW: Final = {Direction.DOWN: 0, Direction.UP: 1}
"""Row of the [2, N] arrays, and random word of a block, that belong to a direction."""


class _TransferSettings(Settings):
    """What every kind of channel has."""

    give_up_s: Annotated[float, Field(ge=1e-3, le=1e9)] = 3600.0
    """A transfer that takes longer than this fails."""
    unmetered_radio: str = "wifi"
    """Radio whose energy a transfer costs on an unmetered network: bundled name or path."""
    metered_radio: str = "lte"
    """Radio whose energy a transfer costs on a metered network: bundled name or path."""


class FadingSettings(_TransferSettings):
    """A cell with path loss and block fading around one antenna."""

    kind: Literal["fading"] = "fading"
    bandwidth_hz: Annotated[float, Field(ge=1.0, le=1e12)] = 5e6
    """Bandwidth that each client has for itself, in either direction."""
    cell_radius_m: Annotated[float, Field(ge=1.0, le=1e6)] = 500.0
    """Clients stand uniformly over the disk of this radius."""
    min_distance_m: Annotated[float, Field(ge=1.0, le=1e6)] = 10.0
    """Nobody stands closer to the antenna; equal to the radius: everybody stands there."""
    tx_power_dbm: PowerDbm = 23.0
    """Transmit power of a client."""
    server_tx_power_dbm: PowerDbm = 43.0
    """Transmit power of the server's antenna to one client."""
    noise_dbm_per_hz: Annotated[float, Field(ge=-250.0, le=0.0)] = -174.0
    """Density of the thermal noise (-174 dBm/Hz is kT at 290 K)."""
    noise_figure_db: Annotated[float, Field(ge=0.0, le=100.0)] = 0.0
    """Noise that the receiver adds, client and server alike."""
    path_loss_db_at_1km: Annotated[float, Field(ge=0.0, le=300.0)] = 128.1
    """Path loss at 1 km."""
    path_loss_exponent_db: Annotated[float, Field(ge=0.0, le=200.0)] = 37.6
    """Path loss added per factor of 10 in distance."""
    fading: Literal["rayleigh", "none"] = "rayleigh"
    """Law of the gain: one exponential draw per client, direction and block; or always 1."""
    block_s: Annotated[float, Field(ge=1e-3, le=1e9)] = 1.0
    """Length of the blocks in which the gain stays the same."""

    @model_validator(mode="after")
    def _fits(self) -> FadingSettings:
        low_m, high_m = self.min_distance_m, self.cell_radius_m
        if low_m > high_m:
            raise ValueError(f"min_distance_m = {low_m:g} is beyond cell_radius_m = {high_m:g}")
        blocks = self.give_up_s / self.block_s
        if self.fading == "rayleigh" and blocks > _MAX_BLOCKS:
            raise ValueError(f"give_up_s spans {blocks:g} blocks of block_s, over {_MAX_BLOCKS:g}")
        return self


class ConstantSettings(_TransferSettings):
    """The same rates for every wireless client, always."""

    kind: Literal["constant"] = "constant"
    down_bit_per_s: Annotated[float, Field(gt=0.0, le=1e15)]
    """Rate from the server to a client."""
    up_bit_per_s: Annotated[float, Field(gt=0.0, le=1e15)]
    """Rate from a client to the server."""


class TraceSettings(_TransferSettings):
    """Measured rates: every wireless client lives through one record of a network trace."""

    kind: Literal["trace"] = "trace"
    trace: str
    """Network trace: bundled name, or path of a folder or file."""
    shift: NetShift = "random"
    """random: each client begins its record anywhere in it. none: at its beginning."""
    rate_scale: Annotated[float, Field(gt=0.0, le=1e9)] = 1.0
    """Factor on all rates, such as 0.5 for a plan of half the speed."""
    up_over_down: Annotated[float, Field(gt=0.0, le=1e6)] | None = None
    """Rate up over rate down, in place of the trace's own rates up; needed where it has none."""


ChannelSettings = Annotated[
    FadingSettings | ConstantSettings | TraceSettings, Field(discriminator="kind")
]


@dataclass(frozen=True, slots=True, eq=False)
class _Words:
    """Random words of blocks of some clients, of both directions."""

    clients: IntArray
    first_block: IntArray
    """Of each client [n]."""
    words: NDArray[np.uint64]
    """[n, blocks, 4]"""

    def of(self, clients: IntArray, first_block: IntArray, num: int) -> NDArray[np.uint64] | None:
        """Words [n, num, 4] of these blocks, if all are among them."""
        if not np.array_equal(clients, self.clients):
            return None
        skipped = first_block - self.first_block
        if (skipped < 0).any() or (skipped + num > self.words.shape[1]).any():
            return None
        blocks = skipped[:, np.newaxis] + np.arange(num)
        words: NDArray[np.uint64] = self.words[np.arange(clients.size)[:, np.newaxis], blocks]
        return words


@dataclass(frozen=True, slots=True)
class Cell:
    """Where the wireless clients stand, and the fading of their links."""

    seed: int
    bandwidth_hz: float
    block_s: float
    distance_m: FloatArray
    """Distance of every client from the antenna [N]; wired clients have one too, unused."""
    snr: FloatArray
    """Mean signal-to-noise ratio of every client [2, N]: row 0 down, row 1 up; NaN if wired."""
    _latest: list[_Words] = field(default_factory=list, compare=False, repr=False)
    """The words last drawn: an upload soon after its download is in the same blocks."""

    def blocks_at(self, t_s: FloatArray) -> IntArray:
        """The blocks that cover moments, shape kept."""
        block = (t_s / self.block_s).astype(np.int64)
        # The quotient is rounded, so it may miss by one: the edges b * block_s decide.
        while (is_after := block * self.block_s > t_s).any():
            block -= is_after
        while (is_before := (block + 1) * self.block_s <= t_s).any():
            block += is_before
        return block

    def gains(
        self, clients: IntArray, direction: Direction, first_block: IntArray, num: int
    ) -> FloatArray:
        """Rayleigh power gains |h|^2 ~ Exp(1) of consecutive blocks of each client [n, num]."""
        words = self._latest[0].of(clients, first_block, num) if self._latest else None
        if words is None:
            ahead = num + _SPARE_BLOCKS
            words = rng.words_of_many(
                self.seed, "fading", clients.tolist(), first_block.tolist(), ahead
            )
            self._latest[:] = [_Words(clients.copy(), first_block.copy(), words)]
            words = words[:, :num]
        return -np.log1p(-rng.words_to_uniform(words[:, :, _ROW[direction]]))

    def rates_bit_per_s(
        self, clients: IntArray, direction: Direction, first_block: IntArray, num: int
    ) -> FloatArray:
        """Rates of consecutive blocks of each client [n, num]."""
        gains = self.gains(clients, direction, first_block, num)
        snr = gains * self.snr[_ROW[direction], clients][:, np.newaxis]
        return shannon_bit_per_s(self.bandwidth_hz, snr)


@dataclass(frozen=True, slots=True)
class Channel:
    """Rates and transfers of N clients; a pure function of time, built by `build_channel`."""

    give_up_s: float
    fixed_bit_per_s: FloatArray
    """Rate of the clients whose rate never changes [2, N]: row 0 down, row 1 up; NaN: it does."""
    cell: Cell | None
    """None where no client is in a radio cell: then no rate fades."""
    net: NetLinks | None = None
    """None where no client lives through a network trace."""

    def mean_snr(self, client: int, direction: Direction) -> float:
        """Mean signal-to-noise ratio of a client in the cell; NaN for any other.

        Raises:
            ValueError: no such client.
        """
        self._check(client)
        return math.nan if self.cell is None else float(self.cell.snr[_ROW[direction], client])

    def rate_at(self, client: int, direction: Direction, t_s: float) -> float:
        """Rate in bit/s at a moment.

        Raises:
            ValueError: no such client, or a time not in [0, 1e12] s.
        """
        self._check(client, t_s)
        rate_bit_per_s = self.fixed_bit_per_s[_ROW[direction], client]
        if self.cell is not None and math.isnan(rate_bit_per_s):
            block = self.cell.blocks_at(np.array([t_s]))
            rates = self.cell.rates_bit_per_s(np.array([client]), direction, block, num=1)
            rate_bit_per_s = rates[0, 0]
        if self.net is not None and math.isnan(rate_bit_per_s):
            rates = self.net.rate_at(np.array([client]), _ROW[direction], np.array([t_s]))
            rate_bit_per_s = rates[0]
        return float(rate_bit_per_s)

    def transfer(
        self, client: int, direction: Direction, start_s: float, bit: float, radio: RadioProfile
    ) -> Timeline:
        """A transfer of one client, as of `transfers`; one of no bits is empty.

        Raises:
            ValueError: no such client, a time not in [0, 1e12] s, or bits < 0 or not finite.
        """
        if bit == 0.0:
            self._check(client, start_s)
            return empty(start_s)
        is_down = direction == Direction.DOWN
        ((_, laid_out),) = self.transfers(
            np.array([client]),
            direction,
            np.array([start_s]),
            np.array([bit]),
            np.array([radio.receive_w if is_down else radio.transmit_w]),
            np.array([radio.receive_j_per_bit if is_down else radio.transmit_j_per_bit]),
        )
        return laid_out.row(0)

    def transfers(
        self,
        clients: IntArray,
        direction: Direction,
        start_s: FloatArray,
        bit: FloatArray,
        busy_w: FloatArray,
        j_per_bit: FloatArray,
    ) -> list[tuple[IntArray, Timelines]]:
        """Transfers, exact across edges of rates; each ends with its last bit or at `give_up_s`.

        Progress in bits; one segment per block, or step of a trace, that a transfer touches. In
        each the client draws the radio's base power and energy per bit.

        Args:
            clients: who transfers [n].
            direction: which way.
            start_s: when each begins [n].
            bit: what each moves, > 0 [n].
            busy_w: base power of each client's radio in this direction [n].
            j_per_bit: its energy per bit [n].

        Returns:
            (rows of these arguments, their transfers): transfers of similar lengths together.

        Raises:
            ValueError: no such client, a time not in [0, 1e12] s, or bits <= 0 or not finite.
        """
        self._check_all(clients, start_s, bit)
        row = _ROW[direction]
        deadline_s = start_s + self.give_up_s
        fixed_bit_per_s = self.fixed_bit_per_s[row, clients]
        fades = np.isnan(fixed_bit_per_s)
        laid_out: list[tuple[IntArray, Timelines]] = []

        def lay_out(rows: IntArray, edges_s: FloatArray, rates_bit_per_s: FloatArray) -> Timelines:
            return _lay_out(edges_s, rates_bit_per_s, bit[rows], busy_w[rows], j_per_bit[rows])

        if not fades.all():
            rows = (~fades).nonzero()[0]
            edges_s = np.array([start_s[rows], deadline_s[rows]]).T
            laid_out.append((rows, lay_out(rows, edges_s, fixed_bit_per_s[rows, np.newaxis])))
        if self.net is not None:
            rows = fades.nonzero()[0]
            for part, edges_s, rates_bit_per_s in self.net.windows(
                clients[rows], row, start_s[rows], deadline_s[rows], bit[rows]
            ):
                laid_out.append((rows[part], lay_out(rows[part], edges_s, rates_bit_per_s)))
        if self.cell is None:
            return laid_out
        cell = self.cell
        first_block = cell.blocks_at(start_s)
        max_blocks = cell.blocks_at(np.nextafter(deadline_s, 0.0)) - first_block + 1
        # The result does not depend on this guess: gains are addressed, and cumsum adds in order.
        mean_bit = shannon_bit_per_s(cell.bandwidth_hz, cell.snr[row, clients]) * cell.block_s
        with np.errstate(divide="ignore", over="ignore"):
            num_blocks = np.minimum(max_blocks, _SPARE_BLOCKS + 1.5 * bit / mean_bit)
        width = _SPARE_BLOCKS
        while fades.any():
            rows = (fades & (num_blocks <= width)).nonzero()[0]
            rows = rows[: max(1, _BLOCKS_AT_ONCE // width)]
            if rows.size == 0:
                width *= 2
                continue
            edges_s = cell.block_s * (first_block[rows, np.newaxis] + np.arange(width + 1.0))
            edges_s = edges_s.clip(start_s[rows, np.newaxis], deadline_s[rows, np.newaxis])
            rates_bit_per_s = cell.rates_bit_per_s(
                clients[rows], direction, first_block[rows], width
            )
            timelines = lay_out(rows, edges_s, rates_bit_per_s)
            is_through = timelines.is_complete | (max_blocks[rows] <= width)
            if not is_through.all():
                num_blocks[rows[~is_through]] = 2 * width
                timelines, rows = timelines.take(is_through.nonzero()[0]), rows[is_through]
            fades[rows] = False
            if rows.size:
                laid_out.append((rows, timelines))
        return laid_out

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
    settings: ChannelSettings, *, seed: int, size: int, wired_bit_per_s: FloatArray
) -> Channel:
    """Place the clients and fix what never changes.

    Client i stands where it stands whatever the size N of the fleet. `wired_bit_per_s` [N] is
    the rate of every wired client, both ways; NaN: wireless.

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
        low, high = settings.min_distance_m**2, settings.cell_radius_m**2
        # The share of the ring's area within d is (d^2 - low) / (high - low).
        distance_m = np.sqrt(low + (high - low) * rng.stream(seed, "position").random(size))
        tx_w = [[dbm_to_w(settings.server_tx_power_dbm)], [dbm_to_w(settings.tx_power_dbm)]]
        noise_dbm_per_hz = settings.noise_dbm_per_hz + settings.noise_figure_db
        noise_w = dbm_to_w(noise_dbm_per_hz) * settings.bandwidth_hz
        snr = np.where(is_wired, np.nan, tx_w / (path_loss(settings, distance_m) * noise_w))
        if settings.fading == "none":
            wireless_bit_per_s = shannon_bit_per_s(settings.bandwidth_hz, snr)
        distance_m.flags.writeable = snr.flags.writeable = False
        cell = Cell(seed, settings.bandwidth_hz, settings.block_s, distance_m, snr)
    fixed_bit_per_s = np.where(is_wired, wired_bit_per_s, wireless_bit_per_s)
    fixed_bit_per_s.flags.writeable = False
    return Channel(settings.give_up_s, fixed_bit_per_s, cell, net)


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


def path_loss(settings: FadingSettings, distance_m: FloatArray) -> FloatArray:
    """Transmitted over received power at each distance, as a ratio."""
    distance_km = distance_m / 1000.0
    at_1km = db_to_ratio(settings.path_loss_db_at_1km)
    return np.asarray(at_1km * distance_km ** (settings.path_loss_exponent_db / 10.0))


def shannon_bit_per_s(bandwidth_hz: float, snr: FloatArray) -> FloatArray:
    """Capacity B log2(1 + snr) of a band (Shannon, 1949), shape kept; exact for tiny snr too."""
    return np.asarray(np.log1p(snr) * (bandwidth_hz / math.log(2.0)))


def _lay_out(
    edges_s: FloatArray,
    rates_bit_per_s: FloatArray,
    bit: FloatArray,
    busy_w: FloatArray,
    j_per_bit: FloatArray,
) -> Timelines:
    """Transfers of so many bits [n] from the first edges [n, m+1] on, at the rates between [n, m].

    A row is incomplete if its bits are not through by the last edge.
    """
    progress = np.zeros(edges_s.shape)
    np.cumsum(rates_bit_per_s * (edges_s[:, 1:] - edges_s[:, :-1]), axis=1, out=progress[:, 1:])
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
    power_w = busy_w[:, np.newaxis] + j_per_bit[:, np.newaxis] * rates_bit_per_s[:, : num_edges - 1]
    return Timelines(
        edges_s=np.where(is_after, end_s[:, np.newaxis], edges_s[:, :num_edges]),
        progress=np.where(is_after, done_bit[:, np.newaxis], progress[:, :num_edges]),
        power_w=np.where(is_after[:, :-1], 0.0, power_w),
        num_segments=last,
        is_complete=is_complete,
    )
