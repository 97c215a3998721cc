"""Equations of live batteries: use by owners, tapered charging and loss by resistance.

With c the charger's power (0 off the charger), f the share of it that a battery takes at its level,
P the power of owner and task, V and R open-circuit voltage and inner resistance:

    d level/dt = min(f c, c - P)            while the charger gives all power, P <= c
    d level/dt = -(D + (D / V)^2 R)         while D = P - c > 0 comes from the battery

The level is piecewise linear; a level on a border of two bands belongs to the band that it enters.
docs/models/battery.md has the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fleetsim.contracts import BoolArray, FloatArray, IntArray
from fleetsim.fleet.batteries.base import Charge
from fleetsim.fleet.batteries.settings import EverydaySettings
from fleetsim.fleet.traces.periodic import PeriodicSteps
from fleetsim.read_only import freeze


@dataclass(frozen=True, slots=True, eq=False)
class Bands:
    """Values that depend on the level, in steps [m], and in one more for a full battery."""

    from_fraction: FloatArray
    """Level at which each band begins, ascending from 0; the last is 1 [m+1]."""
    charge_fraction: FloatArray
    """Share of the charger's power that the battery takes; 0 when full [m+1]."""
    loss_per_w: FloatArray
    """R / V^2 [m+1]."""

    def __post_init__(self) -> None:
        freeze(self.from_fraction, self.charge_fraction, self.loss_per_w)


