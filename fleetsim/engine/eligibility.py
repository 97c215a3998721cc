"""Eligibility of clients: a rule over charger, network, battery and memory, and when it holds.

A rule is a conjunction of the keys that it names; `all_of`, `any_of` and `none_of` hold further
conditions of the same form. It is data, never code. A client must always be online.

Battery, memory and free memory have least values in a rule; a client's rank is the number of these
values that it reaches. For each rank the rule depends on the owner's doings alone, which are known
for all time: a `Schedule`. The rank of an idle client changes only where its battery reaches the
next value, at a moment in closed form. So eligibility is exact and needs no polling.
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
from fleetsim.schema.key_conditions import BATTERIES, METERED, PEOPLE, ActsIf, by_key
from fleetsim.schema.ranges import MemoryGib, PositiveFraction
from fleetsim.settings import Settings
from fleetsim.units import BYTE_PER_GIB

Conditions = Annotated[tuple["Condition", ...], Field(min_length=1), Distinct()]
_SOME_HAVE_LESS = ActsIf(
    lambda rule, facts: rule.min_ram_gib > facts.least_ram_gib,
    "every device of the fleet has at least so much memory",
    "raise it",
)


class Condition(Settings):
    """Conjunction of conditions on a client."""

    acts_if = by_key(charging=PEOPLE, unmetered=METERED, min_battery_fraction=BATTERIES)

    charging: Literal[True] | None = None
    """The client is on the charger."""
    unmetered: Literal[True] | None = None
    """The client is on an unmetered network."""
    min_battery_fraction: PositiveFraction | None = None
    """Least battery level; mains-powered clients always meet it."""
    min_ram_gib: MemoryGib | None = None
    """Least memory of the device."""
    min_free_ram_gib: MemoryGib | None = None
    """Least memory that is free beside the owner's apps, by `fleet.memory`."""
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
    """Rule by which a client may take part and must stop.

    The battery is checked when a task begins; the rest holds throughout the task.
    """

    acts_if = by_key(
        charging=PEOPLE,
        unmetered=METERED,
        min_battery_fraction=BATTERIES,
        min_ram_gib=_SOME_HAVE_LESS,
    )

    charging: bool = False
    """True if the client must be on the charger."""
    unmetered: bool = False
    """True if the client must be on an unmetered network."""
    min_battery_fraction: PositiveFraction = 0.3
    """Least battery level when a task begins; mains-powered clients always meet it."""
    min_ram_gib: MemoryGib | None = None
    """Least memory of the device."""
    min_free_ram_gib: MemoryGib | None = None
    """Least memory that is free beside the owner's apps, by `fleet.memory`."""
    all_of: Conditions | None = None
    """Conditions that must all hold as well."""
    any_of: Conditions | None = None
    """Conditions of which at least one must hold as well."""
    none_of: Conditions | None = None
    """Conditions of which none may hold."""


_Least = Literal["min_battery_fraction", "min_ram_gib", "min_free_ram_gib"]
_MOST_SIZES = 1024
"""Largest number of different memory sizes of apps; each has its own schedules."""


class _Facts(NamedTuple):
    """Facts of every step of the owners' records [C], for one rank."""

    states: States
    min_battery_fraction: float
    """Largest value of the rule that the battery reaches."""
    min_ram_gib: float
    """Largest value of the rule that the memory reaches."""
    free_byte: float
    """Free memory while the owner uses no app."""


def least_values(rule: Condition | EligibilitySettings, key: _Least) -> list[float]:
    """Return the values of a key anywhere in a rule, ascending, each once."""
    values = {getattr(part, key) for part in _parts(rule)}
    return sorted(values - {None})


def _parts(rule: Condition | EligibilitySettings) -> Iterator[Condition | EligibilitySettings]:
    yield rule
    for below in (rule.all_of, rule.any_of, rule.none_of):
        for part in below or ():
            yield from _parts(part)


