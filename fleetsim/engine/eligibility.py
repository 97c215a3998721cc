"""Who may take part: a rule over charger, network, battery and memory, and when it holds.

A rule is a conjunction of what it names; `all_of`, `any_of` and `none_of` hold further conditions
of the same form. It is data, never code. Online is always asked for.

Battery, memory and free memory are asked for by least values, so that a client is known to a rule
by how many of the values it reaches; of free memory, which apps take and give back, by how many of
the values, each beside all that apps ever take. For each such standing the rule is a truth of the
owner's doings alone, known for all time: a `Schedule`. An idle client's standing changes only where
its battery reaches the next value, at a moment in closed form. So who is eligible, and until when,
is exact and nothing polls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, model_validator

from fleetsim.contracts import BoolArray, FloatArray, IntArray
from fleetsim.errors import ScenarioError
from fleetsim.fleet.population import Fleet
from fleetsim.fleet.traces.periodic import Schedule
from fleetsim.fleet.usage.usage import States
from fleetsim.schema.distinct import Distinct
from fleetsim.schema.effects import BATTERIES, METERED, PEOPLE, ActsIf, by_key
from fleetsim.schema.ranges import MemoryGib, PositiveFraction
from fleetsim.settings import Settings
from fleetsim.units import BYTE_PER_GIB

Conditions = Annotated[tuple["Condition", ...], Field(min_length=1), Distinct()]
BatteryLevel = PositiveFraction
Gib = MemoryGib


_SOME_HAVE_LESS = ActsIf(
    lambda own, facts: own.min_ram_gib > facts.least_ram_gib,
    "every device of the fleet has at least so much memory",
    "raise it",
)


class Condition(Settings):
    """What is asked of a client: all that is named."""

    acts_if = by_key(
        charging=PEOPLE,
        unmetered=METERED,
        min_battery_fraction=BATTERIES,
    )

    charging: Literal[True] | None = None
    """It is on the charger."""
    unmetered: Literal[True] | None = None
    """It is on an unmetered network."""
    min_battery_fraction: BatteryLevel | None = None
    """Its battery has at least this level; true of mains-powered clients."""
    min_ram_gib: Gib | None = None
    """The device has at least so much memory."""
    min_free_ram_gib: Gib | None = None
    """At least so much of it is free beside the owner's apps, as `fleet.memory` says."""
    all_of: Conditions | None = None
    """All of these hold."""
    any_of: Conditions | None = None
    """At least one of these holds."""
    none_of: Conditions | None = None
    """None of these holds."""

    @model_validator(mode="after")
    def _asks_for_something(self) -> Condition:
        if all(value is None for _, value in self):
            raise ValueError("asks for nothing; name a condition, such as {charging: true}")
        return self


class EligibilitySettings(Settings):
    """When a client may take part, and must stop.

    The battery is asked for when a task begins; the rest holds throughout.
    """

    acts_if = by_key(
        charging=PEOPLE,
        unmetered=METERED,
        min_battery_fraction=BATTERIES,
        min_ram_gib=_SOME_HAVE_LESS,
    )

    charging: bool = False
    """Only while it is on the charger."""
    unmetered: bool = False
    """Only while it is on an unmetered network."""
    min_battery_fraction: BatteryLevel = 0.3
    """Only with at least this battery level when a task begins; mains-powered clients always."""
    min_ram_gib: Gib | None = None
    """Only devices with at least so much memory."""
    min_free_ram_gib: Gib | None = None
    """Only with at least so much memory free beside the owner's apps, as `fleet.memory` says."""
    all_of: Conditions | None = None
    """Only while all of these hold, besides the above."""
    any_of: Conditions | None = None
    """Only while at least one of these holds, besides the above."""
    none_of: Conditions | None = None
    """Only while none of these holds, besides the above."""


_Least = Literal["min_battery_fraction", "min_ram_gib", "min_free_ram_gib"]
_MOST_SIZES = 1024
"""Different sizes of apps' memory, each of which makes schedules of its own."""


