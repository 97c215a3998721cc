"""Changing state of the clients: eligibility, batteries, radios and energy meters.

The fleet is immutable and tells what *would* happen; this module holds what *did* happen, as arrays
over the clients. It does not depend on SimPy: time is an argument and must not run backwards.

Eligibility is kept as a pair per client, (eligible, valid until). Only clients whose pair has
expired are computed again, so a round costs in proportion to the changes since the last one and not
to the size of the fleet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleetsim.contracts import (
    BoolArray,
    ClientRows,
    FloatArray,
    IntArray,
    ModelCost,
    Report,
    Resources,
)
from fleetsim.engine.client_state import ClientState
from fleetsim.engine.eligibility import Absences, EligibilitySettings, Rule
from fleetsim.errors import SimulationError
from fleetsim.fleet.batteries.base import LEVEL_SLACK_J, Charge, Flow, Watch
from fleetsim.fleet.energy import Component
from fleetsim.fleet.network.direction import Direction
from fleetsim.fleet.population import Fleet
from fleetsim.fleet.timeline import blank
from fleetsim.fleet.traces.periodic import Schedule, freeze
from fleetsim.rounding import ROUNDING_SLACK

_MOST_AT_ONCE = 1 << 16
"""Clients whose batteries are computed at once, to bound the memory of large fleets."""
_NO_CLIENTS = np.empty(0, dtype=np.int64)


class World:
    """Changing state of N clients; see the module's docstring.

    Invariants: no client in two tasks; what a battery held at first and was given equals what tasks
    and owner used, what it lost, and what it holds.
    """

    def __init__(
        self,
        fleet: Fleet,
        rule: EligibilitySettings,
        *,
        spare_byte: FloatArray | None = None,
    ) -> None:
        """Make all clients idle at virtual time 0.

        Args:
            fleet: the clients.
            rule: eligibility rule.
            spare_byte: memory that a step of training leaves each client while its owner uses no
                app [N]; None: memory is not modelled.
        """
        self.fleet = fleet
        size = fleet.size
        self.energy_j: FloatArray = np.zeros((size, len(Component)))
        """Joules of tasks by client and component [N, 5]."""
        self.enlisted_idle_j: FloatArray = np.zeros(size)
        """Joules of waiting, enlisted, after a task [N]."""
        self.num_selected: IntArray = np.zeros(size, dtype=np.int64)
        self.num_delivered: IntArray = np.zeros(size, dtype=np.int64)
        self.held_version: IntArray = np.full(size, -1, dtype=np.int64)
        """Version of the global model that each client holds [N]; -1: none."""
        self._is_busy = np.zeros(size, dtype=np.bool_)
        self._charge = fleet.batteries.initial(fleet.initial_j)
        """Batteries as they were at `_level_at_s`."""
        self._level_at_s = np.zeros(size)
        self._ended_at_s = np.zeros(size)
        self._tail_until_s = np.zeros(size)
        self._tail_radio = np.full(size, -1, dtype=np.int64)
        self._condition = fleet.throttle.initial()
        fails = fleet.memory is not None and fleet.memory.when_short == "fails"
        self._dying_below_byte = spare_byte if fails else None
        self._rule = Rule(rule, fleet, spare_byte=None if fails else spare_byte)
        self._online: Schedule | None = None
        """Schedule of when clients are online; computed at its first use."""
        per_profile_w = [profile.power.idle_awake_w for profile in fleet.profiles]
        self._idle_w: FloatArray = np.array(per_profile_w)[fleet.device]
        self._is_eligible = np.zeros(size, dtype=np.bool_)
        self._valid_until_s = np.full(size, -np.inf)
        self._candidates: tuple[float, IntArray] | None = None
        self._changed: list[IntArray] = []
        """Clients whose rows of `_kept` were changed since `take_changed`."""

    # --- eligibility ------------------------------------------------------------------------------

    def candidates(self, now_s: float) -> IntArray:
        """Return the clients that are eligible and idle now, ascending; read-only."""
        if self._candidates is None or self._candidates[0] != now_s:
            self._refresh(now_s)
            clients = (self._is_eligible & ~self._is_busy).nonzero()[0]
            freeze(clients)
            self._candidates = (now_s, clients)
        return self._candidates[1]

    def next_change_s(self, now_s: float) -> float:
        """Return the next moment at which the eligibility of a client may change; inf if never."""
        self._refresh(now_s)
        return float(self._valid_until_s.min())

    def gone_after_s(self, clients: IntArray, now_s: float) -> FloatArray:
        """Return when eligible clients [n] stop being so because of their owners [n].

        Batteries are ignored; inf if never.
        """
        battery_rank = np.full(clients.size, self._rule.top, dtype=np.int64)
        if not self._rule.needs_top:
            battery_rank = self._watch(clients, now_s).standing
        is_on, change_s = self._rule.state_and_change(clients, battery_rank, now_s)
        return np.where(is_on, change_s, now_s)

    def absences(self, clients: IntArray, now_s: float) -> Absences:
        """Return the absences of idle clients [n] during a task that begins now."""
        if self._online is None:
            self._online = self.fleet.usage.schedule_where(
                np.ones_like(self.fleet.usage.states.online)
            )
        return Absences(self._rule, self._online, clients, self._watch(clients, now_s).standing)

    def _refresh(self, now_s: float) -> None:
        stale = (self._valid_until_s <= now_s).nonzero()[0]
        if stale.size == 0:
            return
        self._catch_up(stale, now_s)
        watch = self._watch(stale, now_s)
        is_on, until_s = self._rule.state_and_change(stale, watch.standing, now_s)
        rows = watch.may_pass()
        while rows.size:
            passed_s, battery_rank, known_until_s = watch.next(rows, until_s[rows])
            until_s[rows] = np.minimum(until_s[rows], known_until_s)
            is_first = passed_s < until_s[rows]
            rows, passed_s, battery_rank = (
                rows[is_first],
                passed_s[is_first],
                battery_rank[is_first],
            )
            is_on_then, until_then_s = self._rule.state_and_change(
                stale[rows], battery_rank, passed_s
            )
            turns = is_on_then != is_on[rows]
            until_s[rows] = np.where(turns, passed_s, until_then_s)
            rows = watch.goes_on(rows[~turns])
        self._is_eligible[stale] = is_on
        self._valid_until_s[stale] = until_s

    def _watch(self, clients: IntArray, now_s: float) -> Watch:
        """Return a watch of idle clients' batteries [n] for the levels of the rule from now on."""
        return self.fleet.batteries.watch(
            clients,
            self._charge.take(clients),
            self._level_at_s[clients],
            now_s,
            self._rule.battery_fractions,
            # As far ahead as it has been idle: a long wait then needs only a few calls.
            ahead_s=now_s - self._ended_at_s[clients],
        )

    def dies_of_memory(self, clients: IntArray, t_s: FloatArray) -> BoolArray:
        """Return whether trainings [n] fail for lack of memory if they begin at `t_s` [n]."""
        if self._dying_below_byte is None:
            return np.zeros(clients.size, dtype=np.bool_)
        dies: BoolArray = self._dying_below_byte[clients] < self.fleet.usage.ram_byte_at(
            clients, t_s
        )
        return dies

    def begin(self, clients: IntArray, now_s: float, tasks: IntArray) -> ClientState:
        """Begin tasks; return the state of their clients [n].

        Raises:
            SimulationError: a client is in a task already.
        """
        is_busy = self._is_busy[clients]
        if is_busy.any() or len(set(clients.tolist())) < clients.size:
            first = np.unique(clients, return_index=True)[1]
            is_busy[np.delete(np.arange(clients.size), first)] = True
            again = int(np.argmax(is_busy))
            raise SimulationError(
                "the client is in another task",
                time_s=now_s,
                client=int(clients[again]),
                task=int(tasks[again]),
            )
        self._candidates = None
        self._is_busy[clients] = True
        charge = self.fleet.batteries.idle(
            clients, self._charge.take(clients), self._level_at_s[clients], now_s
        )
        return self._client_state(clients, charge, self._conditions(clients, now_s))

    def _client_state(
        self, clients: IntArray, charge: Charge, condition: FloatArray
    ) -> ClientState:
        """Return the state of idle clients [n] with these batteries and this condition [n]."""
        return ClientState(
            fleet=self.fleet,
            clients=clients,
            idle_w=self._idle_w[clients],
            level_j=charge.level_j,
            is_off=charge.is_off,
            flows_j=charge.flows_j,
            tail_until_s=self._tail_until_s[clients],
            tail_radio=self._tail_radio[clients],
            condition=condition,
        )

    def settle(self, clients: IntArray, state: ClientState, at_s: FloatArray) -> None:
        """End the tasks of clients [n], which have been idle in this state since `at_s` [n].

        That is when each task ended, or began a pause that it did not survive.
        """
        self._charge.put(clients, state.charge)
        self._level_at_s[clients] = at_s
        self._ended_at_s[clients] = at_s
        self._tail_until_s[clients] = state.tail_until_s
        self._tail_radio[clients] = state.tail_radio
        self._condition[clients] = state.condition
        self._is_busy[clients] = False
        self._valid_until_s[clients] = -np.inf
        self._candidates = None
        self._changed.append(clients)

    def wait(
        self, clients: IntArray, from_s: FloatArray, until_s: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Keep idle clients [n] awake for the server since they were last settled or waited.

        Args:
            clients: the clients [n].
            from_s: begin of the wait [n].
            until_s: end of the wait, later than that [n].

        Returns:
            (joules of each, end of its wait: sooner where its battery met the cut-off level [n]).

        Raises:
            SimulationError: a battery left [0, capacity], or gained more than its charger gives.
        """
        idle_w, nothing_j = self._idle_w[clients], np.zeros(clients.size)
        before = self._charge.take(clients)
        stretch = blank(from_s, until_s)
        work = self.fleet.batteries.work
        after, empty_s = work(clients, before, stretch, nothing_j, idle_w, until_s)
        ends_s = np.minimum(until_s, empty_s)
        if (ends_s < until_s).any():
            after, _ = work(clients, before, stretch, nothing_j, idle_w, ends_s)
        joules = idle_w * (ends_s - from_s)
        state = self._client_state(clients, before, self._condition[clients])
        state.check_drained(after, joules, ends_s - from_s, ends_s)
        self._charge.put(clients, after)
        self._level_at_s[clients] = ends_s
        self.enlisted_idle_j[clients] += joules
        self._valid_until_s[clients] = -np.inf
        self._candidates = None
        self._changed.append(clients)
        return joules, ends_s

    def count(self, reports: Sequence[Report]) -> None:
        """Count the selections and deliveries of train tasks that have ended."""
        selected = np.array([report.client for report in reports], dtype=np.int64)
        self._changed.append(selected)
        np.add.at(self.num_selected, selected, 1)
        delivered = [report.client for report in reports if report.is_delivered]
        np.add.at(self.num_delivered, np.array(delivered, dtype=np.int64), 1)

    def resources(
        self, client: int, now_s: float, *, level_j: float, cost: ModelCost, batch_size: int
    ) -> Resources:
        """Return what a client with this battery level reports at a moment about itself."""
        profile = self.fleet.profile(client)
        state = self.fleet.usage.state_at_one(client, now_s)
        epoch_s = self.fleet.epoch_s(client, cost, batch_size)
        return Resources(
            flop_per_s=self.fleet.conv_flop_per_s(client),
            ram_byte=profile.ram_byte,
            load_fraction=state.load,
            is_charging=state.charging,
            is_unmetered=state.unmetered,
            battery_fraction=(
                None
                if np.isnan(level_j)
                else level_j / float(self.fleet.batteries.capacity_j[client])
            ),
            samples_per_s=(1.0 - state.load) * float(self.fleet.num_samples[client]) / epoch_s,
            down_bit_per_s=self.fleet.rate_at(client, Direction.DOWN, now_s),
            up_bit_per_s=self.fleet.rate_at(client, Direction.UP, now_s),
            free_ram_byte=(
                None if self.fleet.memory is None else float(self.fleet.memory.free_byte[client])
            ),
        )

    # --- batteries and meters ---------------------------------------------------------------------

    def _conditions(self, clients: IntArray, now_s: float) -> FloatArray:
        """Return the condition that slows idle clients [n, c], see `Throttle`."""
        condition = self._condition[clients]
        if condition.shape[1] == 0:
            return condition
        since_s = self._ended_at_s[clients]
        until_s = np.full(clients.size, now_s)
        return self.fleet.throttle.rested(clients, condition, since_s, until_s)

    def _catch_up(self, clients: IntArray, now_s: float) -> None:
        """Move batteries of idle clients to their last change, so that it is computed once.

        Only for batteries that are walked; a client in a task keeps the state before it.
        """
        if self._charge.flows_j.shape[1] == 0:
            return
        clients = clients[~self._is_busy[clients]]
        charge, at_s = self.fleet.batteries.last_change(
            clients, self._charge.take(clients), self._level_at_s[clients], now_s
        )
        self._charge.put(clients, charge)
        self._level_at_s[clients] = at_s
        self._changed.append(clients)

    def charge_at(self, now_s: float) -> Charge:
        """Return the batteries of all clients [N]; those in a task as if it had not begun."""
        parts = []
        for first in range(0, self.fleet.size, _MOST_AT_ONCE):
            clients = np.arange(first, min(first + _MOST_AT_ONCE, self.fleet.size), dtype=np.int64)
            self._catch_up(clients, now_s)
            since_s = self._level_at_s[clients]
            parts.append(
                self.fleet.batteries.idle(clients, self._charge.take(clients), since_s, now_s)
            )
        return Charge(*map(np.concatenate, zip(*parts, strict=True)))

    def check_batteries(self, now_s: float) -> None:
        """Check that every battery's joules are conserved, where they are counted.

        Raises:
            SimulationError: they are not.
        """
        if self._charge.flows_j.shape[1] == 0:
            return
        put_in_j = self.fleet.initial_j + self._charge.flows_j[:, Flow.CHARGED]
        out_j = self.energy_j.sum(axis=1) + self.enlisted_idle_j
        out_j += self._charge.flows_j[:, Flow.OWNER] + self._charge.flows_j[:, Flow.LOSS]
        out_j += self._charge.level_j
        slack_j = LEVEL_SLACK_J + ROUNDING_SLACK * (self.fleet.batteries.capacity_j + put_in_j)
        wrong = (np.abs(put_in_j - out_j) > slack_j).nonzero()[0]
        if wrong.size:
            client = int(wrong[0])
            raise SimulationError(
                f"joules of the battery are not conserved: {put_in_j[client].item()!r} J were in it"
                f" or charged, {out_j[client].item()!r} J were used, lost or are left",
                time_s=now_s,
                client=client,
            )

    # --- stop and resume --------------------------------------------------------------------------

    def _kept(self) -> dict[str, NDArray[Any]]:
        """Return all that changes, by name: a row for every client [N, ...].

        Clients in a task have the state before it: the task is repeated when the run is resumed.
        Code that writes to a row must note its client in `_changed`.
        """
        kept: dict[str, NDArray[Any]] = {
            "energy_j": self.energy_j,
            "enlisted_idle_j": self.enlisted_idle_j,
            "num_selected": self.num_selected,
            "num_delivered": self.num_delivered,
            "held_version": self.held_version,
            "level_j": self._charge.level_j,
            "level_at_s": self._level_at_s,
            "ended_at_s": self._ended_at_s,
            "tail_until_s": self._tail_until_s,
            "tail_radio": self._tail_radio,
        }
        if self._condition.shape[1]:
            kept["condition"] = self._condition
        if self._charge.flows_j.shape[1]:
            kept["is_off"], kept["flows_j"] = self._charge.is_off, self._charge.flows_j
        return kept

    def take_changed(self) -> ClientRows:
        """Return the rows of the clients that have changed since the last call."""
        clients = np.unique(np.concatenate([_NO_CLIENTS, *self._changed]))
        self._changed.clear()
        rows: ClientRows = {"client": clients}
        rows |= {name: column[clients] for name, column in self._kept().items()}
        freeze(*rows.values())
        return rows

    def restore(self, rows: ClientRows) -> None:
        """Restore rows of `take_changed`; all other clients stay as at the beginning."""
        for name, column in self._kept().items():
            column[rows["client"]] = rows[name]
