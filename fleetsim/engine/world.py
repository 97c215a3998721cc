"""Changing state of the clients: what they were asked, used and delivered, and what they are now.

The fleet is immutable and tells what *would* happen; the world holds what *did* happen, as arrays
over the clients. It does not depend on SimPy: time is an argument and must not run backwards.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleetsim.contracts import ClientRows, FloatArray, IntArray, Report
from fleetsim.engine.client_state import ClientState
from fleetsim.engine.eligibility import EligibilitySettings
from fleetsim.engine.eligible_clients import EligibleClients
from fleetsim.engine.idle_state import IdleState
from fleetsim.errors import SimulationError
from fleetsim.fleet.batteries.base import LEVEL_SLACK_J, Flow
from fleetsim.fleet.energy import Component
from fleetsim.fleet.population import Fleet
from fleetsim.read_only import freeze
from fleetsim.rounding import ROUNDING_SLACK

_NO_CLIENTS = np.empty(0, dtype=np.int64)


class World:
    """Changing state of N clients: none in two tasks, every battery's joules conserved."""

    def __init__(
        self,
        fleet: Fleet,
        rule: EligibilitySettings,
        *,
        spare_byte: FloatArray | None = None,
        frozen_byte: int = 0,
    ) -> None:
        """Make all clients idle at virtual time 0.

        `spare_byte` is the memory that a step of training leaves each client while its owner uses
        no app [N]; None: memory is not modelled. `frozen_byte` are the bytes of the model's frozen
        weights, which no client has yet.
        """
        self.fleet = fleet
        size = fleet.size
        self.energy_j: FloatArray = np.zeros((size, len(Component)))
        """Joules of tasks by client and component [N, 5]."""
        self.enlisted_idle_j: FloatArray = np.zeros(size)
        self.num_selected: IntArray = np.zeros(size, dtype=np.int64)
        self.num_delivered: IntArray = np.zeros(size, dtype=np.int64)
        self.held_version: IntArray = np.full(size, -1, dtype=np.int64)
        """Version of the global model that each client holds [N]; -1: none."""
        self.frozen_byte = frozen_byte
        self.frozen_left_byte: IntArray = np.full(size, frozen_byte, dtype=np.int64)
        """Bytes of the frozen weights that each client has yet to download [N]."""
        self._changed: list[IntArray] = []
        self.idle = IdleState(fleet, self._changed)
        self.eligible = EligibleClients(fleet, rule, self.idle, spare_byte=spare_byte)

    def begin(self, clients: IntArray, now_s: float, tasks: IntArray) -> ClientState:
        """Begin tasks; return the state of their clients [n]."""
        state = self.idle.begin(clients, now_s, tasks)
        self.eligible.forget_candidates()
        return state

    def settle(
        self, clients: IntArray, state: ClientState, at_s: FloatArray, fails_of_memory: IntArray
    ) -> None:
        """End tasks of clients [n], idle in this state since `at_s`; some failed of memory [k]."""
        self.idle.settle(clients, state, at_s)
        if fails_of_memory.size:
            self.eligible.fail_of_memory(clients[fails_of_memory], at_s[fails_of_memory])
        self.eligible.expire(clients)

    def wait(
        self, clients: IntArray, from_s: FloatArray, until_s: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Keep idle clients awake; return their joules [n], and ends, by low batteries too [n]."""
        joules, ends_s = self.idle.wait(clients, from_s, until_s)
        self.enlisted_idle_j[clients] += joules
        self.eligible.expire(clients)
        return joules, ends_s

    def count(self, reports: Sequence[Report]) -> None:
        """Count the selections and deliveries of train tasks that have ended."""
        selected = np.array([report.client for report in reports], dtype=np.int64)
        self._changed.append(selected)
        np.add.at(self.num_selected, selected, 1)
        delivered = [report.client for report in reports if report.is_delivered]
        np.add.at(self.num_delivered, np.array(delivered, dtype=np.int64), 1)

    def check_batteries(self, now_s: float) -> None:
        """Check that every battery's joules are conserved, where they are counted."""
        charge = self.idle.charge
        if charge.flows_j.shape[1] == 0:
            return
        put_in_j = self.fleet.initial_j + charge.flows_j[:, Flow.CHARGED]
        out_j = self.energy_j.sum(axis=1) + self.enlisted_idle_j
        out_j += charge.flows_j[:, Flow.OWNER] + charge.flows_j[:, Flow.LOSS] + charge.level_j
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

    def battery_balance(self, clients: IntArray, now_s: float) -> dict[str, FloatArray]:
        """Return columns of clients.parquet on joules of batteries since time 0; NaN on mains.

        They are of clients [n], whose numbers ascend.
        """
        charge, batteries = self.idle.charge_of(clients, now_s), self.fleet.batteries
        capacity_j, initial_j = batteries.capacity_j[clients], self.fleet.initial_j[clients]
        spent_j = self.energy_j[clients].sum(axis=1) + self.enlisted_idle_j[clients]
        nothing_j = np.where(np.isnan(capacity_j), np.nan, 0.0)
        owner_j, loss_j = nothing_j, nothing_j
        if batteries.num_flows:
            charged_j, owner_j, loss_j = charge.flows_j.T + nothing_j
        else:
            # A level in closed form counts no flow: what was charged is the rest of the balance.
            charged_j = charge.level_j + spent_j - initial_j
        most_j = batteries.most_charged_j(clients, now_s)
        slack_j = LEVEL_SLACK_J + ROUNDING_SLACK * (capacity_j + spent_j + most_j)
        wrong = ((charged_j < -slack_j) | (charged_j > most_j + slack_j)).nonzero()[0]
        if wrong.size:
            first = int(wrong[0])
            raise SimulationError(
                f"joules of the battery are not conserved: {charged_j[first].item()!r} J must have"
                f" been charged, and {most_j[first].item()!r} J are the most that could be",
                time_s=now_s,
                client=int(clients[first]),
            )
        if not batteries.num_flows:
            charged_j = np.clip(charged_j, 0.0, most_j)  # a difference has a rounding
        return {
            "battery_capacity_j": capacity_j,
            "battery_initial_j": initial_j,
            "battery_charged_j": charged_j,
            "battery_owner_j": owner_j,
            "battery_loss_j": loss_j,
            "battery_final_j": charge.level_j,
        }

    # --- stop and resume --------------------------------------------------------------------------

    def _kept(self) -> dict[str, NDArray[Any]]:
        """Return all that changes, by name: a row for every client [N, ...].

        Clients in a task have the state before it: the task is repeated when the run is resumed.
        Code that writes to a row must note its client in `_changed`.
        """
        return {
            "energy_j": self.energy_j,
            "enlisted_idle_j": self.enlisted_idle_j,
            "num_selected": self.num_selected,
            "num_delivered": self.num_delivered,
            "held_version": self.held_version,
            **({"frozen_left_byte": self.frozen_left_byte} if self.frozen_byte else {}),
            **self.idle.rows(),
            **self.eligible.rows(),
        }

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
            if rows[name].dtype != column.dtype:
                raise ValueError(f"clients: {name} is {rows[name].dtype}, not {column.dtype}")
            column[rows["client"]] = rows[name]
