"""Skin temperature of phones and the clock that it allows.

The skin is one node; between thresholds T is an exponential, so crossings have a closed form. A
threshold at which the cooler side heats up and the hotter side cools down is never left: there
speed and power are the means s * v_k + (1 - s) * v_(k+1) and s * theta_k^2 + (1 - s) *
theta_(k+1)^2, with the share s of time on the cooler side and the speed v_k at the clock theta_k
(`pace.speed_at`). So a computation passes every threshold at most once, and the temperature is the
whole state. Equation and sources: docs/device-speeds.md (Heat).
"""

from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import numpy as np
from pydantic import Field

from fleetsim.contracts import FloatArray
from fleetsim.fleet.columns import Columns
from fleetsim.fleet.devices.pace import speed_at
from fleetsim.settings import Settings

_FORGETS_AFTER = 40.0
"""Time constants after which a float does not depend on the first temperature (e^-40: 4e-18)."""


class NoThermalSettings(Settings):
    """No device is slowed by heat."""

    kind: Literal["none"] = "none"


class SkinSettings(Settings):
    """Phones, and devices with a `thermal` section of their own, slow down as their skin heats."""

    kind: Literal["skin"] = "skin"
    ambient_c: Annotated[float, Field(ge=-40.0, le=60.0)] = 25.0
    """Temperature of the air."""
    resistance_k_per_w: Annotated[float, Field(ge=1e-3, le=1000.0)] = 6.8
    """Rise of the settled skin temperature per watt, for devices whose file does not state it."""
    time_constant_s: Annotated[float, Field(ge=1e-3, le=1e6)] = 70.0
    """Seconds in which the skin covers 63 % of a change, for the same devices."""


ThermalSettings = Annotated[NoThermalSettings | SkinSettings, Field(discriminator="kind")]


@dataclass(frozen=True, slots=True)
class SkinProfile:
    """Throttling of one type of device by heat; None: the value of the scenario."""

    threshold_c: tuple[float, ...]
    """Skin temperatures above which the clock is capped, rising."""
    clock_fraction: tuple[float, ...]
    """Share of the full clock that is left above each of them, falling."""
    resistance_k_per_w: float | None = None
    time_constant_s: float | None = None


PIXEL_3 = SkinProfile(
    threshold_c=(39.0, 41.0, 43.0, 45.0, 47.0),
    clock_fraction=tuple(ghz / 2.6496 for ghz in (1.9968, 1.6896, 1.3632, 1.056, 0.8256)),
)
"""Throttling of phones whose file has no thermal section (inferred for all but the Pixel 3)."""


class SkinStep(NamedTuple):
    """Course of temperatures up to their next threshold, all [n]."""

    speed: FloatArray
    """Speed over that at full clock."""
    power: FloatArray
    """Share of the full power above idle."""
    toward_c: FloatArray
    """Temperature at which it would settle."""
    hold_s: FloatArray
    """Seconds to the next threshold; inf if it is never met."""
    next_c: FloatArray
    """Temperature at that threshold; if it is never met, the settled temperature."""


