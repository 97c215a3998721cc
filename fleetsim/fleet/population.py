"""Who the clients are: which device, where, how much data, whose habits. Pure in time.

A `Fleet` joins devices, channel, people and batteries of N clients into arrays and answers what
any of them would experience at any moment; it holds nothing that changes while the clock runs.
Every assignment is drawn from an addressed stream, so it depends on the scenario's seed alone:
not on the selector, and (but for the exact device counts) not on N.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field, field_validator

from fleetsim import bundled, rng
from fleetsim.contracts import BoolArray, FloatArray, IntArray, ModelCost, Work
from fleetsim.errors import ScenarioError
from fleetsim.faults import nearest
from fleetsim.fleet.channel import (
    Channel,
    ChannelSettings,
    Direction,
    FadingSettings,
    build_channel,
)
from fleetsim.fleet.compute import lay_out_computations, unloaded_s
from fleetsim.fleet.energy import BatterySettings
from fleetsim.fleet.profile import DeviceProfile, load_device, load_radio, wifi_radio
from fleetsim.fleet.promotion import with_promotions
from fleetsim.fleet.radios import Radios, table_of
from fleetsim.fleet.timeline import Timelines
from fleetsim.fleet.trace import Trace
from fleetsim.fleet.trace_files import read_trace
from fleetsim.fleet.usage import Usage, UsageSettings, build_usage
from fleetsim.settings import Settings
from fleetsim.units import S_PER_HOUR

_FRACTION_TOLERANCE = 1e-6


class FleetSettings(Settings):
    """The clients of a scenario and the world they live in."""

    size: Annotated[int, Field(ge=1, le=1_000_000_000)]
    """Number of clients."""
    devices: dict[str, Annotated[float, Field(gt=0.0)]]
    """Share of the clients per device profile, bundled name or path; the shares sum to 1."""
    channel: ChannelSettings = FadingSettings()
    usage: UsageSettings = UsageSettings()
    battery: BatterySettings = BatterySettings()
    crash_per_hour: Annotated[float, Field(ge=0.0)] = 0.0
    """Rate at which a client's process dies while it works on a task (exponential)."""

    @field_validator("devices")
    @classmethod
    def _sums_to_one(cls, devices: dict[str, float]) -> dict[str, float]:
        if not devices:
            raise ValueError("name at least one device, such as {pixel-6: 1.0}")
        total = sum(devices.values())
        if abs(total - 1.0) > _FRACTION_TOLERANCE:
            raise ValueError(f"the shares must sum to 1, they sum to {total:g}")
        return devices


@dataclass(frozen=True, slots=True)
class Fleet:
    """N clients and their world; see the module's docstring."""

    seed: int
    profiles: tuple[DeviceProfile, ...]
    device: IntArray
    """Index into `profiles` of every client [N]."""
    num_samples: IntArray
    """Training samples of every client [N]."""
    channel: Channel
    usage: Usage
    battery: BatterySettings
    capacity_j: FloatArray
    """Battery of every client [N]; NaN where the device is mains powered."""
    initial_j: FloatArray
    """Battery level at time 0 [N]; NaN as above."""
    crash_per_hour: float
    radios: Radios

    @property
    def size(self) -> int:
        """Number of clients N."""
        return int(self.device.size)

    def profile(self, client: int) -> DeviceProfile:
        """Hardware of a client."""
        return self.profiles[int(self.device[client])]

    def radios_at(self, clients: IntArray, t_s: FloatArray) -> IntArray:
        """Radios (in `radios`) that transfers of clients starting at t use, all [n]."""
        is_unmetered = self.usage.is_unmetered_at(clients, t_s)
        return self.radios.at(self.device[clients], is_unmetered)

    def transfers(
        self,
        clients: IntArray,
        direction: Direction,
        start_s: FloatArray,
        bit: FloatArray,
        radio: IntArray,
        is_asleep: BoolArray,
    ) -> list[tuple[IntArray, Timelines]]:
        """Transfers that start at `start_s`, as of `Channel.transfers`; all arguments [n].

        Radios that are asleep are promoted before the first bit.
        """
        busy_w, j_per_bit = self.radios.busy_w[direction], self.radios.j_per_bit[direction]
        promotion_s = np.where(is_asleep, self.radios.promotion_s[radio], 0.0)
        laid_out = self.channel.transfers(
            clients, direction, start_s + promotion_s, bit, busy_w[radio], j_per_bit[radio]
        )
        if not promotion_s.any():
            return laid_out
        promotion_w = self.radios.promotion_w[radio]
        return [
            part
            for rows, timelines in laid_out
            for part in with_promotions(rows, timelines, start_s[rows], promotion_w[rows])
        ]

    def computations(
        self, clients: IntArray, start_s: FloatArray, cost: ModelCost, work: Work, batch_size: int
    ) -> Timelines:
        """The same work of clients [n] that starts at `start_s` [n], progress in unloaded s."""
        device, num_samples = self.device[clients], self.num_samples[clients]
        seconds, power_w = np.empty(clients.size), np.empty(clients.size)
        for index in set(device.tolist()):
            profile, rows = self.profiles[index], device == index
            power_w[rows] = profile.power.train_above_idle_w
            seconds[rows] = unloaded_s(
                profile.compute, cost, work, num_samples=num_samples[rows], batch_size=batch_size
            )
        return lay_out_computations(
            start_s, seconds, power_w, lambda rows, t_s: self.usage.load_after(clients[rows], t_s)
        )

    def crash_at_s(self, client: int, start_s: float, *address: int) -> float:
        """When a task of this address that starts at `start_s` crashes; inf if it never does."""
        if self.crash_per_hour == 0.0:
            return np.inf
        draw = rng.stream(self.seed, "crash", client, *address).exponential()
        return start_s + float(draw) * S_PER_HOUR / self.crash_per_hour


