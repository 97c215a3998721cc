"""Cells and the server's link: their clients, their capacities, and the division among transfers.

All cellular traffic of a cell's clients in one direction shares the cell; all traffic of all
clients, on Wi-Fi and cables too, shares the server's own link. No client exceeds the rate of its
own channel. The two directions are independent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import numpy as np
from pydantic import Field, model_validator

from fleetsim import rng
from fleetsim.contracts import BoolArray, FloatArray, IntArray
from fleetsim.fleet.network.direction import ROW, Direction
from fleetsim.fleet.network.sharing.band import Band
from fleetsim.fleet.network.sharing.max_min import fair_rates, rates_in_bands
from fleetsim.fleet.network.wireless.rate import Modem
from fleetsim.schema.key_conditions import CELLULAR, by_key
from fleetsim.schema.ranges import RateBitPerS
from fleetsim.settings import Settings

Capacity = RateBitPerS | None


@dataclass(frozen=True, slots=True, eq=False)
class SharedLinks:
    """Cells of N clients, and the capacities of cells and of the server's link."""

    cell: IntArray
    """Cell of every client [N]; one past the last for wired clients, which are in none."""
    cell_bit_per_s: Mapping[Direction, FloatArray]
    """Capacity of each cell [C + 1] by direction, inf: no limit; the last is for transfers outside
    cells."""
    server_bit_per_s: Mapping[Direction, float]
    """Capacity of the server's link by direction; inf: no limit."""
    band: Mapping[Direction, Band]
    """Band of each cell, in the directions in which its clients share it."""

    def cells_of(self, clients: IntArray, on_wifi: BoolArray) -> IntArray:
        """Return the cells that transfers of clients use [n], one past the last for none."""
        no_cell = self.cell_bit_per_s[Direction.UP].size - 1
        return np.where(on_wifi, no_cell, self.cell[clients])

    def fair_bit_per_s(
        self,
        cells: IntArray,
        direction: Direction,
        demand_bit_per_s: FloatArray,
        channel_bit_per_s: FloatArray,
        multiple: FloatArray | None = None,
    ) -> FloatArray:
        """Return max-min fair rates of transfers [n] at the same time.

        Cells are those of `cells_of`; rates and multiples (None: 1) are those of `rates_in_bands`.
        The demand of a transfer that waits is 0; a channel carries at least the demand.
        """
        server_bit_per_s = self.server_bit_per_s[direction]
        band = self.band.get(direction)
        if band is None:
            cell_bit_per_s = self.cell_bit_per_s[direction]
            return fair_rates(demand_bit_per_s, cells, cell_bit_per_s, server_bit_per_s)
        rate_bit_per_s = np.zeros(cells.size)
        on = np.flatnonzero(demand_bit_per_s > 0.0)
        num_cells = self.cell_bit_per_s[direction].size - 1
        rates = partial(
            rates_in_bands,
            demand_bit_per_s[on],
            channel_bit_per_s[on],
            np.ones(on.size) if multiple is None else multiple[on],
            cells[on],
            band,
            num_cells,
        )
        rate_bit_per_s[on] = rates(np.inf)
        if rate_bit_per_s.sum() > server_bit_per_s:
            # Few runs need scipy, and its import is slow.
            from scipy.optimize import brentq  # noqa: PLC0415

            # The limit on each rate at which all rates add up to the capacity of the server's link.
            top_bit_per_s = float(rate_bit_per_s.max())
            level_bit_per_s = brentq(
                lambda most: float(rates(most).sum()) - server_bit_per_s,
                0.0,
                top_bit_per_s,
                xtol=1e-12 * top_bit_per_s,
                rtol=1e-14,
            )
            rate_bit_per_s[on] = rates(float(level_bit_per_s))
        return rate_bit_per_s


class SharedLinksSettings(Settings):
    """Links that transfers of several clients share; null: none."""

    acts_if = by_key(cells=CELLULAR, cell_up_bit_per_s=CELLULAR, cell_down_bit_per_s=CELLULAR)

    cells: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Number of cells. Every wireless client is in one of them, drawn uniformly, and shares its
    band with the others there. null: one if a capacity of a cell is given, otherwise none."""
    cell_up_bit_per_s: Capacity = None
    """Highest rate that all clients of a cell together send over the cellular network, at any band;
    null: that of their parts of the band, or no limit if `fleet.channel` has no band."""
    cell_down_bit_per_s: Capacity = None
    """Highest rate that all clients of a cell together receive over the cellular network, at any
    band; null: as for sending."""
    server_in_bit_per_s: Capacity = None
    """Highest rate that the server receives from all clients together; null: no limit."""
    server_out_bit_per_s: Capacity = None
    """Highest rate that the server sends to all clients together; null: no limit."""

    @property
    def has_capacities(self) -> bool:
        """Return whether cells have a capacity in bit/s in either direction."""
        return self.cell_up_bit_per_s is not None or self.cell_down_bit_per_s is not None

    @property
    def num_cells(self) -> int:
        """Number of cells whose clients share something; 0: no client shares a cell."""
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

    def build(
        self, *, seed: int, wired_bit_per_s: FloatArray, modem: Modem | None = None
    ) -> SharedLinks:
        """Assign the clients to cells; client i to the same whatever the size N of the fleet.

        `wired_bit_per_s` is NaN for wireless clients [N]; `modem` is that of the clients over the
        band of their cell, None if the channel has no band.
        """
        draw = rng.stream(seed, "cell").random(wired_bit_per_s.size)
        cell = (draw * self.num_cells).astype(np.int64)
        cell[~np.isnan(wired_bit_per_s)] = self.num_cells
        cell.flags.writeable = False

        def limit(capacity: Capacity) -> float:
            return np.inf if capacity is None else capacity

        cell_bit_per_s, band = {}, {}
        for way, capacity in (
            (Direction.DOWN, self.cell_down_bit_per_s),
            (Direction.UP, self.cell_up_bit_per_s),
        ):
            cell_bit_per_s[way] = np.append(np.full(self.num_cells, limit(capacity)), np.inf)
            cell_bit_per_s[way].flags.writeable = False
            if modem is not None and self.num_cells and capacity is None:
                band[way] = Band(
                    modem.bandwidth_hz[ROW[way]],
                    is_up=way == Direction.UP,
                    most_bit_per_s_per_hz=modem.cap_bit_per_s_per_hz,
                    modulations=modem.modulations and modem.modulations[ROW[way]],
                )
        server_bit_per_s = {
            Direction.DOWN: limit(self.server_out_bit_per_s),
            Direction.UP: limit(self.server_in_bit_per_s),
        }
        return SharedLinks(cell, cell_bit_per_s, server_bit_per_s, band)
