"""Settings of a fleet: its clients and the world around them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from pydantic import Field, field_validator, model_validator

from fleetsim import bundled
from fleetsim.fleet.batteries.settings import BatterySettings
from fleetsim.fleet.devices.assignment import MARKET, device_counts
from fleetsim.fleet.devices.memory import MemorySettings, UncheckedSettings
from fleetsim.fleet.devices.profile import DeviceProfile
from fleetsim.fleet.devices.thermal import SkinSettings, ThermalSettings
from fleetsim.fleet.devices.uncertainty import UncertaintySettings
from fleetsim.fleet.heterogeneity import HeterogeneitySettings
from fleetsim.fleet.network.channels import ChannelSettings, FadingSettings
from fleetsim.fleet.network.sharing.shared_links import SharedLinksSettings
from fleetsim.fleet.network.transport import TcpSettings, TransportSettings
from fleetsim.fleet.network.wifi_or_cellular import NetworkSettings
from fleetsim.fleet.network.wireless.wifi import IndoorWifiSettings, WifiSettings
from fleetsim.fleet.usage.usage import UsageSettings
from fleetsim.quoting import cut
from fleetsim.schema import faults
from fleetsim.schema.key_conditions import ASSIGNED_DEVICE, BATTERIES, WIFI, WIRELESS, by_key
from fleetsim.schema.ranges import DeviceShare, RatePerHour
from fleetsim.settings import Settings

_FRACTION_TOLERANCE = 1e-6


class FleetSettings(Settings):
    """Clients of a scenario and the world around them."""

    acts_if = by_key(battery=BATTERIES, network=WIRELESS, wifi=WIFI)
    entries_act_if = by_key(devices=(ASSIGNED_DEVICE,))

    size: Annotated[int, Field(ge=1, le=1_000_000_000)]
    """Number of clients."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    """Seed of the clients: devices, places, people, fading and crashes, and who holds which
    samples. With one, runs of other seeds meet the same clients. null: the scenario's seed."""
    devices: dict[str, DeviceShare]
    """Share of the clients per device profile, bundled name or path; the shares sum to 1, and are
    rounded to whole clients. The name `market` means phones as fast as those on the market."""
    unit_spread_sigma: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0
    """Log-normal spread of the speeds of units of one model, such as 0.1 to 0.2 (inferred); the
    mean time of a piece of work does not change. 0: no spread."""
    heterogeneity: HeterogeneitySettings = HeterogeneitySettings()
    """Spread of speeds and bandwidths beyond that of the devices."""
    uncertainty: UncertaintySettings = UncertaintySettings()
    """Doubt about the figures of devices and radios: errors that are drawn for each seed."""
    network: NetworkSettings | None = None
    """Network of wireless clients. null: `by-usage` where `fleet.usage` gives people to
    some clients, otherwise `cellular`."""
    channel: ChannelSettings = FadingSettings()
    """The cellular network."""
    wifi: WifiSettings = IndoorWifiSettings()
    """Wi-Fi."""
    transport: TransportSettings = TcpSettings()
    """Set-up and slow start of each transfer's connection, on every network."""
    shared_links: SharedLinksSettings | None = None
    """Cells and a server's link that transfers share; null: transfers do not slow each other."""
    usage: UsageSettings = UsageSettings()
    """People who own the devices: when they are online, charging, on Wi-Fi and busy."""
    battery: BatterySettings = BatterySettings()
    """Batteries of devices that have one."""
    thermal: ThermalSettings = SkinSettings()
    """Heat of phones and its effect on their clocks, by its kind."""
    memory: MemorySettings = UncheckedSettings()
    """Memory that training needs and devices have, by its kind."""
    crash_per_hour: RatePerHour = 0.0
    """Rate of crashes of a client's process during a task (exponential)."""

    @field_validator("devices")
    @classmethod
    def _sums_to_one(cls, devices: dict[str, float]) -> dict[str, float]:
        if not devices:
            raise ValueError("no device is named; name one, such as {pixel-6: 1.0}")
        total = sum(devices.values())
        if abs(total - 1.0) > _FRACTION_TOLERANCE:
            # A misspelt name explains a wrong sum. Paths are looked for from the scenario's folder.
            known = {*bundled.names("devices"), MARKET}
            for name in devices:
                if name not in known and "/" not in name and not name.endswith((".yaml", ".yml")):
                    message = bundled.not_found("devices", name, also=[MARKET])
                    raise faults.at((name,), message)
            raise ValueError(f"the shares must sum to 1, they sum to {total:g}")
        return devices

    @property
    def assigned_devices(self) -> tuple[str, ...]:
        """Names of `devices` that at least one client has, in their order."""
        counts = device_counts(self.devices, size=self.size).tolist()
        return tuple(name for name, num in zip(self.devices, counts, strict=True) if num)

    def has_usage(self, profiles: Iterable[DeviceProfile]) -> bool:
        """Return whether some of these devices, which clients have, follow usage records."""
        usage = self.usage
        names_people = usage.trace is not None or usage.synthetic is not None
        return names_people and any(profile.kind in usage.kinds for profile in profiles)

    @model_validator(mode="after")
    def _charges_its_own(self) -> FleetSettings:
        for name in self.battery.charge_w_of:
            if name not in self.devices:
                raise faults.at(
                    ("battery", "charge_w_of", name),
                    f"is not one of fleet.devices ({cut(', '.join(self.devices))}); leave it out",
                )
        return self
