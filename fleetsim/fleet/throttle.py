"""Throttling of computations by CPU credits, heat and a lower clock.

The *condition* of a client is its credit balance or its skin temperature, a row of numbers. It is
pure in time: it follows from an earlier condition and the work since then. A phase that is cut off
leaves the condition of that moment. While a client computes, the whole processor is in use; at any
other time (idle, or in a transfer) only the load uses it. Rules: docs/device-speeds.md.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fleetsim.contracts import FloatArray, IntArray
from fleetsim.fleet.devices.credits import Credits, credits_of
from fleetsim.fleet.devices.pace import Paces, speed_at
from fleetsim.fleet.devices.profile import DeviceProfile
from fleetsim.fleet.devices.thermal import (
    PIXEL_3,
    Heater,
    NoThermalSettings,
    SkinProfile,
    Skins,
    SkinSettings,
    skins_of,
)
from fleetsim.fleet.usage.usage import Usage

_LAUNCH, _EARNED = 0, 1
_NUM_BALANCES = 2
_SKIN = -1


@dataclass(frozen=True, slots=True, eq=False)
class Throttle:
    """Throttling rules of N clients. Conditions are arrays [n, c]; c is 0 without throttling."""

    device: IntArray
    """Type of device of every client [N], an index into `credits` and `skins`."""
    credits: Credits | None
    """None: no device of the fleet has credits."""
    skins: Skins | None
    """None: heat slows no device of the fleet."""
    usage: Usage
    clock_share: FloatArray
    """Share of the time at full clock that a lower clock stretches, of every type of device."""

    @property
    def num_columns(self) -> int:
        """Number of columns of a condition: two balances if any, then a temperature if any."""
        return _NUM_BALANCES * (self.credits is not None) + (self.skins is not None)

    def initial(self) -> FloatArray:
        """Return the conditions of all clients at virtual time 0 [N, c]: launched, and cool."""
        condition = np.zeros((self.device.size, self.num_columns))
        if self.credits is not None:
            condition[:, _LAUNCH] = self.credits.initial_s[self.device]
        if self.skins is not None:
            condition[:, _SKIN] = self.skins.resting_c[self.device]
        return condition

    def paces(
        self, clients: IntArray, condition: FloatArray, start_s: FloatArray, clock_fraction: float
    ) -> Paces | None:
        """Return the paces of clients [n] that compute from `start_s` [n] on; None: full speed."""
        credited, skinned = self._credited(clients), self._skinned(clients)
        if credited is None and skinned is None and clock_fraction == 1.0:
            return None
        num_steps = 1 if credited is None else 2
        if skinned is not None:
            num_steps = max(num_steps, skinned[1].max_steps)
        until_s = np.full((clients.size, num_steps), np.inf)
        slowed = speed_at(clock_fraction, self.clock_share[self.device[clients]])
        speed = np.repeat(slowed[:, np.newaxis], num_steps, axis=1)
        power = np.full_like(until_s, clock_fraction**2)
        if credited is not None:
            rows, rules = credited
            lasts_s = rules.full_use_s(condition[rows, _LAUNCH], condition[rows, _EARNED])
            until_s[rows, 0] = start_s[rows] + lasts_s
            speed[rows, 1] *= rules.baseline
            power[rows, 1] *= rules.baseline
        if skinned is not None:
            rows, skins = skinned
            skin_c, now_s = condition[rows, _SKIN], start_s[rows]
            for index in range(skins.max_steps):
                step = skins.step(skin_c, np.ones(rows.size), clock_fraction)
                skin_c, now_s = step.next_c, now_s + step.hold_s
                until_s[rows, index] = now_s
                speed[rows, index], power[rows, index] = step.speed, step.power
                if np.isinf(now_s).all():
                    break
        return Paces(until_s, speed, power)

    def worked(
        self, clients: IntArray, condition: FloatArray, seconds: FloatArray, clock_fraction: float
    ) -> FloatArray:
        """Return the conditions of clients [n] after computing for these seconds [n]."""
        after = condition.copy()
        if (credited := self._credited(clients)) is not None:
            rows, rules = credited
            launch_s, earned_s = condition[rows, _LAUNCH], condition[rows, _EARNED]
            after[rows, _LAUNCH], after[rows, _EARNED] = rules.after(
                launch_s, earned_s, np.ones(rows.size), seconds[rows]
            )
        if (skinned := self._skinned(clients)) is not None:
            rows, skins = skinned
            skin_c, use = condition[rows, _SKIN], np.ones(rows.size)
            after[rows, _SKIN] = skins.after(skin_c, use, clock_fraction, seconds[rows])
        return after

    def rested(
        self, clients: IntArray, condition: FloatArray, from_s: FloatArray, until_s: FloatArray
    ) -> FloatArray:
        """Return the conditions of clients [n] after no computation between two times [n]."""
        after = condition.copy()
        if (credited := self._credited(clients)) is not None:
            rows, rules = credited
            for at, load, seconds in self._loads(clients[rows], from_s[rows], until_s[rows]):
                here = rows[at]
                after[here, _LAUNCH], after[here, _EARNED] = rules.take(at).after(
                    after[here, _LAUNCH], after[here, _EARNED], load, seconds
                )
        if (skinned := self._skinned(clients)) is not None:
            rows, skins = skinned
            remembered_s = np.maximum(from_s[rows], until_s[rows] - skins.forgets_s)
            for at, load, seconds in self._loads(clients[rows], remembered_s, until_s[rows]):
                skin_c = after[rows[at], _SKIN]
                after[rows[at], _SKIN] = skins.take(at).after(skin_c, load, 1.0, seconds)
        return after

    def _loads(
        self, clients: IntArray, from_s: FloatArray, until_s: FloatArray
    ) -> Iterator[tuple[IntArray, FloatArray, FloatArray]]:
        """Yield (rows, load, seconds) for every step of the clients' load, in time order."""
        now_s = from_s.copy()
        rows = np.flatnonzero(now_s < until_s)
        while rows.size:
            load, change_s = self.usage.load_after(clients[rows], now_s[rows])
            end_s = np.minimum(change_s, until_s[rows])
            yield rows, load, end_s - now_s[rows]
            now_s[rows] = end_s
            rows = rows[end_s < until_s[rows]]

    def _credited(self, clients: IntArray) -> tuple[IntArray, Credits] | None:
        """Return the rows of clients that have credits, and their rules; None without any."""
        if self.credits is None:
            return None
        rows = (~np.isnan(self.credits.baseline))[self.device[clients]].nonzero()[0]
        return (rows, self.credits.take(self.device[clients[rows]])) if rows.size else None

    def _skinned(self, clients: IntArray) -> tuple[IntArray, Skins] | None:
        """Return the rows of clients that heat slows, and their skins; None without any."""
        if self.skins is None:
            return None
        rows = (~np.isnan(self.skins.rise_k))[self.device[clients]].nonzero()[0]
        return (rows, self.skins.take(self.device[clients[rows]])) if rows.size else None


