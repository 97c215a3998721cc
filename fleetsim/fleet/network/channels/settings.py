"""Settings that every kind of cellular channel has, and the links that each kind provides."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Protocol

from pydantic import Field, model_validator

from fleetsim.contracts import BoolArray, FloatArray, IntArray
from fleetsim.fleet.devices.profile import RadioProfile
from fleetsim.fleet.network.arrivals import SuccessSettings
from fleetsim.fleet.network.direction import Direction
from fleetsim.fleet.network.transfer import RateSteps, TransferRequests
from fleetsim.fleet.network.wireless.cell import Cell
from fleetsim.fleet.timeline import TimelineGroups
from fleetsim.fleet.traces.followed_records import FollowedRecords
from fleetsim.schema.distinct import Distinct
from fleetsim.schema.key_conditions import CELLULAR, UNMETERED, by_key
from fleetsim.settings import Settings

_SHARE_TOLERANCE = 1e-6


class ChangingRates(Protocol):
    """Rates of clients' links that change over time; pure functions of time."""

    def rates_at(self, clients: IntArray, direction: Direction, t_s: FloatArray) -> FloatArray:
        """Return rates in bit/s of clients [n] at moments [n]."""

    def lay_out(self, requests: TransferRequests, rows: IntArray) -> TimelineGroups:
        """Return the timelines of those transfers whose indices are `rows` [k]."""

    def steps_from(
        self, clients: IntArray, direction: Direction, t_s: FloatArray, num_steps: int
    ) -> RateSteps:
        """Return rates of clients [k] in so many steps; the first contains a moment [k]."""


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


class TransferSettings(Settings):
    """Settings of every kind of channel."""

    acts_if = by_key(unmetered_radio=UNMETERED, metered_radio=CELLULAR)

    has_band: ClassVar[bool] = False
    """True if the channel has a band that the clients of a cell can share."""
    has_distances: ClassVar[bool] = False
    """True if clients have distances from an antenna."""

    give_up_s: Annotated[float, Field(ge=1e-3, le=1e9)] = 3600.0
    """A transfer that takes longer than this fails."""
    unmetered_radio: str = "wifi"
    """Radio that a client uses on an unmetered network: bundled name or path. Bits of a Wi-Fi radio
    go over `fleet.wifi`, those of a cellular one over this channel."""
    metered_radio: str = "lte"
    """Radio that a client uses on a metered network, a cellular one: bundled name or path."""
    upload_success: Annotated[
        tuple[SuccessSettings, ...],
        Distinct("probability", "name it once, with the sum of the shares"),
    ] = (SuccessSettings(probability=1.0),)
    """Probability that an upload succeeds, whatever the link does, by share of the clients."""

    @model_validator(mode="after")
    def _shares_sum_to_one(self) -> TransferSettings:
        total = sum(success.share for success in self.upload_success)
        if abs(total - 1.0) > _SHARE_TOLERANCE:
            raise ValueError(f"the shares of upload_success must sum to 1, they sum to {total:g}")
        return self

    @abstractmethod
    def build(self, *, seed: int, is_wired: BoolArray, radio: RadioProfile | None) -> CellularLinks:
        """Return the cellular links of N clients, of which client i's is the same whatever N is.

        The modem of `radio` limits rates where the settings say so; None: no limit.
        """

    def distances_m(self, *, seed: int, size: int) -> FloatArray | None:
        """Return every client's distance from the antenna [N]; None without distances."""
        return None

    def radio_in_use(self, radio: RadioProfile) -> RadioProfile:
        """Return a cellular radio as it works over this channel."""
        # The sender always has packets waiting: the radio never sleeps between them.
        return replace(radio, drx_inactivity_s=None)

    def tx_power_fault(self, radio: RadioProfile) -> str | None:
        """Return what is wrong with the transmit power for a radio; None if nothing is."""
        return None

    def outage_fault(self, radio: RadioProfile) -> str | None:
        """Return what is wrong with the least rate for a radio; None if nothing is."""
        return None
