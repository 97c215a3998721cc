"""Profiles of devices and radios in SI units, and their loading from files.

A name is that of a bundled file (`devices/*.yaml`, `radios/*.yaml`) or the path of a file of the
user's own; `fleetsim.fleet.devices.profile_files` has the schema.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from fleetsim import bundled, units
from fleetsim.errors import DataError
from fleetsim.fleet.devices.credits import CreditProfile
from fleetsim.fleet.devices.figures import Figure, figures
from fleetsim.fleet.devices.hardware_files import HardwareFiles
from fleetsim.fleet.devices.profile_files import (
    Backend,
    ComputeFile,
    DeviceKind,
    Network,
    RadioFile,
    ThermalFile,
)
from fleetsim.fleet.devices.thermal import SkinProfile
from fleetsim.quoting import quoted

_REPRODUCTIONS = "reproduction/"


@dataclass(frozen=True, slots=True)
class ComputeProfile:
    """Speed of a device at training; `fleetsim.fleet.devices.compute` has the equation."""

    backend: Backend
    conv_flop_per_s: float
    phi: Mapping[str, float]
    """Rate of each class of operations over `conv_flop_per_s`."""
    dispatch_s: float
    """Overhead of one batch."""
    parameter_s: float
    """Overhead of one trained batch per model parameter."""
    layer_s: float = 0.0
    """Overhead of one trained batch per layer of the model; a forward pass has a third of it."""
    clock_share: float = 1.0
    """Share of the time at full clock that a lower clock stretches (`pace.speed_at`)."""
    peak_flop_per_s: float | None = None
    """FP32 peak of the cores that train, where known."""


@dataclass(frozen=True, slots=True)
class PowerProfile:
    """Power of a device, without its radio."""

    idle_awake_w: float
    train_above_idle_w: float


@dataclass(frozen=True, slots=True)
class WifiProfile:
    """Power of a busy Wi-Fi radio above idle."""

    receive_w: float
    transmit_w: float


@dataclass(frozen=True, slots=True)
class DeviceProfile:
    """One model of hardware. Exactly one of `wifi` and `wired_bit_per_s` is not None."""

    name: str
    """Stem of the file, such as `pixel-6`; `reproduction:STEM` where `reproduction` is set."""
    title: str
    kind: DeviceKind
    compute: ComputeProfile
    power: PowerProfile
    wifi: WifiProfile | None
    wired_bit_per_s: float | None
    """Rate of its cable, both ways; None: it is wireless."""
    battery_j: float | None
    """Full battery; None: mains powered."""
    ram_byte: int
    inferred: tuple[str, ...]
    """Key paths of figures that were neither measured on this device nor published for it."""
    num_figures: int
    credits: CreditProfile | None = None
    """None: full speed without a limit in time."""
    skin: SkinProfile | None = None
    """Throttling by heat; None: the file has no thermal section."""
    reproduction: str | None = None
    """Reason why it is no physical device; None: it is one."""


@dataclass(frozen=True, slots=True)
class AmplifierProfile:
    """Power amplifier of a radio, see `fleetsim.fleet.network.radio_power`."""

    max_dbm: float
    """Highest transmit power of the device class; the radio's transmit figures hold for it."""
    efficiency: float
    """Emitted power divided by the power that the transmit chain takes for it, at `max_dbm`."""
    full_bit_per_s: float
    """Rate at which the radio of the transmit figures is on the air all the time."""


@dataclass(frozen=True, slots=True)
class RadioProfile:
    """Power of a radio above idle: `w + j_per_bit * rate` while it is busy, then a tail.

    A promotion comes first if the radio was idle before.
    """

    name: str
    receive_j_per_bit: float
    receive_w: float
    transmit_j_per_bit: float
    transmit_w: float
    tail_w: float
    tail_s: float
    promotion_w: float = 0.0
    promotion_s: float = 0.0
    network: Network = "cellular"
    """Kind of network that carries the bits: an access point, a cell or a cable."""
    rtt_s: float = 0.0
    max_bit_per_s_per_hz: float = math.inf
    """Fastest modulation and coding, per hertz and spatial stream."""
    max_down_bit_per_s: float = math.inf
    max_up_bit_per_s: float = math.inf
    amplifier: AmplifierProfile | None = None
    drx_inactivity_s: float | None = None
    """Seconds that it stays awake after a packet before it draws `tail_w`; None: no sleep."""