@dataclass(frozen=True, slots=True, eq=False)
class Skins(Columns):
    """Skins of n devices; NaN where heat does not slow a device."""

    resting_c: FloatArray
    """Settled temperature of an idle device [n]."""
    rise_k: FloatArray
    """Rise of the settled temperature at full use and full clock [n]."""
    time_constant_s: FloatArray
    threshold_c: FloatArray
    """Ascending thresholds [n, K+1]; unused ones, and always the last, are inf."""
    clock_fraction: FloatArray
    """Cap of the clock below the first threshold, then above each [n, K+1]."""
    clock_share: FloatArray
    """Share of the time at full clock that a lower clock stretches [n]."""

    @property
    def max_steps(self) -> int:
        """Number of steps after which every temperature has settled: one a threshold."""
        return int(self.threshold_c.shape[1])

    @property
    def forgets_s(self) -> FloatArray:
        """Seconds after which a temperature does not depend on its first value [n].

        Two temperatures under the same load approach each other at 1 / tau or faster, because the
        hotter one is never heated more.
        """
        return _FORGETS_AFTER * self.time_constant_s

    def step(self, skin_c: FloatArray, use: FloatArray, clock_fraction: float) -> SkinStep:
        """Return the step of skins at temperatures [n] under constant use [n] of the processor.

        `use` is the share in use by all programs, `clock_fraction` that of the full clock that the
        task asks for.
        """
        row = np.arange(skin_c.size)
        cooler = (self.threshold_c < skin_c[:, np.newaxis]).sum(axis=1)
        hotter = (self.threshold_c <= skin_c[:, np.newaxis]).sum(axis=1)
        cooler_clock = np.minimum(self.clock_fraction[row, cooler], clock_fraction)
        hotter_clock = np.minimum(self.clock_fraction[row, hotter], clock_fraction)
        cooler_c = self.resting_c + self.rise_k * use * cooler_clock**2
        hotter_c = self.resting_c + self.rise_k * use * hotter_clock**2
        # Equal sides (not on a threshold) never slide, and give the same step either way.
        slides = (cooler_c > skin_c) & (hotter_c < skin_c)
        falls = cooler_c <= skin_c
        level = np.where(falls, cooler, hotter)
        clock = np.where(falls, cooler_clock, hotter_clock)
        toward_c = np.where(slides, skin_c, np.where(falls, cooler_c, hotter_c))
        share = np.zeros(skin_c.size)
        np.divide(skin_c - hotter_c, cooler_c - hotter_c, out=share, where=slides)
        cooler_speed = speed_at(cooler_clock, self.clock_share)
        hotter_speed = speed_at(hotter_clock, self.clock_share)
        speed = np.where(
            slides,
            share * cooler_speed + (1.0 - share) * hotter_speed,
            np.where(falls, cooler_speed, hotter_speed),
        )
        power = np.where(
            slides, share * cooler_clock**2 + (1.0 - share) * hotter_clock**2, clock**2
        )
        above_c = self.threshold_c[row, level]
        below_c = np.where(level > 0, self.threshold_c[row, np.maximum(level - 1, 0)], -np.inf)
        next_c = np.where(toward_c > skin_c, above_c, below_c)
        crosses = np.where(toward_c > skin_c, toward_c > above_c, toward_c < below_c)
        crosses &= ~slides
        ratio = np.full(skin_c.size, np.inf)
        np.divide(next_c - skin_c, toward_c - next_c, out=ratio, where=crosses)
        hold_s = self.time_constant_s * np.log1p(ratio)
        return SkinStep(speed, power, toward_c, hold_s, np.where(crosses, next_c, toward_c))

    def after(
        self, skin_c: FloatArray, use: FloatArray, clock_fraction: float, seconds: FloatArray
    ) -> FloatArray:
        """Return temperatures [n] after seconds [n] under constant `use` [n]."""
        skin_c, left_s = skin_c.copy(), seconds.copy()
        for _ in range(self.max_steps):
            step = self.step(skin_c, use, clock_fraction)
            crosses = step.hold_s < left_s
            way = -np.expm1(-left_s / self.time_constant_s)
            reached_c = skin_c + (step.toward_c - skin_c) * way
            # Rounding must not carry a temperature past the end of the step.
            low_c, high_c = np.minimum(skin_c, step.next_c), np.maximum(skin_c, step.next_c)
            reached_c = np.clip(reached_c, low_c, high_c)
            skin_c = np.where(crosses, step.next_c, reached_c)
            left_s = np.where(crosses, left_s - step.hold_s, 0.0)
            if not crosses.any():
                break
        return skin_c


class Heater(NamedTuple):
    """Heat sources of one type of device."""

    skin: SkinProfile | None
    """None: heat does not slow it."""
    idle_w: float
    train_w: float
    clock_share: float = 1.0
    """Share of its time at full clock that a lower clock stretches."""


def skins_of(settings: NoThermalSettings | SkinSettings, heaters: list[Heater]) -> Skins | None:
    """Return the skins of several types of device; None if heat slows none of them."""
    if isinstance(settings, NoThermalSettings) or all(h.skin is None for h in heaters):
        return None
    size = 1 + max(len(h.skin.threshold_c) for h in heaters if h.skin is not None)
    numbers = np.full((len(heaters), 3), np.nan)
    threshold_c = np.full((len(heaters), size), np.inf)
    clock_fraction = np.ones((len(heaters), size))
    for row, (skin, idle_w, train_w, _) in enumerate(heaters):
        if skin is None:
            continue
        resistance, tau_s = skin.resistance_k_per_w, skin.time_constant_s
        k_per_w = settings.resistance_k_per_w if resistance is None else resistance
        numbers[row] = (
            settings.ambient_c + k_per_w * idle_w,
            k_per_w * train_w,
            settings.time_constant_s if tau_s is None else tau_s,
        )
        num = len(skin.threshold_c)
        threshold_c[row, :num] = skin.threshold_c
        clock_fraction[row, 1 : num + 1] = skin.clock_fraction
    resting_c, rise_k, time_constant_s = numbers.T.copy()
    clock_share = np.array([heater.clock_share for heater in heaters])
    return Skins(resting_c, rise_k, time_constant_s, threshold_c, clock_fraction, clock_share)
