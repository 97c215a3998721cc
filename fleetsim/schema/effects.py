"""Conditions under which a key of a scenario can change a run.

A settings class lists beside its fields those keys that act in some scenarios only:

    class UsageSettings(Settings):
        acts_if = by_key(starts_at_s=PEOPLE)

A condition looks at the settings object that holds the key and at `Facts` of the whole scenario.
`fleetsim.inert_keys` walks a scenario and reports each key that its user has set away from its
default and whose condition does not hold.

The entries of a list or mapping have conditions of their own, which look at the entry:

    entries_act_if = by_key(kinds=KIND_IN_FLEET)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar


class Facts(Protocol):
    """Properties of a scenario that decide whether keys elsewhere in it can act."""

    @property
    def names_people(self) -> bool:
        """Whether `fleet.usage` names a trace or makes people up."""

    @property
    def has_people(self) -> bool:
        """Whether any client lives through a record of these people."""

    @property
    def has_metered(self) -> bool:
        """Whether any wireless client is ever on a metered network."""

    @property
    def has_cellular(self) -> bool:
        """Whether any transfer ever goes over the cellular network."""

    @property
    def has_unmetered(self) -> bool:
        """Whether any wireless client is ever on an unmetered network."""

    @property
    def has_wifi(self) -> bool:
        """Whether any transfer ever goes over Wi-Fi."""

    @property
    def has_batteries(self) -> bool:
        """Whether any device of the fleet runs on a battery."""

    @property
    def has_wireless(self) -> bool:
        """Whether any device of the fleet is not wired."""

    @property
    def has_distances(self) -> bool:
        """Whether the channel places clients at distances."""

    @property
    def device_kinds(self) -> frozenset[str]:
        """Kinds of device in the fleet: phone, board, vm."""

    @property
    def least_ram_gib(self) -> float:
        """Memory of the device that has least of those that clients have."""

    @property
    def assigned_devices(self) -> frozenset[str]:
        """Names in `fleet.devices` that at least one client has."""

    @property
    def battery_devices(self) -> frozenset[str]:
        """Names in `fleet.devices` whose devices run on a battery."""

    @property
    def last_round(self) -> int:
        """Number of the last round, counted from 1, that the run can reach."""

    @property
    def is_buffered(self) -> bool:
        """Whether the server is a buffered one."""

    @property
    def can_train(self) -> bool:
        """Whether there are samples to train with; a blank data set has none."""

    @property
    def partition(self) -> str:
        """Kind of the partition."""


@dataclass(frozen=True)
class ActsIf:
    """A condition, why a key is without effect where it does not hold, and what to change."""

    holds: Callable[[Any, Facts], bool]
    """Of the settings object that holds the key, and of the scenario."""
    because: str
    way_out: str

    def unmet(self, own: Any, facts: Facts) -> ActsIf | None:
        """The condition that does not hold; None if all is well."""
        return None if self.holds(own, facts) else self


@dataclass(frozen=True)
class AllOf:
    """Several conditions that must all hold."""

    conditions: tuple[ActsIf, ...]

    def unmet(self, own: Any, facts: Facts) -> ActsIf | None:
        """The first condition that does not hold; None if all do."""
        return next((each for each in self.conditions if not each.holds(own, facts)), None)


@dataclass(frozen=True)
class EntryActsIf:
    """A condition on each entry of a list or mapping, and what to say where it does not hold."""

    holds: Callable[[Any, Facts], bool]
    """Of the entry (of a mapping: its key), and of the scenario."""
    because: str
    """Why the entry has no effect; `{entry}` stands for it."""
    way_out: str
    """What to change; `{entry}` stands for the entry. Empty: only to leave the entry out."""
    is_refused: bool = False
    """True if no other key can give the entry an effect: the scenario is refused."""


_Condition = TypeVar("_Condition")


def by_key(**conditions: _Condition) -> Mapping[str, _Condition]:
    """Conditions by the names of fields."""
    return conditions


def all_of(*conditions: ActsIf) -> AllOf:
    """All of some conditions; the message is that of the first that does not hold."""
    return AllOf(conditions)


def beside(key: str, *values: object) -> ActsIf:
    """A condition on another key of the same settings object: it has one of these values."""
    text = " or ".join(str(value) for value in values)
    return ActsIf(
        lambda own, _: getattr(own, key) in values, f"it is of {key}: {text} alone", "set that"
    )


def beside_any(key: str, way_out: str) -> ActsIf:
    """A condition on another key of the same settings object: it is not null."""
    return ActsIf(lambda own, _: getattr(own, key) is not None, f"{key} is null", way_out)


PEOPLE_NAMED = ActsIf(
    lambda _, facts: facts.names_people,
    "fleet.usage names no people",
    "set fleet.usage.trace or fleet.usage.synthetic",
)
CARRIED = ActsIf(
    lambda _, facts: facts.has_people or not facts.names_people,
    "the fleet has no device of fleet.usage.kinds, which people carry",
    "add such devices or kinds",
)
PEOPLE = ActsIf(
    lambda _, facts: facts.has_people,
    "nobody in the fleet has an owner: all clients are always online, charging and unmetered",
    "set fleet.usage.trace or fleet.usage.synthetic, and devices of fleet.usage.kinds",
)
METERED = ActsIf(
    lambda _, facts: facts.has_people or facts.has_metered,
    "no client is ever on a metered network",
    "set fleet.usage.trace, or fleet.network.kind to mixed",
)
CELLULAR = ActsIf(
    lambda _, facts: facts.has_cellular,
    "no client is ever on the cellular network",
    "set fleet.network.kind to cellular",
)
UNMETERED = ActsIf(
    lambda _, facts: facts.has_unmetered,
    "no wireless client is ever on an unmetered network",
    "set fleet.network.kind to wifi",
)
WIFI = ActsIf(
    lambda _, facts: facts.has_wifi,
    "no client is ever on Wi-Fi",
    "set fleet.network.kind to wifi, with a Wi-Fi radio as fleet.channel.unmetered_radio",
)
BATTERIES = ActsIf(
    lambda _, facts: facts.has_batteries,
    "no device of the fleet has a battery",
    "add one that has",
)
WIRELESS = ActsIf(
    lambda _, facts: facts.has_wireless,
    "every device of the fleet is wired",
    "add a wireless one",
)
NO_DISTANCES = ActsIf(
    lambda _, facts: not facts.has_distances,
    "fleet.channel places the clients already",
    "choose a channel without distances, such as constant",
)
BUFFERED = ActsIf(
    lambda _, facts: facts.is_buffered,
    "no update of a synchronous round is stale",
    "set server.mode: buffered",
)
TRAINING = ActsIf(
    lambda _, facts: facts.can_train,
    "the blank data set trains nothing",
    "choose a data set with samples",
)


def device_kind(kind: str) -> ActsIf:
    """The fleet has a device of this kind."""
    return ActsIf(
        lambda _, facts: kind in facts.device_kinds,
        f"the fleet has no {kind}",
        f"add a {kind} to fleet.devices",
    )


KIND_IN_FLEET = EntryActsIf(
    lambda kind, facts: kind in facts.device_kinds,
    "the fleet has no {entry}",
    "add a {entry} to fleet.devices",
)
ASSIGNED = EntryActsIf(
    lambda device, facts: device in facts.assigned_devices,
    "its share in fleet.devices is so small that no client has this device",
    "raise that or fleet.size",
)
HAS_BATTERY = EntryActsIf(
    lambda device, facts: device in facts.battery_devices,
    "has no battery to charge",
    "",
    is_refused=True,
)
BEFORE_LAST_ROUND = EntryActsIf(
    lambda round_, facts: round_ < facts.last_round,
    "no round follows it, as the run ends with stop.rounds at the latest",
    "raise stop.rounds",
)