def build_fleet(settings: FleetSettings, *, seed: int, num_samples: IntArray) -> Fleet:
    """Draw the fleet of a scenario.

    Args:
        settings: the scenario's `fleet`.
        seed: the scenario's seed.
        num_samples: training samples of every client [N].

    Raises:
        ScenarioError: a trace that is not there.
        DataError: a device, radio or trace file that is wrong.
    """
    profiles = tuple(load_device(name) for name in settings.devices)
    device = deal_devices(settings.devices, size=settings.size, seed=seed)
    has_people = np.array([p.kind in settings.usage.kinds for p in profiles], dtype=np.bool_)[
        device
    ]
    wired_bit_per_s = np.array(
        [np.nan if p.wired is None else p.wired.bit_per_s for p in profiles], dtype=np.float64
    )[device]
    capacity_j = np.array(
        [np.nan if p.battery_j is None else p.battery_j for p in profiles], dtype=np.float64
    )[device]
    low, high = settings.battery.initial_fraction
    draw = rng.stream(seed, "battery").random(settings.size)
    return Fleet(
        seed=seed,
        profiles=profiles,
        device=device,
        num_samples=num_samples,
        channel=build_channel(
            settings.channel, seed=seed, size=settings.size, wired_bit_per_s=wired_bit_per_s
        ),
        usage=build_usage(
            load_trace(settings.usage),
            seed=seed,
            has_people=has_people,
            shift=settings.usage.shift,
            starts_at_s=settings.usage.starts_at_s,
        ),
        battery=settings.battery,
        capacity_j=capacity_j,
        initial_j=capacity_j * (low + (high - low) * draw),
        crash_per_hour=settings.crash_per_hour,
        radios=table_of(
            [
                None
                if profile.wired is not None
                else wifi_radio(profile, settings.channel.unmetered_radio)
                for profile in profiles
            ],
            metered=load_radio(settings.channel.metered_radio),
            wired=load_radio("wired"),
        ),
    )


def deal_devices(shares: Mapping[str, float], *, size: int, seed: int) -> IntArray:
    """Device index of every client [N]: exact counts by largest remainder, then shuffled.

    >>> deal_devices({"a": 0.5, "b": 0.25, "c": 0.25}, size=4, seed=1).tolist().count(0)
    2
    """
    exact = np.array(list(shares.values())) / sum(shares.values()) * size
    counts = np.floor(exact).astype(np.int64)
    by_remainder = np.argsort(-(exact - counts), kind="stable")
    counts[by_remainder[: size - int(counts.sum())]] += 1
    in_order = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    return rng.stream(seed, "device").permutation(in_order)


def load_trace(settings: UsageSettings) -> Trace | None:
    """The usage trace that a scenario names, if it names one.

    Raises:
        ScenarioError: it is not there.
        DataError: a file of it is wrong.
    """
    if settings.trace is None:
        return None
    return read_trace(find_trace(settings.trace), unknown=settings.unknown)


def find_trace(name: str) -> Path:
    """Folder or file of a trace, bundled or the user's own.

    Raises:
        ScenarioError: neither exists.
    """
    path = bundled.find("traces", name)
    if path is None:
        close = nearest(name, bundled.names("traces"))
        hint = f"did you mean {close!r}?" if close else "see `fleetsim list traces`"
        raise ScenarioError(f"fleet.usage.trace = {name!r}: no such bundled trace or path; {hint}")
    return path
