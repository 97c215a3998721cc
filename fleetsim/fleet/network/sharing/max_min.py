"""Rates of clients that transmit at once over links that they share: max-min fair.

Wireless clients are spread over cells; all that the clients of a cell move in one direction over
the cellular network goes through the cell, and what all clients move, those on Wi-Fi and on cables
too, through the server's own link. No client moves more than its own channel lets it.

What a cell gives is either its band, of which each client has a part (`band`), or a capacity in
bit/s. A division is max-min fair if nobody can get more without somebody who has no more getting
less: of the band in a cell that shares it, of the rate elsewhere. It is found by progressive
filling (Bertsekas & Gallager, Data Networks, 2nd edition, section 6.5): all parts rise together,
and a client stays where its channel, its cell or the server's link is full. As every client crosses
its cell first and the server's link next, cells with capacities give

    rate = min(own, level of its cell, level of the server)
    level of a link: the L with sum of min(rate so far, L) = capacity; none if it is not full

In a shared band who is held up by the server's link takes a smaller part, which leaves more to the
others of its cell; the level of the server is the L at which the rates of all, divided anew under
min(own, L), add up to its capacity.

Ways up and down are apart. `flows` says how transfers go over time under these rates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import numpy as np
from pydantic import Field, model_validator

from fleetsim import rng
from fleetsim.contracts import BoolArray, FloatArray, IntArray
from fleetsim.fleet.network.direction import ROW, Direction
from fleetsim.fleet.network.sharing.band import Band
from fleetsim.fleet.network.wireless.rate import Modem
from fleetsim.schema.effects import CELLULAR, by_key
from fleetsim.schema.ranges import RateBitPerS
from fleetsim.settings import Settings

Capacity = RateBitPerS | None


class SharedLinksSettings(Settings):
    """Links that transfers of several clients share; null: none."""

    acts_if = by_key(
        cells=CELLULAR,
        cell_up_bit_per_s=CELLULAR,
        cell_down_bit_per_s=CELLULAR,
    )

    cells: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Number of cells; every wireless client is in one of them, drawn uniformly, and shares its
    band with the others there. null: one if a capacity of a cell is given, otherwise none."""
    cell_up_bit_per_s: Capacity = None
    """What all clients of a cell together can send over the cellular network, whatever its band;
    null: what their parts of the band carry, or no limit where `fleet.channel` has no band."""
    cell_down_bit_per_s: Capacity = None
    """What all clients of a cell together can receive over the cellular network, whatever its
    band; null: as on the way up."""
    server_in_bit_per_s: Capacity = None
    """What the server can receive from all clients together; null: no limit."""
    server_out_bit_per_s: Capacity = None
    """What the server can send to all clients together; null: no limit."""

    @property
    def has_capacities(self) -> bool:
        """Whether cells have a capacity in bit/s in either direction."""
        return self.cell_up_bit_per_s is not None or self.cell_down_bit_per_s is not None

    @property
    def num_cells(self) -> int:
        """Number of cells whose clients share something; 0: every client has its own."""
        if self.cells is not None:
            return self.cells
        return 1 if self.has_capacities else 0

    @model_validator(mode="after")
    def _limits_something(self) -> SharedLinksSettings:
        if self.num_cells == 0 and self.server_in_bit_per_s is self.server_out_bit_per_s is None:
            raise ValueError(
                "limits nothing; give cells, or a capacity such as server_in_bit_per_s, or leave it"
                " out"
            )
        return self


