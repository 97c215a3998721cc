"""What may stand in a device file and in a radio file: figures in the units they are published in.

Every figure has its unit in the key and its source beside the value; docs/devices.md says how to
write such a file. There is no default for a figure: a device without power or without a link is
refused, it does not run on 0 W. `fleetsim.fleet.devices.profile` turns the figures into SI units.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from fleetsim.schema.faults import at
from fleetsim.schema.ranges import DrawW, MemoryGib, PowerW, RateBitPerS, VoltageV
from fleetsim.settings import Settings

_PEAK_TOLERANCE = 0.01
"""How far a peak may be rounded."""

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
DeviceKind = Literal["phone", "board", "vm"]
Backend = Literal["cpu", "gpu"]
Network = Literal["wifi", "cellular", "wired"]


class Sourced(Settings):
    """A number and where it comes from."""

    source: Text
    """Where the value was read, or how it was computed."""
    inferred: bool = False
    """True if it was not measured on, or published for, this very device."""


class Figure(Sourced):
    """A positive number and where it comes from; a subclass gives the range of its quantity."""

    value: float


class EfficiencyFigure(Sourced):
    """A ratio of powers, and where it comes from."""

    value: Annotated[float, Field(ge=1e-3, le=1.0)]


class LevelFigure(Sourced):
    """A number that may be 0, and where it comes from; a subclass gives the range."""

    value: float


class GflopPerSFigure(Figure):
    """A rate of computing, up to 10 PFLOP/s."""

    value: Annotated[float, Field(ge=1e-6, le=1e7)]


class RatioFigure(Figure):
    """A rate over another."""

    value: Annotated[float, Field(ge=1e-6, le=1e3)]


class SecondsFigure(Figure):
    """An overhead or a delay, up to some hours."""

    value: Annotated[float, Field(ge=1e-9, le=1e4)]


class DelayFigure(LevelFigure):
    """An overhead or a tail in seconds, which may be 0."""

    value: Annotated[float, Field(ge=0.0, le=1e4)]


class PowerFigure(Figure):
    """A power that is never 0."""

    value: PowerW


class BitPerSFigure(Figure):
    """A rate of a cable."""

    value: RateBitPerS


class MbitPerSFigure(Figure):
    """A rate of a radio, in Mbit/s."""

    value: Annotated[float, Field(ge=1e-6, le=1e7)]


class DbmFigure(Figure):
    """A transmit power, up to that of a broadcasting station."""

    value: Annotated[float, Field(ge=-100.0, le=100.0)]


class ChargeFigure(Figure):
    """What a battery holds, from a hearing aid to a bus."""

    value: Annotated[float, Field(ge=1.0, le=1e7)]


class VoltFigure(Figure):
    """A voltage of a battery."""

    value: VoltageV


class GibFigure(Figure):
    """An amount of memory."""

    value: MemoryGib


class CreditsFigure(Figure):
    """A number of CPU credits."""

    value: Annotated[float, Field(ge=1e-3, le=1e6)]


class LaunchCreditsFigure(LevelFigure):
    """A number of CPU credits that may be 0."""

    value: Annotated[float, Field(ge=0.0, le=1e6)]


class KelvinPerWattFigure(Figure):
    """A thermal resistance."""

    value: Annotated[float, Field(ge=1e-3, le=1e3)]


class TimeConstantFigure(Figure):
    """Seconds in which a skin warms up."""

    value: Annotated[float, Field(ge=1e-3, le=1e6)]


class DrawFigure(LevelFigure):
    """A power that may be 0."""

    value: DrawW


class SlopeFigure(LevelFigure):
    """Power per rate of a radio, in mW per Mbit/s."""

    value: Annotated[float, Field(ge=0.0, le=1e6)]


class PhiFile(Settings):
    """Rate of each class of operations over the rate of convolutions, whose own factor is 1."""

    depthwise: RatioFigure
    gemm: RatioFigure
    rnn: RatioFigure

    @model_validator(mode="before")
    @classmethod
    def _has_no_tiny(cls, data: object) -> object:
        if isinstance(data, dict) and "tiny" in data:
            says = (
                "small networks have no rate of their own any more; leave it out and give"
                " compute.layer_s, the overhead of a layer (docs/devices.md)"
            )
            raise at(("tiny",), says)
        return data


class CoreFile(Settings):
    """Cores of one kind that train; what `peak_gflop_per_s` and the watts were computed from."""

    core: Text
    count: Annotated[int, Field(ge=1, le=1_000_000)]
    clock_ghz: Annotated[float, Field(ge=1e-3, le=10.0)]
    """Clock of all figures of the file."""
    flop_per_cycle: Annotated[float, Field(ge=0.1, le=1024.0)]
    """FP32 operations of one core in a cycle, 2 a multiply-add."""
    run: Text | None = None
    """Run in measurements/core-power.csv that has the watts of one such core."""
    cpu: Annotated[int, Field(ge=0, le=1023)] | None = None
    """Its number in that run."""
    less_w: DrawW = 0.0
    """Part of the measured watts that is not the core's."""
    exponent: Annotated[float, Field(ge=0.1, le=10.0)] | None = None
    """Exponent of power over clock, where the clock lies beyond the measured ones."""

    @model_validator(mode="after")
    def _names_a_run_whole(self) -> CoreFile:
        if (self.run is None) != (self.cpu is None):
            raise at(("cpu",), "run and cpu name a measurement together; give both or neither")
        return self


