"""Channels whose rates are given: the same for every wireless client, or measured ones."""

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from fleetsim.contracts import BoolArray
from fleetsim.fleet.devices.profile import RadioProfile
from fleetsim.fleet.network.channels.settings import CellularLinks, TransferSettings
from fleetsim.fleet.network.measured_links import NetShift, build_net_links
from fleetsim.fleet.traces.followed_records import FollowedRecords
from fleetsim.fleet.traces.network.files import load_net_trace
from fleetsim.schema.key_conditions import CELLULAR, by_key
from fleetsim.schema.ranges import RateBitPerS
from fleetsim.units import MS_PER_S


class ConstantSettings(TransferSettings):
    """The same rates for every wireless client, always."""

    acts_if = by_key(down_bit_per_s=CELLULAR, up_bit_per_s=CELLULAR)

    kind: Literal["constant"] = "constant"
    down_bit_per_s: RateBitPerS
    """Rate from the server to a client."""
    up_bit_per_s: RateBitPerS
    """Rate from a client to the server."""

    def build(
        self, *, seed: int, is_wired: BoolArray, radio: RadioProfile | None = None
    ) -> CellularLinks:
        """Return links whose rates never change; see `TransferSettings.build`."""
        fixed_bit_per_s = np.empty((2, is_wired.size))
        fixed_bit_per_s[:] = [[self.down_bit_per_s], [self.up_bit_per_s]]
        return CellularLinks(fixed_bit_per_s)

    def radio_in_use(self, radio: RadioProfile) -> RadioProfile:
        """Return the radio as it is: it may sleep between packets, which arrive at this rate."""
        return radio


class TraceSettings(TransferSettings):
    """Measured rates: every wireless client follows one record of a network trace."""

    acts_if = by_key(shift=CELLULAR, rate_scale=CELLULAR, up_over_down=CELLULAR)

    kind: Literal["trace"] = "trace"
    trace: str
    """Network trace: bundled name, or path of a folder or file."""
    shift: NetShift = "random"
    """random: each client begins its record anywhere in it. none: at its beginning."""
    rate_scale: Annotated[float, Field(ge=1e-9, le=1e9)] = 1.0
    """Factor on all rates, such as 0.5 for a plan of half the speed."""
    up_over_down: Annotated[float, Field(ge=1e-6, le=1e6)] | None = None
    """Rate up over rate down, replacing the trace's own rates up; needed where it has none."""

    def build(
        self, *, seed: int, is_wired: BoolArray, radio: RadioProfile | None = None
    ) -> CellularLinks:
        """Read the trace and assign its records to the clients; see `TransferSettings.build`."""
        trace = load_net_trace(self.trace)
        net = build_net_links(
            trace,
            seed=seed,
            size=is_wired.size,
            shift=self.shift,
            rate_scale=self.rate_scale,
            up_over_down=self.up_over_down,
            give_up_s=self.give_up_s,
        )
        followed = FollowedRecords(
            trace.record_ids, np.where(is_wired, -1, net.record), net.shift_ms / MS_PER_S
        )
        return CellularLinks(np.full((2, is_wired.size), np.nan), changing=net, followed=followed)