def device_names() -> list[str]:
    """Return the sorted names of the bundled devices, without reproductions."""
    return [name for name in bundled.names("devices") if not name.startswith(_REPRODUCTIONS)]


def reproduction_names() -> list[str]:
    """Return the names of bundled files with figures of a paper, which are no physical devices."""
    return [name for name in bundled.names("devices") if name.startswith(_REPRODUCTIONS)]


def load_device(name: str, *, files: HardwareFiles | None = None) -> DeviceProfile:
    """Return the profile of a device by its bundled name or the path of its file.

    Without `files` the file is read now.

    >>> load_device("jetson-nano-cpu").power.idle_awake_w
    2.1
    """
    path, file = (files or HardwareFiles()).device(name)
    numbers = dict(figures(file))
    wifi, wired, battery = file.wifi, file.wired, file.battery
    return DeviceProfile(
        name=path.stem if file.reproduction is None else f"reproduction:{path.stem}",
        title=file.title,
        kind=file.kind,
        compute=_compute(file.compute),
        power=PowerProfile(**{key: figure.value for key, figure in file.power}),
        wifi=None if wifi is None else WifiProfile(wifi.receive_w.value, wifi.transmit_w.value),
        wired_bit_per_s=None if wired is None else wired.bit_per_s.value,
        battery_j=None
        if battery is None
        else units.battery_j(battery.capacity_mah.value, battery.nominal_v.value),
        ram_byte=round(file.ram_gib.value * units.BYTE_PER_GIB),
        inferred=tuple(key for key, figure in numbers.items() if figure.inferred),
        num_figures=len(numbers),
        credits=None
        if file.credits is None
        else CreditProfile(**{key: figure.value for key, figure in file.credits}),
        skin=None if file.thermal is None else _skin(file.thermal),
        reproduction=file.reproduction,
    )


def load_radio(name: str, *, files: HardwareFiles | None = None) -> RadioProfile:
    """Return the profile of a radio whose file states its own power; arguments as `load_device`."""
    path, file = (files or HardwareFiles()).radio(name)
    if file.receive is None or file.transmit is None:
        raise DataError(
            f"{path}: leaves its power to the device's Wi-Fi, so it serves on unmetered networks "
            f"only; here choose a radio such as 'lte' or 'nr-low'"
        )
    receive, transmit = (
        (way.base_w.value, units.j_per_bit(way.slope_mw_per_mbit_per_s.value))
        for way in (file.receive, file.transmit)
    )
    return _radio(path.stem, file, receive, transmit)


def wifi_radio(
    profile: DeviceProfile,
    name: str = "wifi",
    *,
    files: HardwareFiles | None = None,
    top_bit_per_s: float = 0.0,
) -> RadioProfile:
    """Return the radio of a wireless device on an unmetered network.

    Where the radio file leaves power to the device, as the bundled `wifi` does, a transfer draws
    `connected_w` of the file, and the watts of the device for the share of time on the air
    (`duty_cycle`). If `top_bit_per_s`, the fastest rate of the scenario's Wi-Fi, is above
    `full_mbit_per_s` of the file, the radio is on the air all the time at this rate instead. So it
    never draws more than the device's watts. Any other radio is loaded by `load_radio`.
    """
    path, file = (files or HardwareFiles()).radio(name)
    if file.power_from == "radio":
        return load_radio(name, files=files)
    if profile.wifi is None:
        raise DataError(
            f"{path}: leaves its power to the device's Wi-Fi, and device {quoted(profile.name)} "
            f"has none; add wifi to the device file or choose a radio such as 'lte'"
        )
    watts = (profile.wifi.receive_w, profile.wifi.transmit_w)
    if file.connected_w is None or file.full_mbit_per_s is None:
        receive, transmit = ((busy_w, 0.0) for busy_w in watts)
    else:
        full_bit_per_s = max(file.full_mbit_per_s.value * units.BIT_PER_MBIT, top_bit_per_s)
        receive, transmit = (
            duty_cycle(file.connected_w.value, busy_w, full_bit_per_s) for busy_w in watts
        )
    return _radio(path.stem, file, receive, transmit)


