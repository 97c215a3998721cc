"""Clients that are eligible at a moment, and how long they stay so.

Only clients whose pair (eligible, valid until) has expired are computed again, so a round costs in
proportion to the changes since the last one and not to the size of the fleet.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleetsim.contracts import BoolArray, FloatArray, IntArray
from fleetsim.engine.eligibility import Absences, EligibilitySettings, Rule
from fleetsim.engine.idle_state import IdleState
from fleetsim.fleet.batteries.base import LevelWatch
from fleetsim.fleet.population import Fleet
from fleetsim.fleet.traces.periodic import Schedule
from fleetsim.read_only import freeze


class EligibleClients:
    """Eligibility of N clients by a rule and by their batteries between tasks."""

    def __init__(
        self,
        fleet: Fleet,
        rule: EligibilitySettings,
        idle: IdleState,
        *,
        spare_byte: FloatArray | None,
    ) -> None:
        self._usage = fleet.usage
        self._idle = idle
        fails = fleet.memory is not None and fleet.memory.when_short == "fails"
        self._dying_below_byte = spare_byte if fails else None
        self._short_until_s = np.full(fleet.size if fails else 0, -np.inf)
        """Moment until which each client knows from a failed task that a step does not fit [N]."""
        self._rule = Rule(rule, fleet, spare_byte=None if fails else spare_byte)
        self._online: Schedule | None = None
        self._is_eligible = np.zeros(fleet.size, dtype=np.bool_)
        self._valid_until_s = np.full(fleet.size, -np.inf)
        self._candidates: tuple[float, IntArray] | None = None

    def candidates(self, now_s: float) -> IntArray:
        """Return the clients that are eligible and idle now, ascending; read-only."""
        if self._candidates is None or self._candidates[0] != now_s:
            self._refresh(now_s)
            clients = (self._is_eligible & ~self._idle.is_busy).nonzero()[0]
            freeze(clients)
            self._candidates = (now_s, clients)
        return self._candidates[1]

    def next_change_s(self, now_s: float) -> float:
        """Return the next moment at which the eligibility of a client may change; inf if never."""
        self._refresh(now_s)
        return float(self._valid_until_s.min())

    def enough_s(self, num_more: int, now_s: float) -> float:
        """Return before when no `num_more` further idle clients become eligible; inf if never."""
        self._refresh(now_s)
        away_until_s = self._valid_until_s[~(self._is_eligible | self._idle.is_busy)]
        if away_until_s.size < num_more:
            return math.inf
        return float(np.partition(away_until_s, num_more - 1)[num_more - 1])

    def gone_after_s(self, clients: IntArray, now_s: float) -> FloatArray:
        """Return when owners take eligible clients [n] away, batteries ignored; inf if never."""
        battery_rank = np.full(clients.size, self._rule.top, dtype=np.int64)
        if not self._rule.needs_top:
            battery_rank = self._watch(clients, now_s).standing
        is_on, change_s = self._rule.state_and_change(clients, battery_rank, now_s)
        return np.where(is_on, change_s, now_s)

    def absences(self, clients: IntArray, now_s: float) -> Absences:
        """Return the absences of idle clients [n] during a task that begins now."""
        if self._online is None:
            self._online = self._usage.schedule_where(np.ones_like(self._usage.states.online))
        return Absences(self._rule, self._online, clients, self._watch(clients, now_s).standing)

    def dies_of_memory(self, clients: IntArray, t_s: FloatArray) -> BoolArray:
        """Return whether trainings [n] fail for lack of memory if they begin at `t_s` [n]."""
        if self._dying_below_byte is None:
            return np.zeros(clients.size, dtype=np.bool_)
        dies: BoolArray = self._dying_below_byte[clients] < self._usage.ram_byte_at(clients, t_s)
        return dies

    def fail_of_memory(self, clients: IntArray, at_s: FloatArray) -> None:
        """Take in trainings that failed at `at_s` [n]: not eligible until apps leave enough."""
        assert self._dying_below_byte is not None
        self._short_until_s[clients] = [
            self._usage.next_with_ram_s(client, failed_s, spare)
            for client, failed_s, spare in zip(
                clients.tolist(),
                at_s.tolist(),
                self._dying_below_byte[clients].tolist(),
                strict=True,
            )
        ]

    def rows(self) -> dict[str, NDArray[Any]]:
        """Return all that changes, by name: a row for every client [N]."""
        return {} if self._dying_below_byte is None else {"short_until_s": self._short_until_s}

    def forget_candidates(self) -> None:
        """Take in that clients began tasks."""
        self._candidates = None

    def expire(self, clients: IntArray) -> None:
        """Take in that the batteries or tasks of these clients changed."""
        self._valid_until_s[clients] = -np.inf
        self._candidates = None

    def _refresh(self, now_s: float) -> None:
        stale = (self._valid_until_s <= now_s).nonzero()[0]
        if stale.size == 0:
            return
        self._idle.catch_up(stale, now_s)
        watch = self._watch(stale, now_s)
        is_on, until_s = self._rule.state_and_change(stale, watch.standing, now_s)
        rows = watch.goes_on(np.arange(stale.size))
        while rows.size:
            passed_s, battery_rank, known_until_s = watch.next(rows, until_s[rows])
            until_s[rows] = np.minimum(until_s[rows], known_until_s)
            is_first = passed_s < until_s[rows]
            rows, passed_s = rows[is_first], passed_s[is_first]
            battery_rank = battery_rank[is_first]
            is_on_then, until_then_s = self._rule.state_and_change(
                stale[rows], battery_rank, passed_s
            )
            turns = is_on_then != is_on[rows]
            until_s[rows] = np.where(turns, passed_s, until_then_s)
            rows = watch.goes_on(rows[~turns])
        if self._dying_below_byte is not None:
            short_until_s = self._short_until_s[stale]
            is_short = short_until_s > now_s
            until_s = np.where(is_short, short_until_s, until_s)
            is_on = is_on & ~is_short
        self._is_eligible[stale] = is_on
        self._valid_until_s[stale] = until_s

    def _watch(self, clients: IntArray, now_s: float) -> LevelWatch:
        return self._idle.watch(clients, now_s, self._rule.battery_fractions)
