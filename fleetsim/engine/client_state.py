"""State of clients during tasks: batteries, radio tails and condition."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fleetsim.contracts import BoolArray, FloatArray, IntArray, Work
from fleetsim.errors import SimulationError
from fleetsim.fleet.batteries.base import LEVEL_SLACK_J, Charge, Flow, Phases
from fleetsim.fleet.energy import beyond_tails
from fleetsim.fleet.population import Fleet
from fleetsim.fleet.timeline import Timelines
from fleetsim.rounding import ROUNDING_SLACK


@dataclass(frozen=True, slots=True, eq=False)
class ClientState:
    """Batteries, tails and condition of clients in tasks, all [n].

    Invariants, checked as joules are spent: 0 <= level <= capacity. A battery gains between nothing
    and all that its charger can give, and exactly what flowed in and out where that is counted.
    """

    fleet: Fleet
    clients: IntArray
    idle_w: FloatArray
    charge: Charge
    tail_until_s: FloatArray
    """Moment up to which the tail of the client's radio is paid."""
    tail_radio: IntArray
    """Name (`Radios.name`) of that radio; -1: none yet."""
    condition: FloatArray
    """Condition that slows each client [n, c], see `Throttle`."""

    def copy(self) -> ClientState:
        """Return a copy; `put` in one does not change the other."""
        return self.with_charge(self.charge.copy(), self.condition.copy())

    def with_charge(self, charge: Charge, condition: FloatArray) -> ClientState:
        """Return a copy with other batteries and another condition."""
        return replace(
            self,
            charge=charge,
            tail_until_s=self.tail_until_s.copy(),
            tail_radio=self.tail_radio.copy(),
            condition=condition,
        )

    def take(self, rows: IntArray) -> ClientState:
        """Return a copy of some rows [k]."""
        return ClientState(
            self.fleet,
            self.clients[rows],
            self.idle_w[rows],
            self.charge.take(rows),
            self.tail_until_s[rows],
            self.tail_radio[rows],
            self.condition[rows],
        )

    def put(self, rows: IntArray, other: ClientState) -> None:
        """Set some rows [k] to another state [k]."""
        self.charge.put(rows, other.charge)
        self.tail_until_s[rows] = other.tail_until_s
        self.tail_radio[rows] = other.tail_radio
        self.condition[rows] = other.condition

    def rested(self, from_s: FloatArray, until_s: FloatArray) -> ClientState:
        """Return the state after clients were idle between two moments [n]."""
        charge = self.charge.copy()
        if self.fleet.batteries.has_any:
            charge = self.fleet.batteries.idle(self.clients, charge, from_s, until_s)
        return self.with_charge(charge, self.condition_after(None, from_s, until_s))

    # --- radio tails ------------------------------------------------------------------------------

    def is_asleep(self, radio: IntArray, at_s: FloatArray) -> BoolArray:
        """Return whether these radios of the clients are past their last tails [n]."""
        is_same = self.tail_radio == self.fleet.radios.name[radio]
        asleep: BoolArray = ~is_same | (self.tail_until_s <= at_s)
        return asleep

    def after_paid_tails(self, timelines: Timelines, radio: IntArray) -> Timelines:
        """Return transfers without the tails that the clients' radios have already paid."""
        radios = self.fleet.radios
        paid_until_s = np.where(self.tail_radio == radios.name[radio], self.tail_until_s, -np.inf)
        return beyond_tails(timelines, radios.tail_w[radio], paid_until_s)

    def pay_tails(self, radio: IntArray, end_s: FloatArray) -> FloatArray:
        """Charge the whole tails of transfers that ended at `end_s`; return the joules of each [n].

        A battery that is almost empty gives the tail what it has left. A tail that is still paid
        by the same radio's previous transfer is only prolonged.
        """
        radios = self.fleet.radios
        name, tail_s = radios.name[radio], radios.tail_s[radio]
        is_same = self.tail_radio == name
        starts_s = np.where(is_same, np.maximum(end_s, self.tail_until_s), end_s)
        tail_w = radios.tail_w[radio]
        tail_j = tail_w * np.maximum(0.0, end_s + tail_s - starts_s)
        level_j, _, flows_j = self.charge
        if flows_j.shape[1] == 0:
            tail_j = np.fmin(tail_j, level_j)  # NaN on mains
            level_j[:] -= tail_j
        else:
            loss = self.fleet.batteries.tail_loss(self.clients, level_j, tail_w)
            tail_j = np.fmin(tail_j, level_j / (1.0 + loss))
            level_j[:] = np.maximum(0.0, level_j - tail_j * (1.0 + loss))
            flows_j[:, Flow.LOSS] += np.where(np.isnan(level_j), 0.0, tail_j * loss)
        self.tail_radio[:] = name
        self.tail_until_s[:] = end_s + tail_s
        return tail_j

    # --- batteries --------------------------------------------------------------------------------

    def drained(
        self, timelines: Timelines, spent_j: FloatArray, until_s: FloatArray
    ) -> tuple[Charge, FloatArray]:
        """Return batteries after phases that draw `spent_j`, and when each was empty (or inf)."""
        return self.fleet.batteries.work(
            Phases(self.clients, self.charge, timelines, spent_j, self.idle_w, until_s)
        )

    def is_safe(self, timelines: Timelines, spent_j: FloatArray, until_s: FloatArray) -> BoolArray:
        """Return the phases that no battery fails, even if nothing charges it, as a mask [n]."""
        drawn_j = spent_j + self.idle_w * (until_s - timelines.start_s)
        return self.fleet.batteries.surely_lasts(self.clients, self.charge.level_j, drawn_j)

    def check_drained(
        self, after: Charge, drawn_j: FloatArray, awake_s: FloatArray, at_s: FloatArray
    ) -> None:
        """Check batteries after phases that drew `drawn_j`, all [n]."""
        batteries = self.fleet.batteries
        rows = batteries.rows_of(self.clients) if batteries.has_any else np.empty(0, np.int64)
        if rows.size == 0:
            return
        clients = self.clients[rows]
        capacity_j = batteries.capacity_j[clients]
        before_j, after_j = self.charge.level_j[rows], after.level_j[rows]
        gained_j = after_j - before_j + drawn_j[rows]
        slack_j = LEVEL_SLACK_J + ROUNDING_SLACK * capacity_j
        limit_j = batteries.charge_w[clients] * awake_s[rows]
        is_right = (after_j >= 0.0) & (after_j <= capacity_j)
        if after.flows_j.shape[1]:
            flowed_j = after.flows_j[rows] - self.charge.flows_j[rows]
            gained_j += flowed_j[:, Flow.OWNER] + flowed_j[:, Flow.LOSS]
            is_right &= np.abs(gained_j - flowed_j[:, Flow.CHARGED]) <= slack_j
            is_right &= (flowed_j >= 0.0).all(axis=1)
        is_right &= (gained_j >= -slack_j) & (gained_j <= limit_j + slack_j)
        if not is_right.all():
            at = int(np.argmin(is_right))
            row = rows[at]
            raise SimulationError(
                f"battery went from {before_j[at].item()!r} to {after_j[at].item()!r} J of"
                f" {capacity_j[at].item()!r} J while {drawn_j[row].item()!r} J were drawn and at"
                f" most {limit_j[at].item()!r} J charged",
                time_s=float(at_s[row]),
                client=int(self.clients[row]),
            )

    # --- condition --------------------------------------------------------------------------------

    def condition_after(
        self, work: Work | None, start_s: FloatArray, end_s: FloatArray
    ) -> FloatArray:
        """Return the condition after phases from `start_s` to `end_s` [n]; None: no computation."""
        if self.condition.shape[1] == 0:
            return self.condition
        throttle = self.fleet.throttle
        if work is None:
            return throttle.rested(self.clients, self.condition, start_s, end_s)
        return throttle.worked(self.clients, self.condition, end_s - start_s, work.clock_fraction)