def skin_of(profile: DeviceProfile) -> SkinProfile | None:
    """Return the throttling by heat of a device: that of its file, or for phones of a Pixel 3."""
    if profile.skin is None and profile.kind == "phone":
        return PIXEL_3
    return profile.skin


def not_slowed_by_heat(
    settings: NoThermalSettings | SkinSettings, profiles: Iterable[DeviceProfile]
) -> list[str]:
    """Return the names of phones and boards whose clock is not capped by heat."""
    return [
        profile.name
        for profile in profiles
        if profile.kind != "vm"
        and (isinstance(settings, NoThermalSettings) or skin_of(profile) is None)
    ]


def build_throttle(
    settings: NoThermalSettings | SkinSettings,
    *,
    profiles: Sequence[DeviceProfile],
    device: IntArray,
    usage: Usage,
) -> Throttle:
    """Return the throttling rules of N clients with devices `profiles[device]`."""
    heaters = [
        Heater(
            skin_of(profile),
            profile.power.idle_awake_w,
            profile.power.train_above_idle_w,
            profile.compute.clock_share,
        )
        for profile in profiles
    ]
    return Throttle(
        device=device,
        credits=credits_of([profile.credits for profile in profiles]),
        skins=skins_of(settings, heaters),
        usage=usage,
        clock_share=np.array([profile.compute.clock_share for profile in profiles]),
    )