@dataclass(frozen=True, slots=True, eq=False)
class SharedLinks:
    """The cells of N clients, and how much goes through them and through the server's link."""

    cell: IntArray
    """Cell of every client [N]; one past the last for wired clients, who are in none."""
    cell_bit_per_s: Mapping[Direction, FloatArray]
    """Capacity of each cell [C + 1] by direction, inf: no limit; the last is for transfers that go
    through no cell."""
    server_bit_per_s: Mapping[Direction, float]
    """Capacity of the server's link by direction; inf: no limit."""
    band: Mapping[Direction, Band]
    """The band of each cell in the directions in which its clients share it."""

    def cells_of(self, clients: IntArray, on_wifi: BoolArray) -> IntArray:
        """Cells that transfers of clients [n] go through, one past the last for none [n].

        Args:
            clients: who transfers [n].
            on_wifi: which of them do so over Wi-Fi [n].
        """
        no_cell = self.cell_bit_per_s[Direction.UP].size - 1
        return np.where(on_wifi, no_cell, self.cell[clients])

    def fair_bit_per_s(
        self,
        cells: IntArray,
        direction: Direction,
        own_bit_per_s: FloatArray,
        channel_bit_per_s: FloatArray,
        multiple: FloatArray | None = None,
    ) -> FloatArray:
        """Max-min fair rates of transfers [n] at the same time.

        Args:
            cells: cell that each goes through [n], as of `cells_of`.
            direction: which way.
            own_bit_per_s: what channel, modem and transport of each allow [n], >= 0; 0 for who
                waits.
            channel_bit_per_s: what the channel of each would carry over the whole band of its cell
                [n], at least the former where that is not 0.
            multiple: multiple of the rates of every client that is in these [n]; None: 1.
        """
        server_bit_per_s = self.server_bit_per_s[direction]
        band = self.band.get(direction)
        if band is None:
            cell_bit_per_s = self.cell_bit_per_s[direction]
            return fair_rates(own_bit_per_s, cells, cell_bit_per_s, server_bit_per_s)
        rate_bit_per_s = np.zeros(cells.size)
        on = np.flatnonzero(own_bit_per_s > 0.0)
        num_cells = self.cell_bit_per_s[direction].size - 1
        rates = partial(
            rates_in_bands,
            own_bit_per_s[on],
            channel_bit_per_s[on],
            np.ones(on.size) if multiple is None else multiple[on],
            cells[on],
            band,
            num_cells,
        )
        rate_bit_per_s[on] = rates(np.inf)
        if rate_bit_per_s.sum() > server_bit_per_s:
            rate_bit_per_s[on] = rates(
                _server_level(rates, server_bit_per_s, float(rate_bit_per_s.max()))
            )
        return rate_bit_per_s


def _server_level(
    rates: Callable[[float], FloatArray], server_bit_per_s: float, top_bit_per_s: float
) -> float:
    """The most that each may get so that all together get what the server's link carries.

    Args:
        rates: rates of all under such a limit, falling with it.
        server_bit_per_s: what the link carries.
        top_bit_per_s: highest rate without a limit, with which all get more than that.
    """
    # Few runs need scipy, which takes long to import.
    from scipy.optimize import brentq  # noqa: PLC0415

    return float(
        brentq(
            lambda most: float(rates(most).sum()) - server_bit_per_s,
            0.0,
            top_bit_per_s,
            xtol=1e-12 * top_bit_per_s,
            rtol=1e-14,
        )
    )


def build_shared_links(
    settings: SharedLinksSettings,
    *,
    seed: int,
    wired_bit_per_s: FloatArray,
    modem: Modem | None = None,
) -> SharedLinks:
    """Spread the clients over the cells.

    Client i is in the same cell whatever the size N of the fleet.

    Args:
        settings: what is shared.
        seed: the scenario's seed.
        wired_bit_per_s: rate of every wired client [N]; NaN: wireless.
        modem: what the clients send and receive with, over the band of their cell; None: the
            channel has no band.
    """
    draw = rng.stream(seed, "cell").random(wired_bit_per_s.size)
    cell = (draw * settings.num_cells).astype(np.int64)
    cell[~np.isnan(wired_bit_per_s)] = settings.num_cells
    cell.flags.writeable = False

    def cells(capacity: float | None) -> FloatArray:
        bit_per_s = np.full(settings.num_cells + 1, np.inf if capacity is None else capacity)
        bit_per_s[-1] = np.inf
        bit_per_s.flags.writeable = False
        return bit_per_s

    incoming, outgoing = settings.server_in_bit_per_s, settings.server_out_bit_per_s
    return SharedLinks(
        cell=cell,
        cell_bit_per_s={
            Direction.DOWN: cells(settings.cell_down_bit_per_s),
            Direction.UP: cells(settings.cell_up_bit_per_s),
        },
        server_bit_per_s={
            Direction.DOWN: np.inf if outgoing is None else outgoing,
            Direction.UP: np.inf if incoming is None else incoming,
        },
        band={}
        if modem is None or settings.num_cells == 0
        else {
            way: Band(
                modem.bandwidth_hz[ROW[way]],
                is_up=way == Direction.UP,
                most_bit_per_s_per_hz=modem.cap_bit_per_s_per_hz,
            )
            for way, capacity in (
                (Direction.DOWN, settings.cell_down_bit_per_s),
                (Direction.UP, settings.cell_up_bit_per_s),
            )
            if capacity is None
        },
    )