class ComputeFile(Settings):
    """How fast the device trains."""

    backend: Backend
    """Where it computes."""
    cores: Annotated[tuple[CoreFile, ...], Field(min_length=1)] | None = None
    """The cores that train, one entry a kind; shown and checked, never computed with."""
    conv_gflop_per_s: GflopPerSFigure
    """Rate of convolutions while training."""
    peak_gflop_per_s: GflopPerSFigure | None = None
    """FP32 peak of the cores that train; shown, never computed with."""
    dispatch_s: DelayFigure
    """Overhead of one batch, whatever the model."""
    layer_s: DelayFigure | None = None
    """Overhead of one trained batch per layer of the model that multiplies matrices; a forward pass
    has a third of it. None: `dispatch_s` holds all that was measured."""
    parameter_s_per_mparam: SecondsFigure
    """Overhead of one trained batch per million model parameters."""
    phi: PhiFile

    @model_validator(mode="after")
    def _peaks_as_its_cores(self) -> ComputeFile:
        if self.cores is None or self.peak_gflop_per_s is None:
            return self
        peak = sum(core.count * core.clock_ghz * core.flop_per_cycle for core in self.cores)
        if not math.isclose(self.peak_gflop_per_s.value, peak, rel_tol=_PEAK_TOLERANCE):
            says = (
                f"the cores' count x clock_ghz x flop_per_cycle are {peak:g}; correct one of them,"
                " or say cores: null"
            )
            raise at(("peak_gflop_per_s", "value"), says)
        return self


class PowerFile(Settings):
    """What the device draws."""

    idle_awake_w: PowerFigure
    """Awake, screen off, doing nothing."""
    train_above_idle_w: PowerFigure
    """Training at full speed, on top of idle."""


class WifiFile(Settings):
    """What Wi-Fi draws while it is busy, on top of idle."""

    receive_w: PowerFigure
    transmit_w: PowerFigure


class WiredFile(Settings):
    """A cable."""

    bit_per_s: BitPerSFigure
    """Rate in either direction."""


class BatteryFile(Settings):
    """A full battery."""

    capacity_mah: ChargeFigure
    nominal_v: VoltFigure


class CountFigure(Sourced):
    """A whole number above 0, and where it comes from."""

    value: Annotated[int, Field(ge=1, le=1_000_000)]