class _Facts(NamedTuple):
    """What is true in every step of the owners' records [C], for one standing."""

    states: States
    min_battery_fraction: float
    """Largest of the rule's values that is reached."""
    min_ram_gib: float
    """Likewise."""
    free_byte: float
    """Memory that is free while the owner uses no app."""


def least_values(rule: Condition | EligibilitySettings, key: _Least) -> list[float]:
    """The values of a key anywhere in a rule, ascending, each once."""
    found = {getattr(part, key) for part in _parts(rule)}
    return sorted(found - {None})


def _parts(rule: Condition | EligibilitySettings) -> Iterator[Condition | EligibilitySettings]:
    """The rule and all conditions in it."""
    yield rule
    for below in (rule.all_of, rule.any_of, rule.none_of):
        for part in below or ():
            yield from _parts(part)


def _holds(rule: Condition | EligibilitySettings, facts: _Facts) -> BoolArray:
    """In which steps the rule holds [C]."""
    true = np.ones_like(facts.states.charging)
    if rule.charging:
        true &= facts.states.charging
    if rule.unmetered:
        true &= facts.states.unmetered
    for least, reached in (
        (rule.min_battery_fraction, facts.min_battery_fraction),
        (rule.min_ram_gib, facts.min_ram_gib),
    ):
        if least is not None and reached < least:
            true[:] = False
    if rule.min_free_ram_gib is not None:
        least_byte = rule.min_free_ram_gib * BYTE_PER_GIB
        true &= facts.free_byte >= least_byte + facts.states.ram_byte
    for part in rule.all_of or ():
        true &= _holds(part, facts)
    if rule.any_of is not None:
        true &= np.logical_or.reduce([_holds(part, facts) for part in rule.any_of])
    for part in rule.none_of or ():
        true &= ~_holds(part, facts)
    return true


