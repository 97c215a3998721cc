"""Schema of device and radio files: figures in the units in which they are published.

Every figure has its unit in the key and its source beside the value; docs/devices.md explains how
to write such a file. A figure has no default: a device without power or without a link is refused.
`fleetsim.fleet.devices.profile` converts the figures to SI units.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import Field, model_validator

from fleetsim.fleet.devices import figures
from fleetsim.schema.faults import at
from fleetsim.schema.ranges import DrawW
from fleetsim.settings import Settings

_PEAK_TOLERANCE = 0.01
"""Relative difference that rounding of a peak may make."""

DeviceKind = Literal["phone", "board", "vm"]
Backend = Literal["cpu", "gpu"]
Network = Literal["wifi", "cellular", "wired"]
CLOCK_SHARE: Mapping[Backend, figures.ShareFigure] = {
    "cpu": figures.ShareFigure(
        value=0.27,
        source=(
            "fit to 25 points of UbiquitousLearning/Benchmark-On-Device-Training@1b3cfeb (MNN, a"
            " Snapdragon 855 at its own clocks and at 1.7088 GHz); single networks have 0.03 to"
            " 0.50; `fleetsim world validate` repeats it"
        ),
        inferred=True,
        log_sd=1.0,
    ),
    "gpu": figures.ShareFigure(
        value=1.0, source="assumed: no training of a GPU at a lower clock was found", inferred=True
    ),
}
"""Clock share of devices whose file has none, by the processor that trains."""


class PhiFile(Settings):
    """Rate of each class of operations over the rate of convolutions, whose own factor is 1."""

    depthwise: figures.RatioFigure
    """Rate of convolutions with one group per input channel over R."""
    gemm: figures.RatioFigure
    """Rate of linear layers, attention and other matrix products over R."""
    rnn: figures.RatioFigure
    """Rate of recurrent layers over R."""

    @model_validator(mode="before")
    @classmethod
    def _has_no_tiny(cls, data: object) -> object:
        if isinstance(data, dict) and "tiny" in data:
            message = (
                "small networks have no rate of their own any more; leave it out and give"
                " compute.layer_s, the overhead of a layer (`fleetsim docs devices`)"
            )
            raise at(("tiny",), message)
        return data


class CoreFile(Settings):
    """Cores of one kind that train; `peak_gflop_per_s` and the watts were computed from them."""

    core: figures.Text
    count: Annotated[int, Field(ge=1, le=1_000_000)]
    clock_ghz: Annotated[float, Field(ge=1e-3, le=10.0)]
    """Clock of all figures of the file."""
    flop_per_cycle: Annotated[float, Field(ge=0.1, le=1024.0)]
    """FP32 operations of one core in a cycle, 2 a multiply-add."""
    run: figures.Text | None = None
    """Run in measurements/core-power.csv that has the watts of one such core."""
    cpu: Annotated[int, Field(ge=0, le=1023)] | None = None
    """Number of the core in that run."""
    less_w: DrawW = 0.0
    """Part of the measured watts that other components drew."""
    exponent: Annotated[float, Field(ge=0.1, le=10.0)] | None = None
    """Exponent of power over clock, where the clock lies beyond the measured ones."""

    @model_validator(mode="after")
    def _names_a_run_whole(self) -> CoreFile:
        if (self.run is None) != (self.cpu is None):
            raise at(("cpu",), "run and cpu name a measurement together; give both or neither")
        return self


class ComputeFile(Settings):
    """Speed of the device at training."""

    backend: Backend
    """Processor that trains: `cpu` or `gpu`."""
    cores: Annotated[tuple[CoreFile, ...], Field(min_length=1)] | None = None
    """Cores that train, one entry a kind; for display and checks only."""
    conv_gflop_per_s: figures.GflopPerSFigure
    """R: rate of convolutions while training."""
    peak_gflop_per_s: figures.PeakFigure | None = None
    """FP32 peak of the cores that train; for display and checks only."""
    dispatch_s: figures.DelayFigure
    """t_d: overhead of one batch, whatever the model."""
    layer_s: figures.DelayFigure | None = None
    """k_l: overhead of one trained batch per layer of the model that multiplies matrices; a forward
    pass has a third of it. None: `dispatch_s` includes it."""
    parameter_s_per_mparam: figures.SecondsFigure
    """k_p: overhead of one trained batch per million model parameters."""
    phi: PhiFile
    clock_share: figures.ShareFigure = CLOCK_SHARE["cpu"]
    """Share of the time at full clock that a lower clock stretches; the rest waits for memory.
    Unless given: the same share for all devices of the backend."""

    @model_validator(mode="after")
    def _has_the_clock_share_of_its_backend(self) -> ComputeFile:
        if "clock_share" not in self.model_fields_set:
            # A default by another field, which pydantic 2.7 cannot express; the model is frozen.
            object.__setattr__(self, "clock_share", CLOCK_SHARE[self.backend])
        return self

    @model_validator(mode="after")
    def _peaks_as_its_cores(self) -> ComputeFile:
        if self.cores is None or self.peak_gflop_per_s is None:
            return self
        peak = sum(core.count * core.clock_ghz * core.flop_per_cycle for core in self.cores)
        if not math.isclose(self.peak_gflop_per_s.value, peak, rel_tol=_PEAK_TOLERANCE):
            message = (
                f"the cores' count x clock_ghz x flop_per_cycle are {peak:g}; correct one of them,"
                " or say cores: null"
            )
            raise at(("peak_gflop_per_s", "value"), message)
        return self


class PowerFile(Settings):
    """Power of the device, without its radio."""

    idle_awake_w: figures.PowerFigure
    """Power while awake and idle, with the screen off; charged as idle during a task."""
    train_above_idle_w: figures.PowerFigure
    """Power of training at full speed, above idle; charged as compute."""


class WifiFile(Settings):
    """Power of busy Wi-Fi above idle."""

    receive_w: figures.PowerFigure
    """Power while receiving, above idle; charged as receive."""
    transmit_w: figures.PowerFigure
    """Power while sending, above idle; charged as transmit."""


class WiredFile(Settings):
    """A cable."""

    bit_per_s: figures.BitPerSFigure
    """Rate of the cable in each direction; it draws nothing."""


class BatteryFile(Settings):
    """A full battery."""

    capacity_mah: figures.ChargeFigure
    """Charge of a full battery."""
    nominal_v: figures.VoltFigure
    """Voltage that turns this charge into joules."""


class CreditsFile(Settings):
    """CPU credits of a burstable instance; a credit is one vCPU-minute at 100 %.

    The earnings pay for the baseline: `per_hour / (60 * num_vcpus)` of each vCPU.
    """

    num_vcpus: figures.CountFigure
    """Number of vCPUs."""
    per_hour: figures.CreditsFigure
    """Credits earned in an hour, idle or not."""
    maximum: figures.CreditsFigure
    """Limit of the earned credits."""
    launch: figures.LaunchCreditsFigure
    """Credits at launch, in addition to earned ones."""


class ThermalFile(Settings):
    """Throttling by heat; without effect where the scenario has `fleet.thermal.kind: none`."""

    threshold_c: figures.FiguresFile
    """Skin temperatures above which the clock is capped, rising."""
    clock_fraction: figures.FiguresFile
    """Share of the full clock that is left above each of them, falling."""
    resistance_k_per_w: figures.KelvinPerWattFigure | None = None
    """Rise of the settled skin temperature per watt; None: that of the scenario."""
    time_constant_s: figures.TimeConstantFigure | None = None
    """Seconds in which the skin covers 63 % of a change; None: that of the scenario."""

    @model_validator(mode="after")
    def _falls_step_by_step(self) -> ThermalFile:
        threshold_c, clock_fraction = self.threshold_c.values, self.clock_fraction.values
        if any(later <= earlier for earlier, later in pairwise(threshold_c)):
            raise at(("threshold_c",), "must rise from each to the next")
        if len(clock_fraction) != len(threshold_c):
            message = (
                f"must be as many as threshold_c ({len(threshold_c)}), got {len(clock_fraction)}"
            )
            raise at(("clock_fraction",), message)
        if any(later >= earlier for earlier, later in pairwise((1.0, *clock_fraction))):
            raise at(("clock_fraction",), "must begin below 1 and fall from each to the next")
        return self


class DeviceFile(Settings):
    """One device file."""

    title: figures.Text
    """Name of the device."""
    kind: DeviceKind
    """`phone`: used by an owner; `board`: a computer on its own; `vm`: a rented instance. Usage
    traces may be for some kinds only."""
    soc: figures.Text | None = None
    """Chip and cores; a note for readers."""
    notes: figures.Text | None = None
    """Remarks for readers of results."""
    reproduction: figures.Text | None = None
    """Reason why the figures are not those of a physical device but of a publication, for
    comparison with it alone. Scenarios with such a device warn, and tables call it
    `reproduction:NAME`."""
    compute: ComputeFile
    power: PowerFile
    wifi: WifiFile | None = None
    """Wi-Fi; a device has this or `wired`."""
    wired: WiredFile | None = None
    """Cable; a device has this or `wifi`."""
    battery: BatteryFile | None = None
    """None: mains powered."""
    ram_gib: figures.GibFigure
    """Memory, of several variants the smallest: for eligibility and `fleet.memory`."""
    credits: CreditsFile | None = None
    """None: full speed without a limit in time."""
    thermal: ThermalFile | None = None
    """None: phones are throttled like a Pixel 3, other devices not at all."""

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
    """Power of a busy radio in one direction, above idle: base + slope x rate."""

    base_w: figures.DrawFigure
    """Power of the busy radio at rate 0."""
    slope_mw_per_mbit_per_s: figures.SlopeFigure
    """Further power for each Mbit/s."""


class PromotionFile(Settings):
    """Power of an idle radio before its first bit, above idle."""

    power_w: figures.PowerFigure
    """Power while the radio wakes up; charged as receive or transmit."""
    delay_s: figures.SecondsFigure
    """Seconds until the first bit."""


class DrxFile(Settings):
    """Discontinuous reception of a connected radio: its sleep between packets."""

    inactivity_s: figures.SecondsFigure
    """Seconds that it stays awake after a packet; then it draws the `tail_w` of the radio."""


class AmplifierFile(Settings):
    """Power amplifier of a radio, and the rate at which its share of the slope was measured."""

    max_dbm: figures.DbmFigure
    """Highest transmit power of the device class. The transmit figures are taken to hold for it,
    and no scenario sets more."""
    efficiency: figures.ShareFigure
    """Emitted power divided by the power that the transmit chain takes for it, at `max_dbm`."""
    full_mbit_per_s: figures.MbitPerSFigure
    """Rate at which the radio of the transmit figures is on the air all the time."""


class RadioFile(Settings):
    """One radio file."""

    title: figures.Text
    """Name of the radio."""
    power_from: Literal["radio", "device"]
    """`radio`: from `receive` and `transmit` below; `device`: from the device's `wifi` figures."""
    network: Network | None = None
    """Network that carries the bits: `wifi`, `cellular` or `wired`. None: `wifi` with
    `power_from: device`, else `cellular`."""
    rtt_s: figures.SecondsFigure | None = None
    """Round-trip time to a server; None: 0, so transfers begin at full rate."""
    max_bit_per_s_per_hz: figures.ModulationFigure | None = None
    """Fastest modulation and coding, per hertz and spatial stream; None: no limit."""
    max_down_mbit_per_s: figures.MbitPerSFigure | None = None
    """Fastest rate towards the device; None: no limit."""
    max_up_mbit_per_s: figures.MbitPerSFigure | None = None
    """Fastest rate from the device; None: no limit."""
    receive: DirectionFile | None = None
    """Power by rate, above idle; charged as receive. Required with `power_from: radio`."""
    transmit: DirectionFile | None = None
    """The same of sending; charged as transmit."""
    connected_w: figures.PowerFigure | None = None
    """With `power_from: device`: power in a transfer while nothing is on the air."""
    full_mbit_per_s: figures.MbitPerSFigure | None = None
    """With `power_from: device`: rate at which it is on the air all the time and draws the device's
    watts. Without this and `connected_w` it draws them at any rate."""
    amplifier: AmplifierFile | None = None
    """None: the transmit power of a scenario does not change the watts."""
    drx: DrxFile | None = None
    """None: a transfer keeps it awake at any rate."""
    tail_w: figures.DrawFigure
    """Power for `tail_s` after a transfer; charged as tail."""
    tail_s: figures.DelayFigure
    """Seconds after a transfer in which the radio stays on."""
    promotion: PromotionFile | None = None
    """None: it wakes up at once."""

    @model_validator(mode="after")
    def _has_power_once(self) -> RadioFile:
        states_power = self.power_from == "radio"
        for key in ("receive", "transmit"):
            if states_power and getattr(self, key) is None:
                raise at((key,), "missing; or write power_from: device")
            if not states_power and getattr(self, key) is not None:
                raise at((key,), "leave it out; or write power_from: radio")
        for key, needs_power in (
            *(("connected_w", False), ("full_mbit_per_s", False)),
            *(("amplifier", True), ("drx", True)),
        ):
            if states_power != needs_power and getattr(self, key) is not None:
                power_from = "radio" if needs_power else "device"
                raise at((key,), f"is for power_from: {power_from}; leave it out")
        if (self.connected_w is None) != (self.full_mbit_per_s is None):
            raise at(("connected_w",), "and full_mbit_per_s belong together; give both or neither")
        for key, direction in (("receive", self.receive), ("transmit", self.transmit)):
            if self.drx is None or direction is None or direction.base_w.value >= self.tail_w.value:
                continue
            raise at(
                (key, "base_w"),
                f"is below tail_w = {self.tail_w.value:g}, which the radio draws asleep; raise it"
                " or leave drx out",
            )
        return self