class FiguresFile(Sourced):
    """Several numbers that belong together, and where they come from."""

    values: Annotated[tuple[Annotated[float, Field(ge=1e-6, le=1000.0)], ...], Field(min_length=1)]


class CreditsFile(Settings):
    """CPU credits of a burstable instance; a credit is one vCPU-minute at 100 %.

    Its baseline is what the earnings pay for: `per_hour / (60 * num_vcpus)` of each vCPU.
    """

    num_vcpus: CountFigure
    per_hour: CreditsFigure
    """Credits earned in an hour, idle or not."""
    maximum: CreditsFigure
    """Earned credits that it can hold."""
    launch: LaunchCreditsFigure
    """Credits that it begins with, on top of the earned ones."""


class ThermalFile(Settings):
    """How heat slows the device, unless the scenario has `fleet.thermal.kind: none`."""

    threshold_c: FiguresFile
    """Skin temperatures above which the clock is capped, rising."""
    clock_fraction: FiguresFile
    """Share of the full clock that is left above each of them, falling."""
    resistance_k_per_w: KelvinPerWattFigure | None = None
    """Kelvin by which a watt lifts the skin in the end; without it the scenario's."""
    time_constant_s: TimeConstantFigure | None = None
    """Seconds in which the skin covers 63 % of the way; without it the scenario's."""

    @model_validator(mode="after")
    def _falls_step_by_step(self) -> ThermalFile:
        threshold_c, clock_fraction = self.threshold_c.values, self.clock_fraction.values
        if any(later <= earlier for earlier, later in pairwise(threshold_c)):
            raise at(("threshold_c",), "must rise from each to the next")
        if len(clock_fraction) != len(threshold_c):
            says = f"must be as many as threshold_c ({len(threshold_c)}), got {len(clock_fraction)}"
            raise at(("clock_fraction",), says)
        if any(later >= earlier for earlier, later in pairwise((1.0, *clock_fraction))):
            raise at(("clock_fraction",), "must begin below 1 and fall from each to the next")
        return self


class DeviceFile(Settings):
    """One device file."""

    title: Text
    kind: DeviceKind
    """A `phone` is somebody's, a `board` stands somewhere, a `vm` is rented."""
    soc: Text | None = None
    """Chip and cores, for people."""
    notes: Text | None = None
    """What a reader of results should know, for people."""
    reproduction: Text | None = None
    """Why the figures are not those of a physical device but somebody's, for comparison with them
    alone; scenarios with it warn, and tables call it `reproduction:NAME`."""
    compute: ComputeFile
    power: PowerFile
    wifi: WifiFile | None = None
    wired: WiredFile | None = None
    battery: BatteryFile | None = None
    """None: mains powered."""
    ram_gib: GibFigure
    credits: CreditsFile | None = None
    """None: full speed for as long as it likes."""
    thermal: ThermalFile | None = None
    """None: phones as a Pixel 3, other devices are not slowed by heat."""

    @model_validator(mode="after")
    def _has_one_link(self) -> DeviceFile:
        if self.wifi is None and self.wired is None:
            raise ValueError("has neither wifi nor wired; give it one of them")
        if self.wifi is not None and self.wired is not None:
            raise at(("wired",), "the device has wifi already; give it one of them")
        if self.credits is not None and (self.thermal is not None or self.kind != "vm"):
            raise at(
                ("credits",), "are for devices of kind vm, without a thermal section; drop one"
            )
        if self.thermal is not None and self.kind == "vm":
            raise at(("thermal",), "is for phones and boards; a vm has no skin")
        return self


class DirectionFile(Settings):
    """What a busy radio draws in one direction, on top of idle: base + slope x rate."""

    base_w: DrawFigure
    slope_mw_per_mbit_per_s: SlopeFigure


class PromotionFile(Settings):
    """What an idle radio draws before the first bit moves, on top of idle."""

    power_w: PowerFigure
    delay_s: SecondsFigure


class DrxFile(Settings):
    """Discontinuous reception of a connected radio: its sleep between packets."""

    inactivity_s: SecondsFigure
    """How long it stays awake after a packet; then it draws the `tail_w` of the radio."""