class Rule:
    """An eligibility rule for N clients; a pure function of time and battery standing.

    A battery standing is how many of `battery_fractions` a client's battery reaches; mains-powered
    clients reach all.
    """

    def __init__(
        self, settings: EligibilitySettings, fleet: Fleet, *, spare_byte: FloatArray | None = None
    ) -> None:
        """Work out the rule.

        Args:
            settings: what it asks for.
            fleet: of whom.
            spare_byte: memory that apps may take of each client, which is eligible only while they
                take no more [N]; None: any.

        Raises:
            ScenarioError: it asks for free memory beside apps of too many different sizes.
            ValueError: it asks for free memory that the fleet does not know.
        """
        self.battery_fractions: FloatArray = np.array(
            least_values(settings, "min_battery_fraction")
        )
        """The battery levels that it asks for, ascending [m]."""
        self._num_standings = self.battery_fractions.size + 1
        self.needs_top = settings.min_battery_fraction == self.battery_fractions[-1]
        """Whether nobody is eligible below the highest of the levels."""
        ram_gib, ram_standing = _standings(
            least_values(settings, "min_ram_gib"),
            np.array([profile.ram_byte for profile in fleet.profiles]) / BYTE_PER_GIB,
        )
        states, usage = fleet.usage.states, fleet.usage
        least_free_byte = BYTE_PER_GIB * np.array(least_values(settings, "min_free_ram_gib"))
        if least_free_byte.size and fleet.memory is None:
            raise ValueError("min_free_ram_gib needs a fleet whose memory is looked at")
        sizes_byte = np.zeros(0, dtype=np.int64)
        if least_free_byte.size or spare_byte is not None:
            sizes_byte = np.unique(states.ram_byte)
            if sizes_byte.size > _MOST_SIZES:
                raise ScenarioError(
                    f"fleet.usage: apps take {sizes_byte.size} different amounts of memory;"
                    f" round ram_byte of the trace, to 16 MiB say, for at most {_MOST_SIZES}"
                )
        free_byte, free_standing = _standings(
            np.unique(least_free_byte[:, np.newaxis] + sizes_byte).tolist(),
            np.zeros(1) if fleet.memory is None else fleet.memory.free_byte,
        )
        may_take_byte, spare_standing = [np.inf], np.zeros(1, dtype=np.int64)
        if spare_byte is not None:
            # Short even without apps: below 0.
            may_take_byte, spare_standing = _standings(sizes_byte.tolist(), spare_byte)
            may_take_byte[0] = -1.0
        shape = (len(ram_gib), len(free_byte), len(may_take_byte))
        stands = (ram_standing[fleet.device], free_standing, spare_standing)
        present, kind = np.unique(np.ravel_multi_index(stands, shape), return_inverse=True)
        self._schedules: list[Schedule] = [
            usage.schedule_where(
                _holds(settings, _Facts(states, battery_fraction, ram_gib[ram], free_byte[free]))
                & (states.ram_byte <= may_take_byte[spare])
            )
            for ram, free, spare in zip(*np.unravel_index(present, shape), strict=True)
            for battery_fraction in (0.0, *self.battery_fractions.tolist())
        ]
        self._kind: IntArray | None = kind if present.size > 1 else None
        """Memory standing of every client [N]; None: all stand alike."""

    @property
    def top(self) -> int:
        """Battery standing of a client that reaches all levels."""
        return self._num_standings - 1

    def state_and_change(
        self, clients: IntArray, standing: IntArray, t_s: ArrayLike
    ) -> tuple[BoolArray, FloatArray]:
        """Whether clients [n] of these battery standings [n] are eligible, and until when [n].

        At `t_s` (a time for all, or one each [n]), as long as their standings stay; inf: for ever.
        """
        which = standing
        if self._kind is not None:
            which = standing + self._kind[clients] * self._num_standings
        present = np.bincount(which).nonzero()[0].tolist()
        if len(present) == 1:
            return self._schedules[present[0]].state_and_change(clients, t_s)
        at_s = np.broadcast_to(t_s, clients.shape)
        is_on = np.empty(clients.size, dtype=np.bool_)
        change_s = np.empty(clients.size)
        for index in present:
            rows = which == index
            is_on[rows], change_s[rows] = self._schedules[index].state_and_change(
                clients[rows], at_s[rows]
            )
        return is_on, change_s


@dataclass(frozen=True, slots=True, eq=False)
class Absences:
    """When the owners of n clients in tasks take their devices away, and when they give them back.

    A battery standing is that of the task's beginning; what the batteries do later does not matter.
    """

    rule: Rule
    online: Schedule
    """When each client of the fleet can be reached."""
    clients: IntArray
    standing: IntArray
    """Battery standing of each [n]."""

    def next_after(
        self, rows: IntArray, at_s: FloatArray, *, needs_rule: bool
    ) -> tuple[FloatArray, FloatArray]:
        """From when on clients `rows` [k] are there again, `at_s` [k] if they are, and until when.

        Args:
            rows: which of the n clients.
            at_s: a moment each.
            needs_rule: whether they must be eligible, or only online.

        Returns:
            (moments [k], moments after them [k]); inf if never, and then both.
        """
        clients, standing = self.clients[rows], self.standing[rows]

        def look(among: IntArray, t_s: FloatArray) -> tuple[BoolArray, FloatArray]:
            if needs_rule:
                return self.rule.state_and_change(clients[among], standing[among], t_s)
            return self.online.state_and_change(clients[among], t_s)

        is_on, change_s = look(np.arange(rows.size), at_s)
        back_s, gone_s = np.where(is_on, at_s, change_s), change_s.copy()
        later = (~is_on & np.isfinite(change_s)).nonzero()[0]
        if later.size:
            gone_s[later] = look(later, back_s[later])[1]
        return back_s, gone_s


def _standings(least: Sequence[float], values: FloatArray) -> tuple[list[float], IntArray]:
    """The least values below which others stand, 0 first, and how many each value reaches."""
    return [0.0, *least], np.searchsorted(np.array(least), values, side="right").astype(np.int64)
