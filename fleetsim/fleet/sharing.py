"""What clients that transmit at once get of links that they share: max-min fair rates.

Wireless clients are spread over cells; all that the clients of a cell move in one direction over
the cellular network goes through the cell, and what all clients move, those on Wi-Fi and on cables
too, through the server's own link. No
client moves more than its own channel lets it. A division of the links is max-min fair if nobody
can get more without somebody who has no more getting less. It is found by progressive filling
(Bertsekas & Gallager, Data Networks, 2nd edition, section 6.5): all rates rise together, and a
client stays where its channel, its cell or the server's link is full. As every client crosses its
cell first and the server's link next, that gives

    rate = min(own, level of its cell, level of the server)
    level of a link: the L with sum of min(rate so far, L) = capacity; none if it is not full

Ways up and down are apart. `flows` says how transfers go over time under these rates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field, model_validator

from fleetsim import rng
from fleetsim.contracts import BoolArray, FloatArray, IntArray
from fleetsim.effects import CELLULAR, by_key
from fleetsim.fleet.direction import Direction
from fleetsim.ranges import RateBitPerS
from fleetsim.settings import Settings

Capacity = RateBitPerS | None


class SharedLinksSettings(Settings):
    """Links that transfers of several clients share; null: wide enough for all."""

    acts_if = by_key(
        cells=CELLULAR,
        cell_up_bit_per_s=CELLULAR,
        cell_down_bit_per_s=CELLULAR,
    )

    cells: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    """Number of cells; every wireless client is in one of them, drawn uniformly."""
    cell_up_bit_per_s: Capacity = None
    """What all clients of a cell together can send over the cellular network."""
    cell_down_bit_per_s: Capacity = None
    """What all clients of a cell together can receive over the cellular network."""
    server_in_bit_per_s: Capacity = None
    """What the server can receive from all clients together."""
    server_out_bit_per_s: Capacity = None
    """What the server can send to all clients together."""

    @model_validator(mode="after")
    def _limits_something(self) -> SharedLinksSettings:
        is_cell_limited = self.cell_up_bit_per_s is not None or self.cell_down_bit_per_s is not None
        if self.cells > 1 and not is_cell_limited:
            raise ValueError(
                f"{self.cells} cells of no limit change nothing; give cell_up_bit_per_s or"
                " cell_down_bit_per_s"
            )
        if not is_cell_limited and self.server_in_bit_per_s is self.server_out_bit_per_s is None:
            raise ValueError(
                "limits nothing; give a capacity such as cell_up_bit_per_s, or leave it out"
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

    def cells_of(self, clients: IntArray, on_wifi: BoolArray) -> IntArray:
        """Cells that transfers of clients [n] go through, one past the last for none [n].

        Args:
            clients: who transfers [n].
            on_wifi: which of them do so over Wi-Fi [n].
        """
        no_cell = self.cell_bit_per_s[Direction.UP].size - 1
        return np.where(on_wifi, no_cell, self.cell[clients])

    def fair_bit_per_s(
        self, cells: IntArray, direction: Direction, own_bit_per_s: FloatArray
    ) -> FloatArray:
        """Max-min fair rates of transfers [n] at the same time.

        Args:
            cells: cell that each goes through [n], as of `cells_of`.
            direction: which way.
            own_bit_per_s: what the channel of each allows [n], >= 0; 0 for who waits.
        """
        return fair_rates(
            own_bit_per_s,
            cells,
            self.cell_bit_per_s[direction],
            self.server_bit_per_s[direction],
        )


def build_shared_links(
    settings: SharedLinksSettings, *, seed: int, wired_bit_per_s: FloatArray
) -> SharedLinks:
    """Spread the clients over the cells.

    Client i is in the same cell whatever the size N of the fleet. `wired_bit_per_s` [N] is the
    rate of every wired client; NaN: wireless.
    """
    draw = rng.stream(seed, "cell").random(wired_bit_per_s.size)
    cell = (draw * settings.cells).astype(np.int64)
    cell[~np.isnan(wired_bit_per_s)] = settings.cells
    cell.flags.writeable = False

    def cells(capacity: float | None) -> FloatArray:
        bit_per_s = np.full(settings.cells + 1, np.inf if capacity is None else capacity)
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
    )


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
