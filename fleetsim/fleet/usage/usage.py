"""Usage of devices by their owners at any moment: online, charging, network, load and memory.

Each client of a kind that people carry follows one user's record of a `Trace`, which repeats. Each
other client is always online, on the mains, without load and without apps. The record of a client
is drawn from an addressed stream, so it does not depend on the number of clients.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, model_validator

from fleetsim import rng
from fleetsim.contracts import BoolArray, FloatArray, IntArray
from fleetsim.fleet.columns import Columns
from fleetsim.fleet.devices.profile_files import DeviceKind
from fleetsim.fleet.network.wifi_or_cellular import AS_RECORDED, UNMETERED
from fleetsim.fleet.traces.followed_records import FollowedRecords, assign_shuffled
from fleetsim.fleet.traces.periodic import PeriodicSteps, Schedule
from fleetsim.fleet.traces.usage.records import DAY_S, HOUR_S, MOST_UTC_OFFSET_H, Unknown
from fleetsim.fleet.traces.usage.trace import Trace, joined
from fleetsim.fleet.usage.synthetic import SyntheticUsageSettings
from fleetsim.read_only import freeze
from fleetsim.schema import faults
from fleetsim.schema.distinct import Distinct
from fleetsim.schema.key_conditions import (
    CARRIED,
    KIND_IN_FLEET,
    PEOPLE,
    PEOPLE_NAMED,
    ActsIf,
    beside_any,
    by_key,
)
from fleetsim.schema.ranges import OffsetS
from fleetsim.settings import Settings

Shift = Literal["days", "none"]

_AHEAD = ActsIf(
    lambda usage, _: any(zone.utc_offset_h != 0.0 for zone in usage.time_zones),
    "all clocks show virtual time, as they do without time zones",
    "set a utc_offset_h other than 0",
)


class TimeZoneSettings(Settings):
    """A time zone, and its share of the clients."""

    utc_offset_h: Annotated[float, Field(ge=-MOST_UTC_OFFSET_H, le=MOST_UTC_OFFSET_H)]
    """Hours by which local clocks are ahead of virtual time."""
    weight: Annotated[float, Field(ge=1e-9, le=1e9)]
    """Share of the clients, relative to the weights of the other zones."""


class UsageSettings(Settings):
    """Usage of the devices by their owners."""

    acts_if = by_key(
        trace=CARRIED,
        synthetic=CARRIED,
        shift=PEOPLE,
        starts_at_s=PEOPLE,
        time_zones=(PEOPLE, _AHEAD),
        unknown=(PEOPLE, beside_any("trace", "set it")),
        pair=PEOPLE,
        kinds=PEOPLE_NAMED,
    )
    entries_act_if = by_key(kinds=(KIND_IN_FLEET,))

    trace: str | None = None
    """Usage trace: bundled name or path. Without one all clients are always online, charging and
    without load, on the network of `fleet.network`."""
    synthetic: SyntheticUsageSettings | None = None
    """Synthetic availability of a given mean instead of a trace."""
    shift: Shift = "days"
    """days: each client starts at a random whole day of its user's record, so that clients with the
    same user differ and nights stay at night. none: all clients start at the beginning."""
    starts_at_s: OffsetS = 0
    """Second of the records at which virtual time begins, such as 68400 for seven in the evening:
    records begin at midnight, those of people-week on a Monday."""
    time_zones: Annotated[
        tuple[TimeZoneSettings, ...],
        Distinct("utc_offset_h", "name it once, with the sum of the weights"),
    ] = ()
    """Time zones of the clients, drawn by weight; empty: all clocks show virtual time."""
    unknown: Unknown = "hold"
    """State at times without any sample, in traces that mark them: hold keeps the last known state,
    offline makes the client unreachable."""
    pair: Literal["owner"] | None = None
    """owner: a client follows the record of the person whose data it has, by the name of both, and
    only people with a record are drawn; needs the partition `natural`. null: records are drawn."""
    kinds: Annotated[tuple[DeviceKind, ...], Field(min_length=1), Distinct()] = ("phone",)
    """Kinds of device that people carry; devices of other kinds are always on, on the mains."""

    @model_validator(mode="after")
    def _is_one_source(self) -> UsageSettings:
        if self.trace is not None and self.synthetic is not None:
            raise ValueError("trace and synthetic are both given; leave one out")
        if self.time_zones and self.trace is None and self.synthetic is None:
            raise ValueError("time_zones need people; give trace or synthetic")
        if self.pair is not None and self.trace is None:
            raise faults.at(("pair",), "needs the trace of the same people; give fleet.usage.trace")
        return self


@dataclass(frozen=True, slots=True, eq=False)
class States(Columns):
    """States of clients, each [n]."""

    online: BoolArray
    """True if the server can reach it."""
    charging: BoolArray
    unmetered: BoolArray
    """True on Wi-Fi (or a cable), where bytes cost nothing; False on a cellular network."""
    load: FloatArray
    """Fraction of the processor that other apps take, in [0, 1)."""
    ram_byte: IntArray

    def __post_init__(self) -> None:
        freeze(*self.columns)

    @property
    def columns(self) -> tuple[BoolArray, BoolArray, BoolArray, FloatArray, IntArray]:
        """Every column [n], in the order of the fields."""
        return self.online, self.charging, self.unmetered, self.load, self.ram_byte


class OneState(NamedTuple):
    """State of one client; fields as those of `States`."""

    online: bool
    charging: bool
    unmetered: bool
    load: float
    ram_byte: int


@dataclass(frozen=True, slots=True, eq=False)
class Usage:
    """Usage of N clients; made by `build_usage`."""

    user: IntArray
    """Index of the user whose record each client follows [N]; -1: always on."""
    steps: PeriodicSteps
    states: States
    load_steps_of: PeriodicSteps
    load: FloatArray
    """Load of each step of `load_steps_of`, in which only the load changes."""
    user_ids: tuple[str, ...] = ()
    """Name of every user of the trace [U]; none without a trace."""

    def __post_init__(self) -> None:
        freeze(self.user, self.load)

    @property
    def shift_s(self) -> IntArray:
        """Seconds by which each client is ahead of its user's record [N]."""
        return self.steps.shift_s

    @property
    def followed(self) -> FollowedRecords | None:
        """Record and shift of every client; None without a trace."""
        if not self.user_ids:
            return None
        return FollowedRecords(self.user_ids, self.user, self.shift_s.astype(np.float64))

    def state_at(self, clients: IntArray, t_s: ArrayLike) -> States:
        """Return the states of clients [n] at `t_s` (a time for all, or one each [n])."""
        return self.states.take(self.steps.step_at(clients, t_s))

    def state_at_one(self, client: int, t_s: float) -> OneState:
        """Return `state_at` of one client, twenty times as fast."""
        step = self.steps.locate_one(client, t_s)[1]
        return OneState._make(column.item(step) for column in self.states.columns)

    def is_unmetered_at(self, clients: IntArray, t_s: ArrayLike) -> BoolArray:
        """Return True for clients [n] on an unmetered network at `t_s`."""
        return self.states.unmetered[self.steps.step_at(clients, t_s)]

    def ram_byte_at(self, clients: IntArray, t_s: ArrayLike) -> IntArray:
        """Return the memory that other apps of clients [n] take at `t_s`."""
        return self.states.ram_byte[self.steps.step_at(clients, t_s)]

    def next_with_ram_s(self, client: int, t_s: float, most_byte: float) -> float:
        """Return the first time from `t_s` on at which apps take at most so much; inf: never."""
        row, step, second, local_s = self.steps.locate_one(client, t_s)
        first, end = self.steps.offsets[row : row + 2].tolist()
        is_little = self.states.ram_byte[first:end] <= most_byte
        if is_little[step - first]:
            return t_s
        wait_s = (self.steps.times_s[first:end][is_little] - local_s) % self.steps.span_s[row]
        return float(second + wait_s.min()) if wait_s.size else math.inf

    def load_after(self, clients: IntArray, t_s: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the load of clients [n] at `t_s` [n], and until when [n]; inf: for ever."""
        step, until_s = self.load_steps_of.step_and_change(clients, t_s)
        return self.load[step], until_s

    def eligible_schedule(self, charging_required: bool, unmetered_required: bool) -> Schedule:
        """Return when each client is online, and charging and unmetered if these are required."""
        holds = np.ones_like(self.states.online)
        if charging_required:
            holds &= self.states.charging
        if unmetered_required:
            holds &= self.states.unmetered
        return self.schedule_where(holds)

    def schedule_where(self, holds: BoolArray) -> Schedule:
        """Return when each client is online in steps for which `holds` [C] is True."""
        return Schedule.of(self.steps, self.states.online & holds)

    def charging_schedule(self) -> Schedule:
        """Return when each client is on the charger, online or not."""
        return Schedule.of(self.steps, self.states.charging)


def build_usage(
    trace: Trace | None,
    *,
    seed: int,
    has_people: BoolArray,
    shift: Shift = "days",
    starts_at_s: int | IntArray = 0,
    forced_network: IntArray | None = None,
    user_of: IntArray | None = None,
) -> Usage:
    """Assign the users of a trace (None: all clients are always on) to the clients.

    The user of client i does not depend on the number of clients, nor on the other clients' kinds.
    Clients without people [N] are always on; `user_of` gives users instead of drawn ones [N].
    Virtual time begins at second `starts_at_s` of the records, for all or each [N];
    `forced_network` is that of `network.forced_networks`.
    """
    size = has_people.size
    if trace is None:
        user, shift_s = np.full(size, -1, dtype=np.int64), np.zeros(size, dtype=np.int64)
    else:
        if user_of is None:
            user_of = assign_shuffled(trace.num_users, size, seed=seed, purpose="usage/user")
        user = np.where(has_people, user_of, -1)
        num_days = np.maximum(trace.span_s // DAY_S, 1)[user]
        draw = rng.stream(seed, "usage/shift").random(size)
        days = np.floor(draw * num_days).astype(np.int64)
        shift_s = np.where(has_people & (shift == "days"), days * DAY_S, 0)
        shift_s = shift_s + np.asarray(starts_at_s, dtype=np.int64)
    records = _ALWAYS_ON if trace is None else joined([trace, _ALWAYS_ON])
    row = np.where(user < 0, records.num_users - 1, user)
    if forced_network is not None:
        forms = np.unique(forced_network)
        row = row + np.searchsorted(forms, forced_network) * records.num_users
        records = joined([_on_network(form, records) for form in forms.tolist()])
    followed = (row, shift_s, records.span_s, records.offsets, records.times_s)
    steps, kept = PeriodicSteps.merged(*followed, records.columns)
    loads, kept_loads = PeriodicSteps.merged(*followed, (records.load,))
    return Usage(
        user,
        steps,
        States(*records.columns).take(kept),
        loads,
        records.load[kept_loads],
        () if trace is None else trace.user_ids,
    )


def assign_time_zones(zones: tuple[TimeZoneSettings, ...], *, seed: int, size: int) -> IntArray:
    """Return the seconds by which each client follows its record ahead [N]; 0 without zones.

    At virtual second 0 (midnight, or `starts_at_s`) the clock of a client whose zone is h hours
    ahead shows h. The zone of client i does not depend on the number of clients.
    """
    if not zones:
        return np.zeros(size, dtype=np.int64)
    share = np.cumsum([zone.weight for zone in zones])
    offset_s = np.array([round(zone.utc_offset_h * HOUR_S) for zone in zones], dtype=np.int64)
    draw = rng.stream(seed, "usage/time-zone").random(size) * share[-1]
    ahead_s: IntArray = offset_s[np.searchsorted(share, draw, side="right")]
    return ahead_s


_ALWAYS_ON = Trace(
    name="always on",
    user_ids=("",),
    span_s=np.ones(1, dtype=np.int64),
    offsets=np.array([0, 1]),
    times_s=np.zeros(1, dtype=np.int64),
    online=np.ones(1, dtype=np.bool_),
    charging=np.ones(1, dtype=np.bool_),
    unmetered=np.ones(1, dtype=np.bool_),
    load=np.zeros(1),
    ram_byte=np.zeros(1, dtype=np.int64),
)
"""Record of clients without people."""


def _on_network(form: int, records: Trace) -> Trace:
    """Return records on the network that a client may have: one form of `forced_networks`."""
    if form == AS_RECORDED:
        return records
    return replace(records, unmetered=np.full(records.num_changes, form == UNMETERED))
