"""Batteries that owners drain too; `fleetsim.fleet.batteries.dynamics` has the equations."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from fleetsim.contracts import BoolArray, FloatArray, IntArray
from fleetsim.fleet.batteries.base import (
    LEVEL_SLACK_J,
    Batteries,
    Charge,
    Flow,
    LevelWatch,
    Passing,
    Phases,
    WatchRequest,
)
from fleetsim.fleet.batteries.dynamics import BatteryStep, Rules, Walk

_AT_LEAST_S = 3_600
"""Shortest horizon of a watch."""


@dataclass(frozen=True, slots=True, eq=False)
class LiveBatteries(Batteries):
    """Batteries that tasks and owners drain."""

    rules: Rules

    num_flows: ClassVar[int] = len(Flow)

    def idle(
        self, clients: IntArray, charge: Charge, from_s: FloatArray, until_s: ArrayLike
    ) -> Charge:
        """See `Batteries.idle`."""
        after = charge.copy()
        rows = self.rows_of(clients)
        until_s = np.broadcast_to(np.asarray(until_s, dtype=np.float64), clients.shape)[rows]
        walk = self._walk(clients[rows], charge.take(rows), from_s[rows], until_s)
        walk.to_last_change(until_s)
        every = np.arange(rows.size)
        walk.advance(every, walk.step(every), until_s)
        after.put(rows, walk.charge())
        return after

    def last_change(
        self, clients: IntArray, charge: Charge, from_s: FloatArray, until_s: float
    ) -> tuple[Charge, FloatArray]:
        """See `Batteries.last_change`."""
        after, at_s = charge.copy(), from_s.copy()
        rows = self.rows_of(clients)
        ends_s = np.full(rows.size, until_s)
        walk = self._walk(clients[rows], charge.take(rows), from_s[rows], ends_s)
        walk.to_last_change(ends_s)
        after.put(rows, walk.charge())
        at_s[rows] = walk.now_s
        return after, at_s

    def work(self, phases: Phases) -> tuple[Charge, FloatArray]:
        """See `Batteries.work`."""
        clients, charge, timelines, _, idle_w, until_s = phases
        after, empty_s = charge.copy(), np.full(clients.size, np.inf)
        mine = self.rows_of(clients)
        walk = self._walk(clients[mine], charge.take(mine), timelines.start_s[mine], until_s[mine])
        floor_j = self.cutoff_fraction * self.capacity_j[walk.clients]
        # A tail may have taken an idle battery below its cut-off; it falls no further.
        floor_j = np.minimum(walk.level_j, floor_j)
        edges_s, idle_w, ends_s = timelines.edges_s[mine], idle_w[mine], until_s[mine]
        # Past its last edge a phase draws nothing.
        power_w = np.hstack([timelines.power_w[mine], np.zeros((mine.size, 1))])
        next_edge_s = np.hstack([edges_s[:, 1:], np.full((mine.size, 1), np.inf)])
        rows = (walk.now_s < ends_s).nonzero()[0]
        while rows.size:
            # Each iteration is one change of all that have one left.
            now_s, level_j = walk.now_s[rows], walk.level_j[rows]
            segment = (edges_s[rows, 1:] <= now_s[:, np.newaxis]).sum(axis=1)
            step = walk.step(
                rows,
                load_w=idle_w[rows] + power_w[rows, segment],
                load_until_s=next_edge_s[rows, segment],
                may_turn_off=False,
            )
            is_dead = (level_j <= floor_j[rows]) & (step.rate_w < 0.0)
            empty_s[mine[rows[is_dead]]] = now_s[is_dead]
            goes_on = ~is_dead
            step = step.towards(now_s, level_j, np.where(step.rate_w < 0.0, floor_j[rows], np.nan))
            rows, step = rows[goes_on], step.take(goes_on)
            walk.advance(rows, step, np.minimum(step.until_s, ends_s[rows]))
            rows = rows[walk.now_s[rows] < ends_s[rows]]
        after.put(mine, walk.charge())
        return after, empty_s

    def watch(self, request: WatchRequest) -> LevelWatch:
        """See `Batteries.watch`."""
        return _LiveWatch(self, request)

    def surely_lasts(
        self, clients: IntArray, level_j: FloatArray, drawn_j: FloatArray
    ) -> BoolArray:
        """See `Batteries.surely_lasts`: only mains are sure without a walk."""
        return np.isnan(self.capacity_j[clients])

    def most_charged_j(self, clients: IntArray, until_s: float) -> FloatArray:
        """See `Batteries.most_charged_j`."""
        return self.charge_w[clients] * until_s

    def tail_loss(self, clients: IntArray, level_j: FloatArray, tail_w: FloatArray) -> FloatArray:
        """See `Batteries.tail_loss`; other loads at the same time are neglected."""
        borders_j = self.rules.bands.from_fraction * self.capacity_j[clients][:, np.newaxis]
        band = (level_j[:, np.newaxis] >= borders_j[:, 1:]).sum(axis=1)
        per_joule: FloatArray = self.rules.bands.loss_per_w[band] * tail_w
        return per_joule

    def _walk(
        self, clients: IntArray, charge: Charge, from_s: FloatArray, until_s: FloatArray
    ) -> Walk:
        if (until_s < from_s).any():
            at = int(np.argmax(until_s < from_s))
            raise ValueError(
                f"a battery must not go back in time, from {from_s[at]!r} to {until_s[at]!r} s"
            )
        return Walk(self.rules, clients, charge, from_s)


class _LiveWatch:
    """A `LevelWatch` of batteries that rise and fall.

    At its level, a battery reaches it unless it falls from there: the state at a moment is the
    state right after it. So no answer lasts for zero time.

    A battery is followed for at most one lap of its owner's record, or an hour of shorter laps. If
    it is the same after a lap as before, it repeats for ever and its answer is known for all time.
    """

    def __init__(self, batteries: LiveBatteries, request: WatchRequest) -> None:
        clients, charge, from_s, now_s, fractions, ahead_s = request
        self._mine = batteries.rows_of(clients)
        self._place = np.full(clients.size, -1, dtype=np.int64)
        self._place[self._mine] = np.arange(self._mine.size)
        owners = clients[self._mine]
        before = charge.take(self._mine)
        now = batteries.idle(owners, before, from_s[self._mine], now_s)
        self._after_now_s = np.nextafter(now_s, np.inf)
        self._walk = Walk(batteries.rules, owners, now, np.full(owners.size, now_s))
        self._levels_j = fractions * batteries.capacity_j[owners][:, np.newaxis]
        self.standing: IntArray = np.full(clients.size, fractions.size, dtype=np.int64)
        every = np.arange(owners.size)
        step = self._walk.step(every)
        self.standing[self._mine] = self._standing(every, step)
        self._before_j, self._was_off = self._walk.level_j.copy(), step.is_off
        laps_s = batteries.rules.habits.laps_s(owners, _AT_LEAST_S)
        ahead_s = np.clip(ahead_s[self._mine], _AT_LEAST_S, laps_s)
        self._sees_laps = ahead_s >= laps_s
        self._horizon_s: FloatArray = now_s + ahead_s

    def goes_on(self, rows: IntArray) -> IntArray:
        """See `LevelWatch.goes_on`."""
        return rows[self._place[rows] >= 0]

    def next(self, rows: IntArray, until_s: FloatArray) -> Passing:
        """See `LevelWatch.next`."""
        walk, mine = self._walk, self._place[rows]
        horizon_s = self._horizon_s[mine]
        ends_s = np.minimum(until_s, horizon_s)
        passed_s, known_until_s = np.full((2, rows.size), np.inf)
        at = np.arange(rows.size)
        while at.size:
            # Each iteration is one change of all that have one left.
            step = walk.step(mine[at])
            standing = self._standing(mine[at], step)
            passes = standing != self.standing[rows[at]]
            self.standing[rows[at[passes]]] = standing[passes]
            passed_s[at[passes]] = np.maximum(walk.now_s[mine[at[passes]]], self._after_now_s)
            step = step.towards(
                walk.now_s[mine[at]], walk.level_j[mine[at]], self._next_level_j(mine[at], step)
            )
            goes_on = ~passes & (step.until_s < ends_s[at])
            at, step = at[goes_on], step.take(goes_on)
            walk.advance(mine[at], step, step.until_s)
        at = (np.isinf(passed_s) & (until_s > horizon_s)).nonzero()[0]
        if at.size:
            known_until_s[at] = np.where(self._stays(mine[at]), np.inf, horizon_s[at])
        return Passing(passed_s, self.standing[rows], known_until_s)

    def _stays(self, mine: IntArray) -> BoolArray:
        """Return True for batteries [k] that are the same at their horizons as at the beginning."""
        walk = self._walk
        walk.advance(mine, walk.step(mine), self._horizon_s[mine])
        moved_j = np.abs(walk.level_j[mine] - self._before_j[mine])
        stays: BoolArray = self._sees_laps[mine] & (moved_j <= LEVEL_SLACK_J)
        stays &= walk.step(mine).is_off == self._was_off[mine]
        return stays

    def _standing(self, mine: IntArray, step: BatteryStep) -> IntArray:
        """Return the number of levels that these batteries reach, now and right after [k]."""
        over_j = self._walk.level_j[mine][:, np.newaxis] - self._levels_j[mine]
        is_at = np.abs(over_j) <= LEVEL_SLACK_J
        reached = np.where(is_at, (step.rate_w >= 0.0)[:, np.newaxis], over_j > 0.0)
        standing: IntArray = np.where(step.is_off, 0, reached.sum(axis=1))
        return standing

    def _next_level_j(self, mine: IntArray, step: BatteryStep) -> FloatArray:
        """Return the next level on the way of these batteries [k]; NaN: none."""
        levels_j = self._levels_j[mine]
        over_j = self._walk.level_j[mine][:, np.newaxis] - levels_j
        rises = step.rate_w > 0.0
        above_j = np.where(over_j < -LEVEL_SLACK_J, levels_j, np.inf).min(axis=1)
        below_j = np.where(over_j > LEVEL_SLACK_J, levels_j, -np.inf).max(axis=1)
        next_j = np.where(rises, above_j, below_j)
        return np.where(np.isfinite(next_j), next_j, np.nan)