@dataclass(frozen=True, slots=True, eq=False)
class Habits:
    """Charging and power use of owners."""

    steps: PeriodicSteps
    is_charging: BoolArray
    load: FloatArray
    everyday: EverydaySettings
    cpu_w: FloatArray
    """Power of every client's processor at full load [N]."""

    def __post_init__(self) -> None:
        freeze(self.is_charging, self.load)

    def at(self, clients: IntArray, t_s: FloatArray) -> tuple[BoolArray, FloatArray, FloatArray]:
        """Return (is charging, owner's power in W, time until which both hold), all [n]."""
        step, until_s = self.steps.step_and_change(clients, t_s)
        load, everyday = self.load[step], self.everyday
        screen_w = np.where(load >= everyday.screen_from_load, everyday.screen_w, 0.0)
        owner_w = everyday.standby_w + screen_w + self.cpu_w[clients] * load
        return self.is_charging[step], owner_w, until_s

    def laps_s(self, clients: IntArray, at_least_s: int) -> IntArray:
        """Return the shortest whole laps of records of clients [n] that last at least so long."""
        span_s = self.steps.span_s[self.steps.row[clients]]
        laps_s: IntArray = -(-at_least_s // span_s) * span_s
        return laps_s


class BatteryStep(NamedTuple):
    """Constant rates of batteries from a moment on, all [n]."""

    is_off: BoolArray
    rate_w: FloatArray
    flow_w: FloatArray
    """Power by `Flow` [n, 3]."""
    target_j: FloatArray
    """Level at which the rates change."""
    until_s: FloatArray
    """Time at which the rates change."""

    def towards(self, now_s: FloatArray, level_j: FloatArray, target_j: FloatArray) -> BatteryStep:
        """Return a step that ends at these targets too [n]; NaN: none."""
        is_nearer = np.where(self.rate_w > 0.0, target_j < self.target_j, target_j > self.target_j)
        target_j = np.where(is_nearer & (self.rate_w != 0.0), target_j, self.target_j)
        hit_s = _hit_s(now_s, level_j, target_j, self.rate_w)
        return self._replace(target_j=target_j, until_s=np.minimum(self.until_s, hit_s))

    def take(self, rows: IntArray | BoolArray) -> BatteryStep:
        """Return some rows."""
        return BatteryStep._make(column[rows] for column in self)


def _hit_s(
    now_s: FloatArray, level_j: FloatArray, target_j: FloatArray, rate_w: FloatArray
) -> FloatArray:
    """Return when levels meet their targets at these rates [n]; inf at rate 0."""
    missing_s: FloatArray = np.full(rate_w.shape, np.inf)
    np.divide(target_j - level_j, rate_w, out=missing_s, where=rate_w != 0.0)
    return now_s + missing_s


@dataclass(frozen=True, slots=True, eq=False)
class Rules:
    """Rules of the batteries of N clients."""

    capacity_j: FloatArray
    charge_w: FloatArray
    bands: Bands
    habits: Habits


class Walk:
    """Batteries of n clients while their levels are computed: time, level, off or not, flows."""

    def __init__(self, rules: Rules, clients: IntArray, charge: Charge, from_s: FloatArray) -> None:
        self._rules, self.clients = rules, clients
        self.now_s = from_s.copy()
        self.level_j = charge.level_j.copy()
        self.is_off = charge.is_off.copy()
        self.flows_j = charge.flows_j.copy()

    def step(
        self,
        rows: IntArray,
        *,
        load_w: float | FloatArray = 0.0,
        load_until_s: float | FloatArray = np.inf,
        may_turn_off: bool = True,
    ) -> BatteryStep:
        """Return the step of some rows [n] from their present state.

        A task draws `load_w` [n] until `load_until_s` [n]; `may_turn_off`: an empty battery turns a
        phone off.
        """
        clients, now_s, level_j = self.clients[rows], self.now_s[rows], self.level_j[rows]
        bands, habits = self._rules.bands, self._rules.habits
        capacity_j = self._rules.capacity_j[clients]
        charging, owner_w, until_s = habits.at(clients, now_s)
        until_s = np.minimum(until_s, load_until_s)
        charger_w = np.where(charging, self._rules.charge_w[clients], 0.0)
        restart_j = habits.everyday.restart_fraction * capacity_j
        off = self.is_off[rows] & (level_j < restart_j)
        if may_turn_off:
            off = off | ((level_j <= 0.0) & (charger_w < owner_w + load_w))
        owner_w = np.where(off, 0.0, owner_w)
        drawn_w = owner_w + load_w
        borders_j = bands.from_fraction * capacity_j[:, np.newaxis]
        band = (level_j[:, np.newaxis] >= borders_j[:, 1:]).sum(axis=1)
        here = np.arange(clients.size)
        is_on_border = (band > 0) & (level_j == borders_j[here, band])
        band = np.where(is_on_border & (charger_w < drawn_w), band - 1, band)
        given_w = np.minimum(drawn_w + charger_w * bands.charge_fraction[band], charger_w)
        net_w = given_w - drawn_w
        loss_w = bands.loss_per_w[band] * np.minimum(net_w, 0.0) ** 2
        rate_w = net_w - loss_w
        upper_j = borders_j[here, np.minimum(band + 1, bands.from_fraction.size - 1)]
        upper_j = np.where(off, np.minimum(upper_j, restart_j), upper_j)
        target_j = np.where(rate_w > 0.0, upper_j, borders_j[here, band])
        return BatteryStep(
            off,
            rate_w,
            np.stack([given_w, owner_w, loss_w], axis=1),
            target_j,
            np.minimum(until_s, _hit_s(now_s, level_j, target_j, rate_w)),
        )

    def advance(self, rows: IntArray, step: BatteryStep, until_s: FloatArray) -> None:
        """Advance these rows within their step."""
        seconds = until_s - self.now_s[rows]
        moved_j = self.level_j[rows] + step.rate_w * seconds
        # Rounding must not carry a level past its target.
        moved_j = np.where(
            step.rate_w > 0.0,
            np.minimum(moved_j, step.target_j),
            np.maximum(moved_j, step.target_j),
        )
        is_there = (step.rate_w != 0.0) & (
            until_s >= _hit_s(self.now_s[rows], self.level_j[rows], step.target_j, step.rate_w)
        )
        moved_j = np.where(step.rate_w == 0.0, self.level_j[rows], moved_j)
        self.level_j[rows] = np.where(is_there, step.target_j, moved_j)
        self.is_off[rows] = step.is_off
        self.flows_j[rows] += step.flow_w * seconds[:, np.newaxis]
        self.now_s[rows] = until_s

    def to_last_change(self, until_s: FloatArray) -> None:
        """Advance each row to its last change up to `until_s` [n]."""
        rows = np.arange(self.clients.size)
        while rows.size:
            # Each iteration is one change of all that have one left.
            step = self.step(rows)
            goes_on = step.until_s <= until_s[rows]
            rows, step = rows[goes_on], step.take(goes_on)
            self.advance(rows, step, step.until_s)

    def charge(self) -> Charge:
        """Return the present state of the batteries."""
        return Charge(self.level_j, self.is_off, self.flows_j)
