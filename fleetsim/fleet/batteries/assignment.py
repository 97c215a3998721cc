"""Assignment of batteries: capacity and age, charger, and level at time 0 of each client."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fleetsim import rng
from fleetsim.contracts import FloatArray, IntArray
from fleetsim.fleet.batteries.base import Batteries
from fleetsim.fleet.batteries.dynamics import Bands, Habits, Rules
from fleetsim.fleet.batteries.live import LiveBatteries
from fleetsim.fleet.batteries.plain import PlainBatteries
from fleetsim.fleet.batteries.settings import (
    BatterySettings,
    EverydaySettings,
    ResistiveSettings,
    TaperedChargingSettings,
)
from fleetsim.fleet.devices.assignment import MARKET
from fleetsim.fleet.devices.profile import DeviceProfile
from fleetsim.fleet.traces.periodic import PeriodicSteps
from fleetsim.fleet.usage.usage import Usage
from fleetsim.units import S_PER_HOUR

_NO_OWNER = EverydaySettings(standby_w=0.0, screen_w=0.0, cpu_w=0.0)


def assign_batteries(
    settings: BatterySettings,
    *,
    profiles: Sequence[DeviceProfile],
    device: IntArray,
    usage: Usage,
    seed: int,
) -> tuple[Batteries, FloatArray]:
    """Return batteries of N clients with devices `profiles[device]`, and their first levels [N]."""
    size = device.size
    given_j = None if settings.capacity_wh is None else settings.capacity_wh * S_PER_HOUR
    capacity_of = [
        np.nan if profile.battery_j is None else given_j or profile.battery_j
        for profile in profiles
    ]
    capacity_j = np.array(capacity_of)[device]
    low, high = settings.health_fraction
    if (low, high) != (1.0, 1.0):
        capacity_j *= low + (high - low) * rng.stream(seed, "battery/health").random(size)
    low, high = settings.initial_fraction
    initial_j = capacity_j * (low + (high - low) * rng.stream(seed, "battery").random(size))
    charge_w: FloatArray = np.broadcast_to(settings.charge_w, size)
    if settings.charge_w_of:
        charge_w = np.array([_charge_w(settings, profile) for profile in profiles])[device]
    has_any = bool(np.isfinite(capacity_j).any())
    common = (capacity_j, charge_w, settings.cutoff_fraction, has_any)
    if settings.is_plain:
        return PlainBatteries(*common, usage.charging_schedule()), initial_j
    habits = _habits(settings.everyday or _NO_OWNER, profiles, device, usage)
    rules = Rules(capacity_j, charge_w, bands_of(settings), habits)
    return LiveBatteries(*common, rules), initial_j


def bands_of(settings: BatterySettings) -> Bands:
    """Return the bands of level in which neither the charger's share nor the voltage changes."""
    charging, discharging = settings.charging, settings.discharging
    given: tuple[tuple[float, ...], tuple[float, ...]] = ((0.0,), (1.0,))
    if isinstance(charging, TaperedChargingSettings):
        given = (charging.from_fraction, charging.power_fraction)
    lost: tuple[tuple[float, ...], tuple[float, ...]] = ((0.0,), (0.0,))
    if isinstance(discharging, ResistiveSettings):
        per_w = tuple(discharging.internal_ohm / volt**2 for volt in discharging.open_circuit_v)
        lost = (discharging.from_fraction, per_w)
    begins = np.unique([*given[0], *lost[0]])
    charge_fraction, loss_per_w = (
        np.array(values)[np.searchsorted(steps, begins, side="right") - 1]
        for steps, values in (given, lost)
    )
    return Bands(
        from_fraction=np.append(begins, 1.0),
        charge_fraction=np.append(charge_fraction, 0.0),
        loss_per_w=np.append(loss_per_w, loss_per_w[-1]),
    )


def _charge_w(settings: BatterySettings, profile: DeviceProfile) -> float:
    name = MARKET if profile.name.startswith(f"{MARKET}:") else profile.name
    for key, charge_w in settings.charge_w_of.items():
        if name == (Path(key).stem if key.endswith((".yaml", ".yml")) else key):
            return charge_w
    return settings.charge_w


def _habits(
    everyday: EverydaySettings, profiles: Sequence[DeviceProfile], device: IntArray, usage: Usage
) -> Habits:
    steps, columns = usage.steps, (usage.states.charging, usage.states.load)
    merged, kept = PeriodicSteps.merged(
        steps.row, steps.shift_s, steps.span_s, steps.offsets, steps.times_s, columns
    )
    cpu_w = np.array(
        [
            profile.power.train_above_idle_w if everyday.cpu_w is None else everyday.cpu_w
            for profile in profiles
        ]
    )[device]
    return Habits(
        steps=merged,
        is_charging=usage.states.charging[kept],
        load=usage.states.load[kept],
        everyday=everyday,
        cpu_w=cpu_w,
    )
