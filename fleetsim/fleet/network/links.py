"""Cellular links of a fleet: rates that never change, and a source of rates that do."""

from dataclasses import dataclass
from typing import Protocol

from fleetsim.contracts import FloatArray, IntArray
from fleetsim.fleet.network.direction import Direction
from fleetsim.fleet.network.transfer import RateSteps, TransferRequests
from fleetsim.fleet.network.wireless.cell import Cell
from fleetsim.fleet.timeline import TimelineGroups
from fleetsim.fleet.traces.followed_records import FollowedRecords


class ChangingRates(Protocol):
    """Rates of clients' links that change over time; pure functions of time."""

    def rates_at(self, clients: IntArray, direction: Direction, t_s: FloatArray) -> FloatArray:
        """Return rates in bit/s of clients [n] at moments [n]."""

    def lay_out(self, requests: TransferRequests, rows: IntArray) -> TimelineGroups:
        """Return the timelines of those transfers whose indices are `rows` [k]."""

    def steps_from(
        self,
        clients: IntArray,
        direction: Direction,
        t_s: FloatArray,
        num_steps: int,
        fixed_bit_per_s: FloatArray,
    ) -> RateSteps:
        """Return rates of clients [k] in so many steps, the first of which contains a moment [k].

        Where `fixed_bit_per_s` [k] is no NaN the rate is that one and never changes.
        """


@dataclass(frozen=True, slots=True, eq=False)
class CellularLinks:
    """Links of N clients over the cellular network, as a kind of channel builds them."""

    fixed_bit_per_s: FloatArray
    """Rates that never change [2, N]: row 0 down, row 1 up; NaN: ask `changing`."""
    changing: ChangingRates | None = None
    """Source of the other rates; None where there are none."""
    cell: Cell | None = None
    """Radio cell of the clients; None where the channel has no band and no signal."""
    followed: FollowedRecords | None = None
    """Records of a network trace that the clients follow; None without a trace."""
