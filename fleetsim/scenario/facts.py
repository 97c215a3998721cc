"""Facts of one scenario that decide which keys have an effect."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

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
from fleetsim.fleet.settings import FleetSettings
from fleetsim.fleet.usage.loading import load_trace
from fleetsim.units import BYTE_PER_GIB


@dataclass(frozen=True)
class ScenarioFacts:
    """Facts of one scenario, see `fleetsim.schema.effects.Facts`.

    Files are read at first use.
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
        """Profiles of the devices that clients have, in the order of `fleet.devices`."""
        return tuple(
            p for name in self.fleet.assigned_devices for p in load_devices(name, files=self.files)
        )

    @cached_property
    def least_ram_gib(self) -> float:
        """Least memory of any device that clients have."""
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
        """True if `fleet.usage` names a trace or synthetic people."""
        return self.fleet.usage.trace is not None or self.fleet.usage.synthetic is not None

    @property
    def has_people(self) -> bool:
        """True if any client follows a record of these people."""
        return self.names_people and not self.device_kinds.isdisjoint(self.fleet.usage.kinds)

    @cached_property
    def has_cellular(self) -> bool:
        """True if any transfer ever goes over the cellular network."""
        return self.has_wireless and (self.has_metered or self._goes_over("cellular"))

    @property
    def has_unmetered(self) -> bool:
        """True if any wireless client is ever on an unmetered network."""
        return self.has_wireless and self._network.can_be_on(has_usage=self.has_people)[0]

    @cached_property
    def has_wifi(self) -> bool:
        """True if any transfer ever goes over Wi-Fi."""
        return self._goes_over("wifi")

    def _goes_over(self, network: Network) -> bool:
        """Return whether unmetered radios of wireless devices use a network."""
        name = self.fleet.channel.unmetered_radio
        wireless = (profile for profile in self._profiles if profile.wired is None)
        return self.has_unmetered and any(
            unmetered_radio(profile, name, files=self.files).network == network
            for profile in wireless
        )

    @cached_property
    def has_metered(self) -> bool:
        """True if any wireless client is ever on a metered network."""
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
        """True if any device of the fleet runs on a battery."""
        return any(profile.battery_j is not None for profile in self._profiles)

    @property
    def has_wireless(self) -> bool:
        """True if any device of the fleet is not wired."""
        return any(profile.wired is None for profile in self._profiles)

    @property
    def has_distances(self) -> bool:
        """True if the channel places clients at distances."""
        return self.fleet.channel.has_distances

    @cached_property
    def device_kinds(self) -> frozenset[str]:
        """Kinds of device in the fleet: phone, board, vm."""
        return frozenset(profile.kind for profile in self._profiles)