def _holds(rule: Condition | EligibilitySettings, facts: _Facts) -> BoolArray:
    """Return the steps in which the rule holds [C], as a mask."""
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
    """Eligibility rule for N clients: a pure function of time and battery rank."""

    def __init__(
        self, settings: EligibilitySettings, fleet: Fleet, *, spare_byte: FloatArray | None = None
    ) -> None:
        """Compute the schedules. Apps must take at most `spare_byte` [N]; None: any amount."""
        self.battery_fractions: FloatArray = np.array(
            least_values(settings, "min_battery_fraction")
        )
        """Battery levels of the rule, ascending [m]."""
        self.top = self.battery_fractions.size
        """Battery rank of a client that reaches all levels."""
        self.needs_top = settings.min_battery_fraction == self.battery_fractions[-1]
        """True if no client is eligible below the highest level."""
        ram_gib, ram_rank = _ranks(
            least_values(settings, "min_ram_gib"),
            np.array([profile.ram_byte for profile in fleet.profiles]) / BYTE_PER_GIB,
        )
        states, usage = fleet.usage.states, fleet.usage
        least_free_byte = BYTE_PER_GIB * np.array(least_values(settings, "min_free_ram_gib"))
        sizes_byte = np.zeros(0, dtype=np.int64)
        if least_free_byte.size or spare_byte is not None:
            sizes_byte = np.unique(states.ram_byte)
            if sizes_byte.size > _MOST_SIZES:
                raise ScenarioError(
                    f"fleet.usage: apps take {sizes_byte.size} different amounts of memory;"
                    f" round ram_byte of the trace, to 16 MiB say, for at most {_MOST_SIZES}"
                )
        free_byte, free_rank = _ranks(
            np.unique(least_free_byte[:, np.newaxis] + sizes_byte).tolist(),
            np.zeros(1) if fleet.memory is None else fleet.memory.free_byte,
        )
        may_take_byte, spare_rank = [np.inf], np.zeros(1, dtype=np.int64)
        if spare_byte is not None:
            # Short even without apps: below 0.
            may_take_byte, spare_rank = _ranks(sizes_byte.tolist(), spare_byte)
            may_take_byte[0] = -1.0
        shape = (len(ram_gib), len(free_byte), len(may_take_byte))
        stands = (ram_rank[fleet.device], free_rank, spare_rank)
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
        """Index of each client's ranks of memory [N]; None: all have the same."""

    def state_and_change(
        self, clients: IntArray, battery_rank: IntArray, t_s: ArrayLike
    ) -> tuple[BoolArray, FloatArray]:
        """Return whether clients [n] of these battery ranks [n] are eligible, and until when [n].

        At `t_s` (a time for all, or one each [n]), as long as their ranks stay; inf: for ever.
        """
        which = battery_rank
        if self._kind is not None:
            which = battery_rank + self._kind[clients] * (self.top + 1)
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
    """Absences of n clients in tasks, by their battery ranks when the tasks began."""

    rule: Rule
    online: Schedule
    clients: IntArray
    battery_rank: IntArray

    def next_after(
        self, rows: IntArray, at_s: FloatArray, *, needs_rule: bool
    ) -> tuple[FloatArray, FloatArray]:
        """Return when clients [k] are available next, `at_s` [k] if they are then, and until when.

        They must be eligible if `needs_rule`, else only online. Both are inf if that never comes.
        """
        clients, battery_rank = self.clients[rows], self.battery_rank[rows]

        def look(among: IntArray, t_s: FloatArray) -> tuple[BoolArray, FloatArray]:
            if needs_rule:
                return self.rule.state_and_change(clients[among], battery_rank[among], t_s)
            return self.online.state_and_change(clients[among], t_s)

        is_on, change_s = look(np.arange(rows.size), at_s)
        back_s, gone_s = np.where(is_on, at_s, change_s), change_s.copy()
        later = (~is_on & np.isfinite(change_s)).nonzero()[0]
        if later.size:
            gone_s[later] = look(later, back_s[later])[1]
        return back_s, gone_s


def _ranks(least: Sequence[float], values: FloatArray) -> tuple[list[float], IntArray]:
    """Return the least values with 0 in front, and the rank of each value."""
    return [0.0, *least], np.searchsorted(np.array(least), values, side="right").astype(np.int64)
