"""What changes while the clock runs: who is free and eligible, batteries, radios and meters.

The fleet below answers what *would* happen and never changes; this holds what *did* happen, as
arrays over the clients. Nothing here depends on SimPy: time comes in as an argument and must not
run backwards.

Who is eligible is kept as a pair per client, (eligible, valid until): only the clients whose pair
has run out are asked again, so a round costs in proportion to the changes since the last one and
not to the size of the fleet.
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
from fleetsim.engine.client_state import Standing
from fleetsim.engine.eligibility import Absences, EligibilitySettings, Rule
from fleetsim.errors import SimulationError
from fleetsim.fleet.batteries.base import LEVEL_SLACK_J, Charge, Flow, Watch
from fleetsim.fleet.energy import Component
from fleetsim.fleet.network.direction import Direction
from fleetsim.fleet.population import Fleet
from fleetsim.fleet.timeline import blank
from fleetsim.fleet.traces.periodic import Schedule, freeze
from fleetsim.rounding import ROUNDING_SLACK

_AT_ONCE = 1 << 16
"""Clients whose batteries are worked out at once: a million take ten arrays of their length."""
_NOBODY = np.empty(0, dtype=np.int64)


class World:
    """The changing state of N clients; see the module's docstring.

    Invariants: no client in two tasks; what a battery held and was given is what tasks and owner
    used, what it lost, and what it holds.
    """

    def __init__(
        self,
        fleet: Fleet,
        rule: EligibilitySettings,
        *,
        spare_byte: FloatArray | None = None,
    ) -> None:
        """Everybody idle at virtual time 0.

        Args:
            fleet: the clients.
            rule: who may take part.
            spare_byte: memory that a step of training leaves each client while its owner uses no
                app [N]; None: nobody looks.
        """
        self.fleet = fleet
        size = fleet.size
        self.energy_j: FloatArray = np.zeros((size, len(Component)))
        """Meters of every client by component [N, 5]."""
        self.enlisted_idle_j: FloatArray = np.zeros(size)
        """Meters of waiting, enlisted, after a task [N]."""
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
        """When clients can be reached; known once it is asked for."""
        per_profile_w = [profile.power.idle_awake_w for profile in fleet.profiles]
        self._idle_w: FloatArray = np.array(per_profile_w)[fleet.device]
        self._is_eligible = np.zeros(size, dtype=np.bool_)
        self._valid_until_s = np.full(size, -np.inf)
        self._candidates: tuple[float, IntArray] | None = None
        self._changed: list[IntArray] = []
        """Clients whose rows (`_kept`) were written to since they were last taken."""

    # --- who may take part ------------------------------------------------------------------------

    def candidates(self, now_s: float) -> IntArray:
        """Ids of the clients that are eligible and idle now, ascending; read-only."""
        if self._candidates is None or self._candidates[0] != now_s:
            self._refresh(now_s)
            clients = (self._is_eligible & ~self._is_busy).nonzero()[0]
            freeze(clients)
            self._candidates = (now_s, clients)
        return self._candidates[1]

    def next_change_s(self, now_s: float) -> float:
        """Next moment at which somebody may become eligible or stop being so; inf if never."""
        self._refresh(now_s)
        return float(self._valid_until_s.min())

    def gone_after_s(self, clients: IntArray, now_s: float) -> FloatArray:
        """When clients [n] that are eligible now stop being so by their owners' doing [n].

        Whatever their batteries do from now on; inf if never.
        """
        standing = np.full(clients.size, self._rule.top, dtype=np.int64)
        if not self._rule.needs_top:
            standing = self._watch(clients, now_s).standing
        is_on, change_s = self._rule.state_and_change(clients, standing, now_s)
        return np.where(is_on, change_s, now_s)

    def absences(self, clients: IntArray, now_s: float) -> Absences:
        """When owners take idle clients [n] away and give them back, in a task from now on."""
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
            passed_s, standing, known_until_s = watch.next(rows, until_s[rows])
            until_s[rows] = np.minimum(until_s[rows], known_until_s)
            is_first = passed_s < until_s[rows]
            rows, passed_s, standing = rows[is_first], passed_s[is_first], standing[is_first]
            is_on_then, until_then_s = self._rule.state_and_change(stale[rows], standing, passed_s)
            turns = is_on_then != is_on[rows]
            until_s[rows] = np.where(turns, passed_s, until_then_s)
            rows = watch.goes_on(rows[~turns])
        self._is_eligible[stale] = is_on
        self._valid_until_s[stale] = until_s

    def _watch(self, clients: IntArray, now_s: float) -> Watch:
        """Batteries of idle clients [n], looked at for the levels of the rule from now on."""
        return self.fleet.batteries.watch(
            clients,
            self._charge.take(clients),
            self._level_at_s[clients],
            now_s,
            self._rule.battery_fractions,
            # As far as it has been idle: so a long wait is asked about again a few times only.
            ahead_s=now_s - self._ended_at_s[clients],
        )

    def dies_of_memory(self, clients: IntArray, t_s: FloatArray) -> BoolArray:
        """Whose training [n] dies for want of memory if it begins at `t_s` [n]."""
        if self._dying_below_byte is None:
            return np.zeros(clients.size, dtype=np.bool_)
        dies: BoolArray = self._dying_below_byte[clients] < self.fleet.usage.ram_byte_at(
            clients, t_s
        )
        return dies

    def begin(self, clients: IntArray, now_s: float, tasks: IntArray) -> Standing:
        """Tasks begin; how their clients [n] stand.

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
        return self._standing(clients, charge, self._conditions(clients, now_s))

    def _standing(self, clients: IntArray, charge: Charge, condition: FloatArray) -> Standing:
        """How idle clients [n] with these batteries in this condition stand [n]."""
        return Standing(
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

    def settle(self, clients: IntArray, standing: Standing, at_s: FloatArray) -> None:
        """The tasks of clients [n] are over; they have been idle since `at_s` [n], standing so.

        That is when each task ended, or began to wait for something that did not come.
        """
        self._charge.put(clients, standing.charge)
        self._level_at_s[clients] = at_s
        self._ended_at_s[clients] = at_s
        self._tail_until_s[clients] = standing.tail_until_s
        self._tail_radio[clients] = standing.tail_radio
        self._condition[clients] = standing.condition
        self._is_busy[clients] = False
        self._valid_until_s[clients] = -np.inf
        self._candidates = None
        self._changed.append(clients)

    def wait(
        self, clients: IntArray, from_s: FloatArray, until_s: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Idle clients [n] stay awake for the server, from when they were last settled or waited.

        Args:
            clients: who [n].
            from_s: since when [n].
            until_s: up to when, later than that [n].

        Returns:
            (joules of each, when each stopped: sooner where its battery met the cut-off [n]).

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
        standing = self._standing(clients, before, self._condition[clients])
        standing.check_drained(after, joules, ends_s - from_s, ends_s)
        self._charge.put(clients, after)
        self._level_at_s[clients] = ends_s
        self.enlisted_idle_j[clients] += joules
        self._valid_until_s[clients] = -np.inf
        self._candidates = None
        self._changed.append(clients)
        return joules, ends_s

    def count(self, reports: Sequence[Report]) -> None:
        """Train tasks of these clients were answered for or given up on."""
        selected = np.array([report.client for report in reports], dtype=np.int64)
        self._changed.append(selected)
        np.add.at(self.num_selected, selected, 1)
        delivered = [report.client for report in reports if report.is_delivered]
        np.add.at(self.num_delivered, np.array(delivered, dtype=np.int64), 1)

    def resources(
        self, client: int, now_s: float, *, level_j: float, cost: ModelCost, batch_size: int
    ) -> Resources:
        """How a client with this battery level stands at a moment, for training this model."""
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
        """What slows idle clients [n, c], see `Throttle`."""
        condition = self._condition[clients]
        if condition.shape[1] == 0:
            return condition
        since_s = self._ended_at_s[clients]
        until_s = np.full(clients.size, now_s)
        return self.fleet.throttle.rested(clients, condition, since_s, until_s)

    def _catch_up(self, clients: IntArray, now_s: float) -> None:
        """Walk idle batteries of clients to their last change, so that nobody does so again.

        Only where they are walked at all; who is in a task stays as he stood before it.
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
        """Batteries of all clients [N]; of those in a task as if it had not been sent."""
        parts = []
        for first in range(0, self.fleet.size, _AT_ONCE):
            clients = np.arange(first, min(first + _AT_ONCE, self.fleet.size), dtype=np.int64)
            self._catch_up(clients, now_s)
            since_s = self._level_at_s[clients]
            parts.append(
                self.fleet.batteries.idle(clients, self._charge.take(clients), since_s, now_s)
            )
        return Charge(*map(np.concatenate, zip(*parts, strict=True)))

    def check_batteries(self, now_s: float) -> None:
        """What went into every battery must have come out of it or be in it.

        Raises:
            SimulationError: it is not so, where it is counted.
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
        """All that changes, by name: a row for every client [N, ...].

        Clients in a task stand as before it: it is lived through again when the run is resumed.
        Whoever writes to a row notes its client in `_changed`.
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
        """Rows of the clients that have changed since this was last asked for."""
        clients = np.unique(np.concatenate([_NOBODY, *self._changed]))
        self._changed.clear()
        rows: ClientRows = {"client": clients}
        rows |= {name: column[clients] for name, column in self._kept().items()}
        freeze(*rows.values())
        return rows

    def restore(self, rows: ClientRows) -> None:
        """Take back rows that `take_changed` gave, all others being as at the beginning."""
        for name, column in self._kept().items():
            column[rows["client"]] = rows[name]
