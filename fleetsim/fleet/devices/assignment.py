"""Device and unit speed of each client.

Device models are assigned in exact shares. The share called `market` becomes phones like those on
the market (`fleetsim.fleet.devices.market`). Units of one model differ in speed by the factor

    v = exp(sigma * z + sigma^2 / 2),  z standard normal, one draw per client

which keeps the mean time of a piece of work (docs/device-speeds.md, Units of one model).
"""

import dataclasses
import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fleetsim import rng
from fleetsim.contracts import FloatArray, IntArray
from fleetsim.fleet.devices import market
from fleetsim.fleet.devices.hardware_files import HardwareFiles
from fleetsim.fleet.devices.profile import DeviceProfile, load_device

MARKET = "market"
"""Name in `fleet.devices` of phones as fast as those on the market."""


@dataclass(frozen=True, slots=True)
class Hardware:
    """Devices of N clients."""

    profiles: tuple[DeviceProfile, ...]
    device: IntArray
    """Index into `profiles` of every client [N]."""
    unit_speed: FloatArray
    """Speed of every client's unit divided by that of its profile [N]."""


def file_names(name: str) -> tuple[str, ...]:
    """Return the names of the device files of a name in `fleet.devices`."""
    return market.PHONES if name == MARKET else (name,)


def load_devices(name: str, *, files: HardwareFiles | None = None) -> tuple[DeviceProfile, ...]:
    """Return the profiles of a name in `fleet.devices`: one, or those of the market."""
    if name != MARKET:
        return (load_device(name, files=files),)
    return tuple(
        dataclasses.replace(load_device(phone, files=files), name=f"{MARKET}:{phone}")
        for phone in market.PHONES
    )


def assign_hardware(
    shares: Mapping[str, float],
    *,
    unit_spread_sigma: float,
    size: int,
    seed: int,
    files: HardwareFiles | None = None,
) -> Hardware:
    """Assign devices and unit speeds to N clients, by shares per name of a device or `market`."""
    groups = [load_devices(name, files=files) for name in shares]
    firsts = np.cumsum([0, *(len(group) for group in groups[:-1])])
    group = assign_devices(shares, size=size, seed=seed)
    device = firsts[group]
    if unit_spread_sigma == 0.0:
        unit_speed: FloatArray = np.ones(size)
    else:
        normal = rng.stream(seed, "unit-spread").standard_normal(size)
        unit_speed = np.exp(unit_spread_sigma * normal + unit_spread_sigma**2 / 2.0)
    if MARKET in shares:
        index = list(shares).index(MARKET)
        on_market = group == index
        rates = market.conv_flop_per_s(market.draw_latencies_ms(seed, size)[on_market])
        phones = np.array([profile.compute.conv_flop_per_s for profile in groups[index]])
        nearest = market.nearest(rates, phones.tolist())
        device[on_market] += nearest
        unit_speed[on_market] *= rates / phones[nearest]
    return Hardware(tuple(itertools.chain(*groups)), device, unit_speed)


def assign_devices(shares: Mapping[str, float], *, size: int, seed: int) -> IntArray:
    """Return the index into the shares of every client [N]: exact counts, in random order."""
    counts = device_counts(shares, size=size)
    in_order = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    return rng.stream(seed, "device").permutation(in_order)


def device_counts(shares: Mapping[str, float], *, size: int) -> IntArray:
    """Return the number of clients with each device, exact by largest remainder.

    >>> device_counts({"a": 0.5, "b": 0.49, "c": 0.01}, size=4).tolist()
    [2, 2, 0]
    """
    exact = np.array(list(shares.values())) / sum(shares.values()) * size
    counts = np.floor(exact).astype(np.int64)
    by_remainder = np.argsort(-(exact - counts), kind="stable")
    counts[by_remainder[: size - int(counts.sum())]] += 1
    return counts