def duty_cycle(connected_w: float, busy_w: float, full_bit_per_s: float) -> tuple[float, float]:
    """Return the power of a transfer in watts, and the additional joules per bit.

    A radio that is on the air for the share r / full of a transfer at rate r draws `busy_w` there
    and `connected_w` between the packets (docs/models/energy.md, Radios):

        P(r) = connected_w + r * (busy_w - connected_w) / full

    If `busy_w` is below `connected_w`, it draws `busy_w` at any rate.
    """
    between_w = min(connected_w, busy_w)
    return between_w, (busy_w - between_w) / full_bit_per_s


def _radio(
    name: str, file: RadioFile, receive: tuple[float, float], transmit: tuple[float, float]
) -> RadioProfile:
    """Return a profile from its file and from (watts, joules per bit) of each direction."""
    promotion, amplifier = file.promotion, file.amplifier
    network = file.network
    if network is None:
        network = "wifi" if file.power_from == "device" else "cellular"
    return RadioProfile(
        name=name,
        receive_w=receive[0],
        receive_j_per_bit=receive[1],
        transmit_w=transmit[0],
        transmit_j_per_bit=transmit[1],
        tail_w=file.tail_w.value,
        tail_s=file.tail_s.value,
        promotion_w=0.0 if promotion is None else promotion.power_w.value,
        promotion_s=0.0 if promotion is None else promotion.delay_s.value,
        network=network,
        rtt_s=_value_or(file.rtt_s, 0.0),
        max_bit_per_s_per_hz=_value_or(file.max_bit_per_s_per_hz, math.inf),
        max_down_bit_per_s=_value_or(file.max_down_mbit_per_s, math.inf) * units.BIT_PER_MBIT,
        max_up_bit_per_s=_value_or(file.max_up_mbit_per_s, math.inf) * units.BIT_PER_MBIT,
        amplifier=None
        if amplifier is None
        else AmplifierProfile(
            max_dbm=amplifier.max_dbm.value,
            efficiency=amplifier.efficiency.value,
            full_bit_per_s=amplifier.full_mbit_per_s.value * units.BIT_PER_MBIT,
        ),
        drx_inactivity_s=None if file.drx is None else file.drx.inactivity_s.value,
    )


def _value_or(figure: Figure[float] | None, missing: float) -> float:
    return missing if figure is None else figure.value


def _compute(file: ComputeFile) -> ComputeProfile:
    peak = file.peak_gflop_per_s
    return ComputeProfile(
        backend=file.backend,
        conv_flop_per_s=file.conv_gflop_per_s.value * units.FLOP_PER_GFLOP,
        phi={"conv": 1.0, **{key: figure.value for key, figure in file.phi}},
        dispatch_s=file.dispatch_s.value,
        parameter_s=file.parameter_s_per_mparam.value / units.PARAMETERS_PER_MPARAM,
        layer_s=0.0 if file.layer_s is None else file.layer_s.value,
        clock_share=file.clock_share.value,
        peak_flop_per_s=None if peak is None else peak.value * units.FLOP_PER_GFLOP,
    )


def _skin(file: ThermalFile) -> SkinProfile:
    resistance, tau_s = (
        None if figure is None else figure.value
        for figure in (file.resistance_k_per_w, file.time_constant_s)
    )
    return SkinProfile(file.threshold_c.values, file.clock_fraction.values, resistance, tau_s)
