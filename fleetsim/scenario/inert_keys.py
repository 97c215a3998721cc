"""Keys of a scenario, and entries of its lists, that were set but cannot change the run.

Conditions are those of `Settings.acts_if` and `Settings.entries_act_if`, on the facts of the
scenario. A key with its default value is never reported, nor are its entries: resolved scenarios
write all keys out.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from fleetsim.fleet.devices.assignment import file_names, load_devices
from fleetsim.fleet.devices.hardware_files import HardwareKind
from fleetsim.fleet.devices.memory import UncheckedSettings
from fleetsim.fleet.devices.profile import DeviceProfile
from fleetsim.fleet.devices.profile_files import Network
from fleetsim.fleet.devices.uncertainty import uncertain_figures
from fleetsim.fleet.network.fleet_radios import radios_in_use, unmetered_radio
from fleetsim.fleet.network.wifi_or_cellular import (
    ByUsageSettings,
    NetworkSettings,
    can_be_on,
    in_force,
)
from fleetsim.fleet.usage.loading import load_trace
from fleetsim.scenario.settings import BufferedServerSettings, Scenario
from fleetsim.schema.key_conditions import ActsIf
from fleetsim.schema.strict_yaml import KeyPath
from fleetsim.settings import Settings
from fleetsim.units import BYTE_PER_GIB


class ScenarioFacts:
    """Facts of a loaded scenario; files are read at first use."""

    def __init__(self, scenario: Scenario) -> None:
        self.fleet, self.files = scenario.fleet, scenario.files
        self._seed = scenario.clients_seed
        self.is_buffered = isinstance(scenario.server, BufferedServerSettings)
        self.can_train = scenario.task.can_train
        """True if there are training samples, and a network that is more than a cost on paper."""
        self.partition: str = scenario.task.partition.kind
        self.checks_memory = not isinstance(scenario.fleet.memory, UncheckedSettings)
        """True if an SGD step must fit into the free memory of a device."""
        self.last_round = scenario.stop.last_round

    @cached_property
    def _profiles(self) -> tuple[DeviceProfile, ...]:
        return tuple(
            p for name in self.fleet.assigned_devices for p in load_devices(name, files=self.files)
        )

    @cached_property
    def least_ram_gib(self) -> float:
        """Least memory of any device that clients have."""
        return min(profile.ram_byte for profile in self._profiles) / BYTE_PER_GIB

    @cached_property
    def figure_marks(self) -> frozenset[str]:
        """Marks, `inferred` and `measured`, of figures in use that can have an error."""
        in_use: list[tuple[HardwareKind, str]] = [
            ("devices", file) for name in self.fleet.assigned_devices for file in file_names(name)
        ]
        radios = radios_in_use(
            self.fleet.channel,
            has_wired=any(profile.wired_bit_per_s is not None for profile in self._profiles),
            has_unmetered=self.has_unmetered,
            has_metered=self.has_metered,
        )
        in_use += [("radios", radio) for radio in radios]
        return frozenset(
            "inferred" if figure.inferred else "measured"
            for kind, name in in_use
            for _, figure in uncertain_figures(self.files.file(kind, name))
        )

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
        return self.has_wireless and can_be_on(self._network, has_usage=self.has_people)[0]

    @cached_property
    def has_wifi(self) -> bool:
        """True if any transfer ever goes over Wi-Fi."""
        return self._goes_over("wifi")

    def _goes_over(self, network: Network) -> bool:
        name = self.fleet.channel.unmetered_radio
        wireless = (profile for profile in self._profiles if profile.wired_bit_per_s is None)
        return self.has_unmetered and any(
            unmetered_radio(profile, name, files=self.files).network == network
            for profile in wireless
        )

    @cached_property
    def has_metered(self) -> bool:
        """True if any wireless client is ever on a metered network."""
        if not isinstance(self._network, ByUsageSettings):
            return self.has_wireless and can_be_on(self._network, has_usage=self.has_people)[1]
        carried = [p for p in self._profiles if p.kind in self.fleet.usage.kinds]
        if not self.names_people or all(profile.wired_bit_per_s is not None for profile in carried):
            return False
        trace = load_trace(self.fleet.usage, seed=self._seed)
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
        return any(profile.wired_bit_per_s is None for profile in self._profiles)

    @cached_property
    def device_kinds(self) -> frozenset[str]:
        """Kinds of device in the fleet: phone, board, vm."""
        return frozenset(profile.kind for profile in self._profiles)


class Inert(NamedTuple):
    """A key or an entry that has no effect."""

    key_path: KeyPath
    message: str
    is_refused: bool = False
    """True if no other key could give it an effect."""


def inert_keys(settings: Settings, written: Any, facts: ScenarioFacts) -> Iterator[Inert]:
    """Yield inert keys and entries of a settings object and of those below it, by field order.

    Below an inert key only refused entries are reported. `written` is the mapping as the user wrote
    it, overrides applied.
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
        every = conditions.get(name, ())
        unmet = next((each for each in every if not each.holds(settings, facts)), None)
        if unmet is not None:
            yield Inert((key,), _message(unmet.because, unmet.hint))
            below = [each for each in below if each.is_refused]
        yield from below


def _below(key_path: KeyPath, value: Any, written: Any, facts: ScenarioFacts) -> Iterator[Inert]:
    """Yield what is inert in the settings in a value: the value itself, or items of a list."""
    if isinstance(value, Settings):
        for inert in inert_keys(value, written, facts):
            yield inert._replace(key_path=(*key_path, *inert.key_path))
    elif isinstance(value, tuple) and isinstance(written, list):
        for index, (item, below) in enumerate(zip(value, written, strict=False)):
            yield from _below((*key_path, index), item, below, facts)


def _entries(
    key_path: KeyPath, value: Any, written: Any, conditions: Sequence[ActsIf], facts: ScenarioFacts
) -> Iterator[Inert]:
    """Yield inert entries, as the user wrote them, each with the first condition that fails."""
    if not conditions or not isinstance(written, list | dict):
        return
    keys = range(len(written)) if isinstance(written, list) else written
    for key, entry in zip(keys, value, strict=True):
        unmet = next((each for each in conditions if not each.holds(entry, facts)), None)
        if unmet is not None:
            because = unmet.because.format(entry=entry)
            hint = unmet.hint.format(entry=entry)
            message = f"{because}; leave it out" if unmet.is_refused else _message(because, hint)
            yield Inert((*key_path, key), message, unmet.is_refused)


def _message(because: str, hint: str) -> str:
    return f"has no effect: {because}; {hint}, or leave it out"
