"""Settings of `fleet.battery`: size, charger, curves, and power use of owners.

Curves are steps over the state of charge, so that levels are piecewise linear in time;
`from_fraction` holds the beginning of each step. docs/models/battery.md has the sources of the
default steps, those of a phone with a 3000 mAh cell.
"""

from __future__ import annotations

import itertools
from typing import Annotated, Literal

from pydantic import Field, model_validator

from fleetsim.fleet.energy import Fraction
from fleetsim.schema.key_conditions import ASSIGNED_DEVICE, HAS_BATTERY, PEOPLE, ActsIf, by_key
from fleetsim.schema.ranges import (
    CapacityWh,
    DrawW,
    PartFraction,
    PositiveFraction,
    PowerW,
    ResistanceOhm,
    VoltageV,
)
from fleetsim.settings import Settings

StepFraction = Annotated[float, Field(ge=0.0, lt=1.0)]
Health = Annotated[float, Field(ge=0.01, le=1.0)]

_NOT_ALL_CHARGERS_NAMED = ActsIf(
    lambda battery, facts: (
        not facts.battery_devices & facts.assigned_devices <= battery.charge_w_of.keys()
    ),
    "charge_w_of names every device that has a battery",
    "leave a device out of charge_w_of",
)


class ConstantChargingSettings(Settings):
    """Charging at full power until the battery is full."""

    kind: Literal["constant"] = "constant"


class TaperedChargingSettings(Settings):
    """Charging at constant current, then at constant voltage: the power falls near the end."""

    kind: Literal["cc-cv"]
    from_fraction: tuple[StepFraction, ...] = (0.0, 0.70, 0.75, 0.80, 0.85, 0.90, 0.95)
    """Battery level from which each step holds, ascending from 0."""
    power_fraction: tuple[PositiveFraction, ...] = (1.0, 0.957, 0.813, 0.661, 0.504, 0.344, 0.169)
    """Share of the charger's power that the battery takes in each step."""

    @model_validator(mode="after")
    def _is_a_curve(self) -> TaperedChargingSettings:
        _check_steps(self.from_fraction, "power_fraction", self.power_fraction)
        return self


class LosslessSettings(Settings):
    """Discharging without loss."""

    kind: Literal["lossless"] = "lossless"


class ResistiveSettings(Settings):
    """Discharging through an inner resistance: a load of P loses (P / V)^2 R."""

    kind: Literal["resistive"]
    internal_ohm: ResistanceOhm = 0.18
    """Resistance R of cell, protection and leads."""
    from_fraction: tuple[StepFraction, ...] = (
        *(0.0, 0.05, 0.10, 0.20, 0.30, 0.40),
        *(0.50, 0.60, 0.70, 0.80, 0.90),
    )
    """Battery level from which each step holds, ascending from 0."""
    open_circuit_v: tuple[VoltageV, ...] = (
        *(3.453, 3.674, 3.706, 3.753, 3.787, 3.827),
        *(3.887, 3.982, 4.082, 4.190, 4.308),
    )
    """Open-circuit voltage V in each step; it never falls as the level rises."""

    @model_validator(mode="after")
    def _is_a_curve(self) -> ResistiveSettings:
        _check_steps(self.from_fraction, "open_circuit_v", self.open_circuit_v)
        for lower_v, upper_v in itertools.pairwise(self.open_circuit_v):
            if upper_v < lower_v:
                raise ValueError(
                    f"open_circuit_v must not fall as the level rises, got {upper_v:g} after"
                    f" {lower_v:g}"
                )
        return self


ChargingSettings = Annotated[
    ConstantChargingSettings | TaperedChargingSettings, Field(discriminator="kind")
]
DischargingSettings = Annotated[LosslessSettings | ResistiveSettings, Field(discriminator="kind")]


class EverydaySettings(Settings):
    """Power use of owners, in a task or not, while the phone is on."""

    acts_if = by_key(screen_w=PEOPLE, screen_from_load=PEOPLE, cpu_w=PEOPLE)

    standby_w: DrawW = 0.05
    """Constant power (inferred: a Pixel 6 draws 0.039 W suspended, LineageOS raviole@72dadeb, and
    wakes up at times)."""
    screen_w: DrawW = 1.09
    """Power of the screen while it is on (a Pixel 6 at medium brightness, 284 of 98 to 470 mA at
    3.85 V, LineageOS raviole@72dadeb)."""
    screen_from_load: PositiveFraction = 0.05
    """Load in the trace from which the screen counts as on."""
    cpu_w: DrawW | None = None
    """Power of the processor per unit of load in the trace; null: that of training."""
    restart_fraction: PartFraction = 0.03
    """Level to which a phone that ran empty must be charged before it is on again (inferred)."""


class BatterySettings(Settings):
    """Batteries of the clients whose device has one; others are mains-powered."""

    acts_if = by_key(charge_w=_NOT_ALL_CHARGERS_NAMED)
    entries_act_if = by_key(charge_w_of=(HAS_BATTERY, ASSIGNED_DEVICE))

    charge_w: PowerW = 7.5
    """Power that reaches the battery while its owner's trace says charging (5 V x 1.5 A, the
    dedicated charging port of USB Battery Charging 1.2)."""
    charge_w_of: dict[str, PowerW] = Field(default_factory=dict)
    """`charge_w` of some of `fleet.devices`, by name."""
    capacity_wh: CapacityWh | None = None
    """Energy of every new battery; null: that of its device."""
    health_fraction: tuple[Health, Health] = (1.0, 1.0)
    """Share of the size that is left by age, uniform between the two, one draw per client."""
    initial_fraction: tuple[Fraction, Fraction] = (0.5, 1.0)
    """Level at time 0, uniform between the two, one draw per client."""
    cutoff_fraction: Fraction = 0.15
    """Level at which a device drops its task (Android's low-battery warning: 15 %)."""
    charging: ChargingSettings = ConstantChargingSettings()
    """Power of a charger over the level of the battery, by its kind."""
    discharging: DischargingSettings = LosslessSettings()
    """Losses in the battery while it gives power, by their kind."""
    everyday: EverydaySettings | None = None
    """Power use of owners; null: none, only tasks drain batteries."""

    @property
    def is_plain(self) -> bool:
        """True if idle batteries only rise, at constant power."""
        return (
            self.everyday is None
            and isinstance(self.charging, ConstantChargingSettings)
            and isinstance(self.discharging, LosslessSettings)
        )

    @model_validator(mode="after")
    def _ordered(self) -> BatterySettings:
        for key in ("initial_fraction", "health_fraction"):
            low, high = getattr(self, key)
            if low > high:
                raise ValueError(f"{key} must be [low, high], got [{low}, {high}]")
        return self


def _check_steps(from_fraction: tuple[float, ...], key: str, values: tuple[float, ...]) -> None:
    """Check that a curve has as many values as steps, and steps that ascend from 0."""
    if len(from_fraction) != len(values):
        raise ValueError(
            f"{key} must have a value for each of from_fraction, got {len(values)} for"
            f" {len(from_fraction)}"
        )
    if not from_fraction or from_fraction[0] != 0.0:
        raise ValueError(f"from_fraction must begin with 0, got {list(from_fraction)}")
    for lower, upper in itertools.pairwise(from_fraction):
        if upper <= lower:
            raise ValueError(f"from_fraction must be ascending, got {upper:g} after {lower:g}")