class AmplifierFile(Settings):
    """The power amplifier of a radio, and where its share of the transmit slope was measured."""

    max_dbm: DbmFigure
    """Highest transmit power of the device class, which the transmit figures are taken to hold
    for; no scenario sets more."""
    efficiency: EfficiencyFigure
    """Emitted power over what the chain takes from the battery for it, at `max_dbm`."""
    full_mbit_per_s: MbitPerSFigure
    """Rate at which the radio of the transmit figures is on the air all the time."""


class RadioFile(Settings):
    """One radio file."""

    title: Text
    power_from: Literal["radio", "device"]
    """`radio`: from `receive` and `transmit` below; `device`: from the device's `wifi` figures."""
    network: Network | None = None
    """Where the bits go: over an access point, a cell or a cable. None: `wifi` where the power is
    the device's, else `cellular`."""
    rtt_s: SecondsFigure | None = None
    """Round-trip time to a server; None: 0, transfers begin at full rate at once."""
    max_bit_per_s_per_hz: RatioFigure | None = None
    """Fastest modulation and coding, per hertz and spatial stream; None: no limit."""
    max_down_mbit_per_s: MbitPerSFigure | None = None
    """Fastest rate towards the device; None: no limit."""
    max_up_mbit_per_s: MbitPerSFigure | None = None
    """Fastest rate from the device; None: no limit."""
    receive: DirectionFile | None = None
    transmit: DirectionFile | None = None
    connected_w: PowerFigure | None = None
    """With `power_from: device`: drawn in a transfer while nothing is on the air."""
    full_mbit_per_s: MbitPerSFigure | None = None
    """With `power_from: device`: rate at which it is on the air all the time, at the device's
    watts. Without both it draws the device's watts at any rate."""
    amplifier: AmplifierFile | None = None
    """None: a transmit power that a scenario states changes no watts."""
    drx: DrxFile | None = None
    """None: a transfer keeps it awake, however slow it is."""
    tail_w: DrawFigure
    """Drawn for `tail_s` after a transfer."""
    tail_s: DelayFigure
    promotion: PromotionFile | None = None
    """None: it is awake at once."""

    @model_validator(mode="after")
    def _has_power_once(self) -> RadioFile:
        for key, direction in (("receive", self.receive), ("transmit", self.transmit)):
            if self.power_from == "radio" and direction is None:
                raise at((key,), "missing; or write power_from: device")
            if self.power_from == "device" and direction is not None:
                raise at((key,), "leave it out; or write power_from: radio")
        for key, figure in (
            ("connected_w", self.connected_w),
            ("full_mbit_per_s", self.full_mbit_per_s),
        ):
            if self.power_from == "radio" and figure is not None:
                raise at((key,), "is for power_from: device; leave it out")
        if (self.connected_w is None) != (self.full_mbit_per_s is None):
            raise at(("connected_w",), "and full_mbit_per_s belong together; give both or neither")
        for key, part in (("amplifier", self.amplifier), ("drx", self.drx)):
            if self.power_from == "device" and part is not None:
                raise at((key,), "is for power_from: radio; leave it out")
        for key, direction in (("receive", self.receive), ("transmit", self.transmit)):
            if self.drx is None or direction is None or direction.base_w.value >= self.tail_w.value:
                continue
            raise at(
                (key, "base_w"),
                f"is below tail_w = {self.tail_w.value:g}, which the radio draws asleep; raise it"
                " or leave drx out",
            )
        return self


def figures(part: Settings, prefix: str = "") -> Iterator[tuple[str, Sourced]]:
    """All figures by their key paths, such as `compute.phi.gemm`, as they stand."""
    for key in type(part).model_fields:
        match getattr(part, key):
            case Sourced() as figure:
                yield prefix + key, figure
            case Settings() as below:
                yield from figures(below, f"{prefix}{key}.")
