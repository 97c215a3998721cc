"""Batteries that only tasks drain: an idle one rises at constant power until it is full."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from fleetsim.contracts import BoolArray, FloatArray, IntArray
from fleetsim.fleet.batteries.base import (
    LEVEL_SLACK_J,
    Batteries,
    Charge,
    LevelWatch,
    Passing,
    Phases,
    WatchRequest,
)
from fleetsim.fleet.traces.periodic import Schedule


@dataclass(frozen=True, slots=True, eq=False)
class PlainBatteries(Batteries):
    """Batteries that only tasks drain and that are charged at constant power until full."""

    charging: Schedule

    num_flows: ClassVar[int] = 0
    """None: the level of an idle battery is a closed form of the time on the charger."""

    def idle(
        self, clients: IntArray, charge: Charge, from_s: FloatArray, until_s: ArrayLike
    ) -> Charge:
        """See `Batteries.idle`."""
        level_j = charge.level_j.copy()
        if self.has_any:
            rows = self.rows_of(clients)
            owners = clients[rows]
            until_s = np.broadcast_to(until_s, clients.shape)[rows]
            charging_s = self.charging.seconds_true(owners, from_s[rows], until_s)
            level_j[rows] = np.minimum(
                self.capacity_j[owners], level_j[rows] + self.charge_w[owners] * charging_s
            )
        return charge._replace(level_j=level_j)

    def last_change(
        self, clients: IntArray, charge: Charge, from_s: FloatArray, until_s: float
    ) -> tuple[Charge, FloatArray]:
        """See `Batteries.last_change`: a closed form needs no later start."""
        return charge, from_s

    def work(self, phases: Phases) -> tuple[Charge, FloatArray]:
        """See `Batteries.work`."""
        clients, charge, timelines, spent_j, idle_w, until_s = phases
        level_j, empty_s = charge.level_j.copy(), np.full(clients.size, np.inf)
        if not self.has_any:
            return charge._replace(level_j=level_j), empty_s
        rows = self.rows_of(clients)
        clients, start_s, until_s = clients[rows], timelines.start_s[rows], until_s[rows]
        before_j, spent_j, idle_w = level_j[rows], spent_j[rows], idle_w[rows]
        floor_j = self.cutoff_fraction * self.capacity_j[clients]
        # The whole phase leaves enough even without charging.
        is_safe = before_j - (spent_j + idle_w * (until_s - start_s)) > floor_j
        # A tail may have taken an idle battery below its cut-off; it falls no further.
        floor_j = np.minimum(before_j, floor_j)
        is_charging, change_s = self.charging.state_and_change(clients, start_s)
        # The usual case in one step: a level that only falls is lowest at the end.
        after_j = before_j - spent_j - idle_w * (until_s - start_s)
        is_plain = ~is_charging & (change_s >= until_s) & (after_j >= floor_j)
        level_j[rows] = after_j
        for at in (~is_plain).nonzero()[0].tolist():
            row = rows[at]
            level_j[row], met_s = walk_battery(
                float(before_j[at]),
                float(self.capacity_j[clients[at]]),
                float(floor_j[at]),
                timelines.edges_s[row],
                timelines.power_w[row],
                float(idle_w[at]),
                self._charging_steps(int(clients[at]), float(change_s[at]), bool(is_charging[at])),
                float(until_s[at]),
            )
            if not is_safe[at]:
                empty_s[row] = met_s
        return charge._replace(level_j=level_j), empty_s

    def watch(self, request: WatchRequest) -> LevelWatch:
        """See `Batteries.watch`."""
        return _RisingWatch(self, request)

    def surely_lasts(
        self, clients: IntArray, level_j: FloatArray, drawn_j: FloatArray
    ) -> BoolArray:
        """See `Batteries.surely_lasts`."""
        floor_j = self.cutoff_fraction * self.capacity_j[clients]
        lasts: BoolArray = ~(level_j - drawn_j <= floor_j)  # NaN on mains
        return lasts

    def tail_loss(self, clients: IntArray, level_j: FloatArray, tail_w: FloatArray) -> FloatArray:
        """See `Batteries.tail_loss`."""
        return np.zeros(clients.size)

    def most_charged_j(self, clients: IntArray, until_s: float) -> FloatArray:
        """See `Batteries.most_charged_j`."""
        start_s = np.zeros(clients.size)
        return self.charge_w[clients] * self.charging.seconds_true(clients, start_s, until_s)

    def _charging_steps(
        self, client: int, until_s: float, is_on: bool
    ) -> Iterator[tuple[float, float]]:
        """Yield the charging power of a client from a moment on, step by step: (until_s, W)."""
        while True:
            yield until_s, float(self.charge_w[client]) if is_on else 0.0
            is_on = not is_on
            until_s = self.charging.next_change_after_one(client, until_s)


class _RisingWatch:
    """A `LevelWatch` of batteries that only rise while they are idle."""

    def __init__(self, batteries: PlainBatteries, request: WatchRequest) -> None:
        clients, charge, from_s, now_s, fractions, _ = request
        self._batteries, self._clients, self._now_s = batteries, clients, now_s
        self._top = fractions.size
        self.standing: IntArray = np.full(clients.size, self._top, dtype=np.int64)
        self._place = np.zeros(clients.size, dtype=np.int64)
        self._missing_j = np.empty((self._top, 0))
        if not batteries.has_any:
            return
        # A battery that reached the highest level earlier has only charged since; NaN on mains.
        rows = (charge.level_j < fractions[-1] * batteries.capacity_j[clients]).nonzero()[0]
        if rows.size:
            capacity_j = batteries.capacity_j[clients[rows]]
            now = batteries.idle(clients[rows], charge.take(rows), from_s[rows], now_s)
            self._missing_j = fractions[:, np.newaxis] * capacity_j - now.level_j
            self._place[rows] = np.arange(rows.size)
            self.standing[rows] = (self._missing_j <= LEVEL_SLACK_J).sum(axis=0)

    def goes_on(self, rows: IntArray) -> IntArray:
        """See `LevelWatch.goes_on`."""
        return rows[self.standing[rows] < self._top]

    def next(self, rows: IntArray, until_s: FloatArray) -> Passing:
        """See `LevelWatch.next`."""
        missing_j = self._missing_j[self.standing[rows], self._place[rows]]
        reached_s = self._charged_after(self._clients[rows], missing_j)
        self.standing[rows] += 1
        return Passing(reached_s, self.standing[rows], np.full(rows.size, np.inf))

    def _charged_after(self, clients: IntArray, missing_j: FloatArray) -> FloatArray:
        """Return the first times at which clients have charged this much [n]; inf: never."""
        charging = self._batteries.charging
        missing_s = missing_j / self._batteries.charge_w[clients]
        t_s, reached_s = np.full(clients.size, self._now_s), np.full(clients.size, np.inf)
        rows = np.arange(clients.size)
        while rows.size:
            # Each iteration is one stay on the charger, of all clients at once.
            t_s[rows] = charging.next_true_after(clients[rows], t_s[rows])
            rows = rows[np.isfinite(t_s[rows])]
            until_s = charging.next_change_after(clients[rows], t_s[rows])
            stay_s = until_s - t_s[rows]
            is_enough = stay_s >= missing_s[rows]
            done, rest = rows[is_enough], rows[~is_enough]
            # Rounding must not move a future change to now.
            after_now_s = np.nextafter(self._now_s, np.inf)
            reached_s[done] = np.maximum(t_s[done] + missing_s[done], after_now_s)
            missing_s[rest] -= stay_s[~is_enough]
            t_s[rest] = until_s[~is_enough]
            rows = rest
        return reached_s


def walk_battery(
    level_j: float,
    capacity_j: float,
    floor_j: float,
    edges_s: FloatArray,
    power_w: FloatArray,
    idle_w: float,
    charging: Iterator[tuple[float, float]],
    until_s: float,
) -> tuple[float, float]:
    """Return the level at `until_s`, and when it meets the floor (inf: never), where a walk ends.

    The level begins at or above `floor_j`. A phase, of so much power between its edges [m+1], and
    `idle_w` drain the battery; `charging` has consecutive (until_s, charging power in W) from the
    phase's start on.
    """
    now_s = float(edges_s[0])
    change_s, charge_w = next(charging)
    for edge_s, phase_w in zip(edges_s[1:], power_w, strict=True):
        drain_w = float(phase_w) + idle_w
        segment_end_s = min(float(edge_s), until_s)
        while now_s < segment_end_s:
            while change_s <= now_s:
                change_s, charge_w = next(charging)
            step_end_s = min(segment_end_s, change_s)
            net_w = charge_w - drain_w
            after_j = level_j + net_w * (step_end_s - now_s)
            if after_j < floor_j:
                return floor_j, now_s + (level_j - floor_j) / -net_w
            level_j, now_s = min(after_j, capacity_j), step_end_s
        if now_s >= until_s:
            break
    return level_j, np.inf