def rates_in_bands(
    own_bit_per_s: FloatArray,
    channel_bit_per_s: FloatArray,
    multiple: FloatArray,
    cell: IntArray,
    band: Band,
    num_cells: int,
    most_bit_per_s: float,
) -> FloatArray:
    """Rates of n flows [n] whose cells' bands are divided max-min fair.

    Args:
        own_bit_per_s: the most that each may get [n], >= 0.
        channel_bit_per_s: what each would get of the whole band without its modem's and transport's
            limits [n].
        multiple: multiple of the band's rates that is in both [n].
        cell: cell of each [n]; `num_cells`: none.
        band: the band of every cell.
        num_cells: number of cells.
        most_bit_per_s: nobody gets more; inf: no limit.

    >>> own, band = np.array([8e6, 8e6, 1e6, 9e6]), Band(1e6, is_up=False)
    >>> rates_in_bands(own, np.full(4, 8e6), np.ones(4), np.array([0, 0, 0, 1]), band, 1, np.inf)
    array([3500000., 3500000., 1000000., 9000000.])
    """
    wanted_bit_per_s = np.minimum(own_bit_per_s, most_bit_per_s)
    rows = np.flatnonzero(cell < num_cells)
    whole_bit_per_s = channel_bit_per_s[rows] / multiple[rows]
    part = np.zeros(cell.size)
    part[rows] = band.parts(whole_bit_per_s, wanted_bit_per_s[rows] / multiple[rows])
    capacity = np.ones(num_cells + 1)
    capacity[-1] = np.inf
    level = levels(part, cell, capacity)
    is_less = level[cell[rows]] < part[rows]
    rows, whole_bit_per_s = rows[is_less], whole_bit_per_s[is_less]
    carried = band.rates_bit_per_s(whole_bit_per_s, level[cell[rows]]) * multiple[rows]
    wanted_bit_per_s[rows] = np.minimum(wanted_bit_per_s[rows], carried)
    return wanted_bit_per_s


def fair_rates(
    own_bit_per_s: FloatArray, cell: IntArray, cell_bit_per_s: FloatArray, server_bit_per_s: float
) -> FloatArray:
    """Max-min fair rates of n flows [n] through their cells and then one link for all.

    Args:
        own_bit_per_s: the most that each may get [n], >= 0.
        cell: cell of each [n].
        cell_bit_per_s: capacity of each cell [C], inf: no limit.
        server_bit_per_s: capacity of the common link, inf: no limit.

    >>> own, cell = np.array([1.0, 9.0, 9.0, 9.0]), np.array([0, 0, 0, 1])
    >>> fair_rates(own, cell, np.array([9.0, 6.0]), np.inf)  # 8 for two, 6 for one
    array([1., 4., 4., 6.])
    >>> fair_rates(own, cell, np.array([9.0, 6.0]), 10.0)  # less than 14: 9 for three
    array([1., 3., 3., 3.])
    """
    rate_bit_per_s = own_bit_per_s.copy()
    if cell_bit_per_s.min() < np.inf:
        level = levels(rate_bit_per_s, cell, cell_bit_per_s)
        rate_bit_per_s = np.minimum(rate_bit_per_s, level[cell])
    if server_bit_per_s < np.inf:
        everybody = np.zeros(cell.size, dtype=np.int64)
        level = levels(rate_bit_per_s, everybody, np.array([server_bit_per_s]))
        rate_bit_per_s = np.minimum(rate_bit_per_s, level[0])
    return rate_bit_per_s


def levels(
    most_bit_per_s: FloatArray, link: IntArray, capacity_bit_per_s: FloatArray
) -> FloatArray:
    """Up to which rate each link [L] is shared evenly; inf where it is not full.

    What is left of a link is divided evenly among the flows not yet served; those that want less
    get what they want, which leaves more to the others. Every round of this serves a flow or is the
    last, so there are at most n + 1 of them; mostly there are three or four, of O(n + L) each.

    Args:
        most_bit_per_s: the most that each flow may get [n].
        link: link of each flow [n].
        capacity_bit_per_s: of each link [L].
    """
    num = capacity_bit_per_s.size
    is_served = np.zeros(link.size, dtype=np.bool_)
    left_bit_per_s, num_left = capacity_bit_per_s, np.bincount(link, minlength=num)
    while True:
        level = np.full(num, np.inf)
        np.divide(left_bit_per_s, num_left, out=level, where=num_left > 0)
        is_less = most_bit_per_s < level[link]
        is_less &= ~is_served
        if not is_less.any():
            return level
        is_served |= is_less
        taken_bit_per_s = np.bincount(link, most_bit_per_s * is_served, minlength=num)
        left_bit_per_s = capacity_bit_per_s - taken_bit_per_s
        num_left = np.bincount(link, ~is_served, minlength=num)
