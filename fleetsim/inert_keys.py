"""Keys of a scenario, and entries of its lists, that were set and cannot change the run.

A key is inert if its value differs from its default and the condition that its settings class
states for it (`Settings.acts_if`) does not hold. Likewise an entry of a list or mapping is inert if
a condition of `Settings.entries_act_if` does not hold for it. A key with its default value is never
reported, nor are its entries: resolved scenarios write all keys out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from fleetsim.fleet.devices.assignment import load_devices
from fleetsim.fleet.devices.hardware_files import HardwareFiles
from fleetsim.fleet.devices.profile import DeviceProfile
from fleetsim.fleet.devices.profile_files import Network
from fleetsim.fleet.network.radios.fleet_radios import unmetered_radio
from fleetsim.fleet.network.wifi_or_cellular import (
    ByUsageSettings,
    NetworkSettings,
    in_force,
)
from fleetsim.fleet.population import FleetSettings, load_trace
from fleetsim.schema.effects import EntryActsIf, Facts
from fleetsim.schema.strict_yaml import KeyPath
from fleetsim.settings import Settings
from fleetsim.units import BYTE_PER_GIB


@dataclass(frozen=True)
class ScenarioFacts:
    """Facts of one scenario, see `fleetsim.schema.effects.Facts`.

    Files are read when first asked for.
    """

    fleet: FleetSettings
    files: HardwareFiles
    seed: int
    is_buffered: bool
    can_train: bool
    partition: str
    last_round: int

    @cached_property
    def _profiles(self) -> tuple[DeviceProfile, ...]:
        """Of the devices that clients have, in the order of `fleet.devices`."""
        return tuple(
            p for name in self.fleet.assigned_devices for p in load_devices(name, files=self.files)
        )

    @cached_property
    def least_ram_gib(self) -> float:
        """Memory of the device that has least of those that clients have."""
        return min(profile.ram_byte for profile in self._profiles) / BYTE_PER_GIB

    @cached_property
    def assigned_devices(self) -> frozenset[str]:
        """Names in `fleet.devices` that at least one client has."""
        return frozenset(self.fleet.assigned_devices)

    @cached_property
    def battery_devices(self) -> frozenset[str]:
        """Names in `fleet.devices` whose devices run on a battery."""
        return frozenset(
            name
            for name in self.fleet.devices
            if any(
                profile.battery_j is not None for profile in load_devices(name, files=self.files)
            )
        )

    @property
    def names_people(self) -> bool:
        """Whether `fleet.usage` names a trace or makes people up."""
        return self.fleet.usage.trace is not None or self.fleet.usage.synthetic is not None

    @property
    def has_people(self) -> bool:
        """Whether any client lives through a record of these people."""
        return self.names_people and not self.device_kinds.isdisjoint(self.fleet.usage.kinds)

    @cached_property
    def has_cellular(self) -> bool:
        """Whether any transfer ever goes over the cellular network."""
        return self.has_wireless and (self.has_metered or self._goes_over("cellular"))

    @property
    def has_unmetered(self) -> bool:
        """Whether any wireless client is ever on an unmetered network."""
        return self.has_wireless and self._network.can_be_on(has_usage=self.has_people)[0]

    @cached_property
    def has_wifi(self) -> bool:
        """Whether any transfer ever goes over Wi-Fi."""
        return self._goes_over("wifi")

    def _goes_over(self, network: Network) -> bool:
        """Whether unmetered radios of wireless devices are of a network and ever used."""
        name = self.fleet.channel.unmetered_radio
        wireless = (profile for profile in self._profiles if profile.wired is None)
        return self.has_unmetered and any(
            unmetered_radio(profile, name, files=self.files).network == network
            for profile in wireless
        )

    @cached_property
    def has_metered(self) -> bool:
        """Whether any wireless client is ever on a metered network."""
        if not isinstance(self._network, ByUsageSettings):
            return self.has_wireless and self._network.can_be_on(has_usage=self.has_people)[1]
        carried = [p for p in self._profiles if p.kind in self.fleet.usage.kinds]
        if not self.names_people or all(profile.wired is not None for profile in carried):
            return False
        trace = load_trace(self.fleet.usage, seed=self.seed)
        return trace is not None and bool((trace.online & ~trace.unmetered).any())

    @property
    def _network(self) -> NetworkSettings:
        return in_force(self.fleet.network, has_usage=self.has_people)

    @property
    def has_batteries(self) -> bool:
        """Whether any device of the fleet runs on a battery."""
        return any(profile.battery_j is not None for profile in self._profiles)

    @property
    def has_wireless(self) -> bool:
        """Whether any device of the fleet is not wired."""
        return any(profile.wired is None for profile in self._profiles)

    @property
    def has_distances(self) -> bool:
        """Whether the channel places clients at distances."""
        return self.fleet.channel.has_distances

    @cached_property
    def device_kinds(self) -> frozenset[str]:
        """Kinds of device in the fleet: phone, board, vm."""
        return frozenset(profile.kind for profile in self._profiles)


class Inert(NamedTuple):
    """A key or an entry that has no effect."""

    key_path: KeyPath
    says: str
    """Why, with the way out."""
    is_refused: bool = False
    """Whether nothing else in the scenario could give it an effect."""


def inert_keys(settings: Settings, written: Any, facts: Facts) -> Iterator[Inert]:
    """Inert keys and entries of a settings object and of those below it, in order of the fields.

    Below an inert key only refused entries are reported.

    Args:
        settings: what was made of the mapping.
        written: the mapping as the user wrote it, overrides applied.
        facts: of the whole scenario.

    Yields:
        Each key or entry, once.

    Raises:
        DataError: a device or trace file is wrong.
        ScenarioError: a trace is not there.
    """
    if not isinstance(written, dict):
        return
    conditions, entry_conditions = settings.conditions(), settings.entry_conditions()
    for name, info in type(settings).model_fields.items():
        key = info.alias or name
        value = getattr(settings, name)
        if key not in written or value == info.get_default(call_default_factory=True):
            continue
        below = [
            *_entries((key,), value, written[key], entry_conditions.get(name, ()), facts),
            *_below((key,), value, written[key], facts),
        ]
        condition = conditions.get(name)
        unmet = None if condition is None else condition.unmet(settings, facts)
        if unmet is not None:
            yield Inert((key,), _says(unmet.because, unmet.way_out))
            below = [each for each in below if each.is_refused]
        yield from below


def _below(key_path: KeyPath, value: Any, written: Any, facts: Facts) -> Iterator[Inert]:
    """What is inert in settings in a value: the value itself, or the items of a list."""
    if isinstance(value, Settings):
        for found in inert_keys(value, written, facts):
            yield found._replace(key_path=(*key_path, *found.key_path))
    elif isinstance(value, tuple) and isinstance(written, list):
        for index, (item, below) in enumerate(zip(value, written, strict=False)):
            yield from _below((*key_path, index), item, below, facts)


def _entries(
    key_path: KeyPath,
    value: Any,
    written: Any,
    conditions: Sequence[EntryActsIf],
    facts: Facts,
) -> Iterator[Inert]:
    """Entries of a list or mapping that are inert, each with the first condition that fails.

    Names of files are written as the user wrote them, and checked as they were resolved.
    """
    if not conditions or not isinstance(written, list | dict):
        return
    keys = range(len(written)) if isinstance(written, list) else written
    for key, entry in zip(keys, value, strict=True):
        unmet = next((each for each in conditions if not each.holds(entry, facts)), None)
        if unmet is not None:
            because = unmet.because.format(entry=entry)
            way_out = unmet.way_out.format(entry=entry)
            says = f"{because}; leave it out" if unmet.is_refused else _says(because, way_out)
            yield Inert((*key_path, key), says, unmet.is_refused)


def _says(because: str, way_out: str) -> str:
    return f"has no effect: {because}; {way_out}, or leave it out"
