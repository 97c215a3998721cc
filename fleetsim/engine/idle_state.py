"""State of clients between tasks: batteries, radio tails and condition."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleetsim.contracts import BoolArray, FloatArray, IntArray
from fleetsim.engine.client_state import ClientState
from fleetsim.errors import SimulationError
from fleetsim.fleet.batteries.base import Charge, LevelWatch, Phases, WatchRequest
from fleetsim.fleet.population import Fleet
from fleetsim.fleet.timeline import blank

MOST_AT_ONCE = 1 << 16
"""Clients whose batteries are computed at once, to bound the memory of large fleets."""


def in_blocks(num_clients: int) -> Iterator[IntArray]:
    """Yield the numbers of all clients, at most `MOST_AT_ONCE` at a time."""
    for first in range(0, num_clients, MOST_AT_ONCE):
        yield np.arange(first, min(first + MOST_AT_ONCE, num_clients), dtype=np.int64)


class IdleState:
    """State of N clients since their last tasks; a client in a task has the state before it."""

    def __init__(self, fleet: Fleet, changed: list[IntArray]) -> None:
        """Make all clients idle at virtual time 0; `changed` gets those whose rows change."""
        size = fleet.size
        self.charge: Charge = fleet.batteries.initial(fleet.initial_j)
        """Batteries as they were at `_level_at_s`."""
        self.is_busy: BoolArray = np.zeros(size, dtype=np.bool_)
        self._fleet = fleet
        self._changed = changed
        self._level_at_s = np.zeros(size)
        self._ended_at_s = np.zeros(size)
        self._tail_until_s = np.zeros(size)
        self._tail_radio = np.full(size, -1, dtype=np.int64)
        self._condition = fleet.throttle.initial()
        per_profile_w = [profile.power.idle_awake_w for profile in fleet.profiles]
        self._idle_w: FloatArray = np.array(per_profile_w)[fleet.device]

    def begin(self, clients: IntArray, now_s: float, tasks: IntArray) -> ClientState:
        """Begin tasks; return the state of their clients [n]."""
        is_busy = self.is_busy[clients]
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
        self.is_busy[clients] = True
        condition = self._condition[clients]
        if condition.shape[1]:
            since_s, until_s = self._ended_at_s[clients], np.full(clients.size, now_s)
            condition = self._fleet.throttle.rested(clients, condition, since_s, until_s)
        return self._client_state(clients, self._charge_of(clients, now_s), condition)

    def settle(self, clients: IntArray, state: ClientState, at_s: FloatArray) -> None:
        """End tasks of clients [n], which have been idle in this state since `at_s` [n]."""
        self.charge.put(clients, state.charge)
        self._level_at_s[clients] = at_s
        self._ended_at_s[clients] = at_s
        self._tail_until_s[clients] = state.tail_until_s
        self._tail_radio[clients] = state.tail_radio
        self._condition[clients] = state.condition
        self.is_busy[clients] = False
        self._changed.append(clients)

    def wait(
        self, clients: IntArray, from_s: FloatArray, until_s: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Keep idle clients [n] awake; see `World.wait`."""
        idle_w, nothing_j = self._idle_w[clients], np.zeros(clients.size)
        before = self.charge.take(clients)
        stretch = blank(from_s, until_s)
        phases = Phases(clients, before, stretch, nothing_j, idle_w, until_s)
        after, empty_s = self._fleet.batteries.work(phases)
        ends_s = np.minimum(until_s, empty_s)
        if (ends_s < until_s).any():
            after, _ = self._fleet.batteries.work(phases._replace(until_s=ends_s))
        joules = idle_w * (ends_s - from_s)
        state = self._client_state(clients, before, self._condition[clients])
        state.check_drained(after, joules, ends_s - from_s, ends_s)
        self.charge.put(clients, after)
        self._level_at_s[clients] = ends_s
        self._changed.append(clients)
        return joules, ends_s

    def watch(self, clients: IntArray, now_s: float, fractions: FloatArray) -> LevelWatch:
        """Return a watch of idle clients' batteries [n] for these levels from now on."""
        # As far ahead as it has been idle: a long wait then needs only a few calls.
        ahead_s = now_s - self._ended_at_s[clients]
        charge, from_s = self.charge.take(clients), self._level_at_s[clients]
        return self._fleet.batteries.watch(
            WatchRequest(clients, charge, from_s, now_s, fractions, ahead_s)
        )

    def catch_up(self, clients: IntArray, now_s: float) -> None:
        """Move walked batteries of idle clients to their last change, which is computed once."""
        if self.charge.flows_j.shape[1] == 0:
            return
        clients = clients[~self.is_busy[clients]]
        charge, at_s = self._fleet.batteries.last_change(
            clients, self.charge.take(clients), self._level_at_s[clients], now_s
        )
        self.charge.put(clients, charge)
        self._level_at_s[clients] = at_s
        self._changed.append(clients)

    def charge_at(self, now_s: float) -> Charge:
        """Return the batteries of all clients [N]; those in a task as if it had not begun."""
        parts = [self.charge_of(clients, now_s) for clients in in_blocks(self._fleet.size)]
        return Charge(*map(np.concatenate, zip(*parts, strict=True)))

    def charge_of(self, clients: IntArray, now_s: float) -> Charge:
        """Return the batteries of clients [n] as `charge_at` does."""
        self.catch_up(clients, now_s)
        return self._charge_of(clients, now_s)

    def rows(self) -> dict[str, NDArray[Any]]:
        """Return all that changes between tasks, by name: a row for every client [N, ...]."""
        rows: dict[str, NDArray[Any]] = {
            "level_j": self.charge.level_j,
            "level_at_s": self._level_at_s,
            "ended_at_s": self._ended_at_s,
            "tail_until_s": self._tail_until_s,
            "tail_radio": self._tail_radio,
        }
        if self._condition.shape[1]:
            rows["condition"] = self._condition
        if self.charge.flows_j.shape[1]:
            rows["is_off"], rows["flows_j"] = self.charge.is_off, self.charge.flows_j
        return rows

    def _charge_of(self, clients: IntArray, now_s: float) -> Charge:
        return self._fleet.batteries.idle(
            clients, self.charge.take(clients), self._level_at_s[clients], now_s
        )

    def _client_state(
        self, clients: IntArray, charge: Charge, condition: FloatArray
    ) -> ClientState:
        return ClientState(
            fleet=self._fleet,
            clients=clients,
            idle_w=self._idle_w[clients],
            charge=charge,
            tail_until_s=self._tail_until_s[clients],
            tail_radio=self._tail_radio[clients],
            condition=condition,
        )
