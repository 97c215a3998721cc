"""Channels whose rates are given: the same for every wireless client, or measured ones."""

import math
from typing import Annotated, Final, Literal

import numpy as np
from pydantic import Field

from fleetsim import rng
from fleetsim.contracts import BoolArray
from fleetsim.errors import ScenarioError
from fleetsim.fleet.devices.profile import RadioProfile
from fleetsim.fleet.network.channels.settings import CellularLinks, TransferSettings
from fleetsim.fleet.network.measured_links import NetLinks, NetSteps
from fleetsim.fleet.traces.followed_records import FollowedRecords, assign_shuffled
from fleetsim.fleet.traces.network.files import load_net_trace
from fleetsim.fleet.traces.network.trace import MAX_BIT_PER_S, NetTrace
from fleetsim.schema.key_conditions import CELLULAR, by_key
from fleetsim.schema.ranges import RateBitPerS
from fleetsim.units import MS_PER_S

_MAX_STEPS: Final = 10_000_000
"""Most steps of one transfer: its timeline has a segment for each in memory."""


class ConstantSettings(TransferSettings):
    """The same rates for every wireless client, always."""

    acts_if = by_key(down_bit_per_s=CELLULAR, up_bit_per_s=CELLULAR)

    kind: Literal["constant"] = "constant"
    down_bit_per_s: RateBitPerS
    """Rate from the server to a client."""
    up_bit_per_s: RateBitPerS
    """Rate from a client to the server."""

    def build(self, *, seed: int, is_wired: BoolArray, radio: RadioProfile | None) -> CellularLinks:
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
    shift: Literal["random", "none"] = "random"
    """random: each client begins its record anywhere in it. none: at its beginning."""
    rate_scale: Annotated[float, Field(ge=1e-9, le=1e9)] = 1.0
    """Factor on all rates, such as 0.5 for a plan of half the speed."""
    up_over_down: Annotated[float, Field(ge=1e-6, le=1e6)] | None = None
    """Rate up over rate down, replacing the trace's own rates up; needed where it has none."""

    def build(self, *, seed: int, is_wired: BoolArray, radio: RadioProfile | None) -> CellularLinks:
        """Read the trace and assign its records to the clients; see `TransferSettings.build`."""
        trace = load_net_trace(self.trace)
        net = self.links_of(trace, seed=seed, size=is_wired.size)
        followed = FollowedRecords(
            trace.record_ids, np.where(is_wired, -1, net.record), net.shift_ms / MS_PER_S
        )
        return CellularLinks(np.full((2, is_wired.size), np.nan), changing=net, followed=followed)

    def links_of(self, trace: NetTrace, *, seed: int, size: int) -> NetLinks:
        """Assign the records of a trace to N clients."""
        down_bit_per_s, up_bit_per_s = trace.down_bit_per_s * self.rate_scale, trace.up_bit_per_s
        if self.up_over_down is not None:
            up_bit_per_s = trace.down_bit_per_s * self.up_over_down
        if up_bit_per_s is None:
            raise ScenarioError(
                f"fleet.channel.up_over_down: missing, and {trace.name} has no up_bit_per_s; give"
                " the rate up over the rate down, such as 0.25"
            )
        up_bit_per_s = up_bit_per_s * self.rate_scale
        highest = float(max(down_bit_per_s.max(), up_bit_per_s.max()))
        if highest > MAX_BIT_PER_S:
            raise ScenarioError(
                f"fleet.channel.rate_scale = {self.rate_scale:g}: makes rates of {highest:g} bit/s,"
                f" over {MAX_BIT_PER_S:g}; lower it"
            )
        laps = math.ceil(self.give_up_s * MS_PER_S) / trace.span_ms + 1.0
        if float((laps * np.diff(trace.offsets)).max()) > _MAX_STEPS:
            raise ScenarioError(
                f"fleet.channel.give_up_s = {self.give_up_s:g}: spans over {_MAX_STEPS:g} samples"
                f" of {trace.name}; lower it"
            )
        record = assign_shuffled(trace.num_records, size, seed=seed, purpose="network/trace")
        draw = rng.stream(seed, "network/shift").random(size)
        shift_ms = np.floor(draw * trace.span_ms[record]).astype(np.int64)
        shift_ms *= self.shift == "random"
        steps = NetSteps.of(trace, down_bit_per_s), NetSteps.of(trace, up_bit_per_s)
        return NetLinks(record, shift_ms, trace.span_ms, steps)
