"""What changes while the clock runs: who is free and eligible, batteries, radios and meters.

The fleet below answers what *would* happen and never changes; this holds what *did* happen, as
arrays over the clients. Nothing here depends on SimPy: time comes in as an argument and must not
run backwards.

Who is eligible is kept as a pair per client, (eligible, valid until): only the clients whose pair
has run out are asked again, so a round costs in proportion to the changes since the last one and
not to the size of the fleet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fleetsim.contracts import FloatArray, IntArray, Resources, State
from fleetsim.errors import SimulationError
from fleetsim.fleet.energy import Component, Fraction, beyond_tail, idle_level_j, walk_battery
from fleetsim.fleet.population import Fleet
from fleetsim.fleet.profile import RadioProfile
from fleetsim.fleet.timeline import Timeline
from fleetsim.settings import Settings

NUM_STANDING = 10
"""Numbers that say how a client stands: its meters, held version, battery and tail."""

_LEVEL_SLACK_J = 1e-6
_RELATIVE_SLACK = 1e-9


class EligibilitySettings(Settings):
    """When a client may take part, and must stop: the rule holds throughout a task."""

    charging: bool = False
    """Only while it is on the charger."""
    unmetered: bool = False
    """Only while it is on an unmetered network."""
    min_battery_fraction: Annotated[Fraction, Field(gt=0.0)] = 0.3
    """Only with at least this battery level when a task begins; mains-powered clients always."""


class World:
    """The changing state of N clients; see the module's docstring.

    Invariants, checked as joules are spent: 0 <= battery <= capacity; no client in two tasks; what
    a battery gained is between nothing and all that the charger could give.
    """

    def __init__(self, fleet: Fleet, rule: EligibilitySettings) -> None:
        self.fleet = fleet
        size = fleet.size
        self.energy_j: FloatArray = np.zeros((size, len(Component)))
        """Meters of every client by component [N, 5]."""
        self.num_selected: IntArray = np.zeros(size, dtype=np.int64)
        self.num_delivered: IntArray = np.zeros(size, dtype=np.int64)
        self.held_version: IntArray = np.full(size, -1, dtype=np.int64)
        """Version of the global model that each client holds [N]; -1: none."""
        self._is_busy = np.zeros(size, dtype=np.bool_)
        self._level_j = fleet.initial_j.copy()
        self._level_at_s = np.zeros(size)
        self._tail_until_s = np.zeros(size)
        self._tail_radio = np.full(size, -1, dtype=np.int64)
        self._radio_ids: dict[str, int] = {}
        self._schedule = fleet.usage.eligible_schedule(rule.charging, rule.unmetered)
        self._charging = fleet.usage.charging_schedule()
        self._min_level_j = rule.min_battery_fraction * fleet.capacity_j
        self._floor_j = fleet.battery.cutoff_fraction * fleet.capacity_j
        self._has_battery = np.isfinite(fleet.capacity_j)
        per_profile_w = [profile.power.idle_awake_w for profile in fleet.profiles]
        self._idle_w: FloatArray = np.array(per_profile_w)[fleet.device]
        # Of clients in a task: since when and until when they are on the charger, or not.
        self._charging_now: dict[int, tuple[float, float, bool]] = {}
        self._is_eligible = np.zeros(size, dtype=np.bool_)
        self._valid_until_s = np.full(size, -np.inf)

    # --- who may take part ------------------------------------------------------------------------

    def candidates(self, now_s: float) -> IntArray:
        """Ids of the clients that are eligible and idle now, ascending."""
        self._refresh(now_s)
        return np.flatnonzero(self._is_eligible & ~self._is_busy)

    def next_change_s(self, now_s: float) -> float:
        """Next moment at which somebody may become eligible or stop being so; inf if never."""
        self._refresh(now_s)
        return float(self._valid_until_s.min())

    def gone_after_s(self, client: int, now_s: float) -> float:
        """When a client that is eligible now stops being so by its owner's doing; inf if never."""
        if not self._schedule.is_at_one(client, now_s):
            return now_s
        return self._schedule.next_change_after_one(client, now_s)

    def _refresh(self, now_s: float) -> None:
        stale = np.flatnonzero(self._valid_until_s <= now_s)
        if stale.size == 0:
            return
        is_on = self._schedule.is_at(stale, now_s)
        changes_s = self._schedule.next_change_after(stale, now_s)
        self._is_eligible[stale] = is_on
        self._valid_until_s[stale] = changes_s
        is_low = self._has_battery[stale] & (self._level_j[stale] < self._min_level_j[stale])
        for client in stale[is_low].tolist():
            ready_s = self._ready_after_s(client, now_s)
            if ready_s > now_s:
                self._is_eligible[client] = False
                self._valid_until_s[client] = ready_s

    def _ready_after_s(self, client: int, now_s: float) -> float:
        """First moment from now on at which an idle client has charged enough and is eligible."""
        missing_j = float(self._min_level_j[client]) - self.level_j(client, now_s)
        t_s = now_s
        if missing_j > _LEVEL_SLACK_J:
            missing_s = missing_j / self.fleet.battery.charge_w
            while True:
                t_s = self._charging.next_true_after_one(client, t_s)
                if t_s == np.inf:
                    return np.inf
                until_s = self._charging.next_change_after_one(client, t_s)
                if until_s - t_s >= missing_s:
                    t_s += missing_s
                    break
                missing_s -= until_s - t_s
                t_s = until_s
        return self._schedule.next_true_after_one(client, t_s)

    def begin(self, client: int, now_s: float, task: int) -> None:
        """A task begins.

        Raises:
            SimulationError: the client is in a task already.
        """
        if self._is_busy[client]:
            raise SimulationError(
                "the client is in another task", time_s=now_s, client=client, task=task
            )
        self._is_busy[client] = True
        if self._has_battery[client]:
            self._level_j[client] = self.level_j(client, now_s)
            self._level_at_s[client] = now_s

    def end(self, client: int) -> None:
        """The client's task has ended."""
        self._is_busy[client] = False
        self._charging_now.pop(client, None)
        self._valid_until_s[client] = -np.inf

    def resources(self, client: int, now_s: float) -> Resources:
        """How a client stands at this moment."""
        profile = self.fleet.profile(client)
        states = self.fleet.usage.state_at(np.array([client]), now_s)
        level_j = float(self._level_j[client])
        return Resources(
            flop_per_s=profile.compute.conv_flop_per_s,
            ram_byte=profile.ram_byte,
            load_fraction=float(states.load[0]),
            is_charging=bool(states.charging[0]),
            is_unmetered=bool(states.unmetered[0]),
            battery_fraction=(
                level_j / float(self.fleet.capacity_j[client])
                if self._has_battery[client]
                else None
            ),
        )

    # --- batteries and meters ---------------------------------------------------------------------

    def level_j(self, client: int, now_s: float) -> float:
        """Battery level of an idle client; NaN if it runs on mains."""
        if not self._has_battery[client]:
            return np.nan
        charging_s = self._charging.seconds_true_one(client, float(self._level_at_s[client]), now_s)
        return idle_level_j(
            float(self._level_j[client]),
            float(self.fleet.capacity_j[client]),
            self.fleet.battery.charge_w,
            charging_s,
        )

    def battery_fraction(self, now_s: float) -> FloatArray:
        """Battery levels of all clients as fractions of their capacity [N]; NaN on mains."""
        clients = np.arange(self.fleet.size, dtype=np.int64)
        charging_s = self._charging.seconds_true(clients, self._level_at_s, now_s)
        level_j = self._level_j + self.fleet.battery.charge_w * charging_s
        return np.minimum(level_j, self.fleet.capacity_j) / self.fleet.capacity_j

    def empty_at_s(self, client: int, timeline: Timeline, until_s: float) -> float:
        """When the battery meets its cut-off in a phase that would run until then; inf if not."""
        if not self._has_battery[client]:
            return np.inf
        # What the whole phase draws, without any charging, leaves enough.
        drawn_j = timeline.energy_until(until_s)
        drawn_j += float(self._idle_w[client]) * (until_s - timeline.start_s)
        if self._level_j[client] - drawn_j > self._floor_j[client]:
            return np.inf
        return self._walk(client, timeline, until_s)[1]

    def after_paid_tail(self, client: int, timeline: Timeline, radio: RadioProfile) -> Timeline:
        """A transfer, relieved of the tail that the client's radio has already been charged."""
        if self._tail_radio[client] != self._radio_id(radio):
            return timeline
        return beyond_tail(timeline, radio.tail_w, float(self._tail_until_s[client]))

    def spend(
        self, client: int, timeline: Timeline, component: Component, until_s: float
    ) -> tuple[float, float]:
        """Charge a phase up to `until_s`.

        Returns:
            (joules of the component, joules of being awake).

        Raises:
            SimulationError: the battery left [0, capacity], or gained more than its charger gives.
        """
        spent_j = timeline.energy_until(until_s)
        awake_s = until_s - timeline.start_s
        idle_j = float(self._idle_w[client]) * awake_s
        self.energy_j[client, component] += spent_j
        self.energy_j[client, Component.IDLE] += idle_j
        if self._has_battery[client]:
            before_j = float(self._level_j[client])
            after_j, _ = self._walk(client, timeline, until_s)
            gained_j = after_j - before_j + spent_j + idle_j
            capacity_j = float(self.fleet.capacity_j[client])
            slack_j = _LEVEL_SLACK_J + _RELATIVE_SLACK * capacity_j
            limit_j = self.fleet.battery.charge_w * awake_s
            if not (0.0 <= after_j <= capacity_j and -slack_j <= gained_j <= limit_j + slack_j):
                raise SimulationError(
                    f"battery went from {before_j!r} to {after_j!r} J of {capacity_j!r} J while"
                    f" {spent_j + idle_j!r} J were drawn and at most {limit_j!r} J charged",
                    time_s=until_s,
                    client=client,
                )
            self._level_j[client] = after_j
            self._level_at_s[client] = until_s
        return spent_j, idle_j

    def spend_tail(self, client: int, radio: RadioProfile, end_s: float) -> float:
        """Charge the tail of a transfer that ended at `end_s`, whole.

        A battery that is all but empty gives the tail what it has left. A tail that is still paid
        for from the same radio's previous transfer is only prolonged.
        """
        starts_s = end_s
        if self._tail_radio[client] == self._radio_id(radio):
            starts_s = max(end_s, float(self._tail_until_s[client]))
        tail_j = radio.tail_w * max(0.0, end_s + radio.tail_s - starts_s)
        if self._has_battery[client]:
            tail_j = min(tail_j, float(self._level_j[client]))
            self._level_j[client] -= tail_j
        self.energy_j[client, Component.TAIL] += tail_j
        self._tail_radio[client] = self._radio_id(radio)
        self._tail_until_s[client] = end_s + radio.tail_s
        return tail_j

    def _walk(self, client: int, timeline: Timeline, until_s: float) -> tuple[float, float]:
        level_j = float(self._level_j[client])
        return walk_battery(
            level_j,
            float(self.fleet.capacity_j[client]),
            # A tail may have taken an idle battery below its cut-off; it falls no further.
            min(level_j, float(self._floor_j[client])),
            timeline,
            float(self._idle_w[client]),
            self._charging_steps(client, timeline.start_s),
            until_s,
        )

    def _charging_steps(self, client: int, t_s: float) -> Iterator[tuple[float, float]]:
        from_s, until_s, is_on = self._charging_now.get(client, (0.0, 0.0, False))
        if not from_s <= t_s < until_s:
            is_on = self._charging.is_at_one(client, t_s)
            until_s = self._charging.next_change_after_one(client, t_s)
            self._charging_now[client] = (t_s, until_s, is_on)
        while True:
            yield until_s, self.fleet.battery.charge_w if is_on else 0.0
            is_on = not is_on
            until_s = self._charging.next_change_after_one(client, until_s)

    def _radio_id(self, radio: RadioProfile) -> int:
        return self._radio_ids.setdefault(radio.name, len(self._radio_ids))

    # --- stop and resume --------------------------------------------------------------------------

    def standing(self, client: int) -> FloatArray:
        """What `state` holds of one client, in one row [NUM_STANDING]."""
        return np.array(
            [
                *self.energy_j[client],
                self.held_version[client],
                self._level_j[client],
                self._level_at_s[client],
                self._tail_until_s[client],
                self._tail_radio[client],
            ]
        )

    def state(self, in_flight: Mapping[int, FloatArray] | None = None) -> State:
        """Copies of everything that changes.

        Args:
            in_flight: clients that are in a task, as they stood before it (`standing`); such a
                task is lived through again when the run is resumed.
        """
        state = self._copies()
        for client, row in (in_flight or {}).items():
            state["energy_j"][client] = row[:5]
            for name, value in zip(
                ("held_version", "level_j", "level_at_s", "tail_until_s", "tail_radio"),
                row[5:].tolist(),
                strict=True,
            ):
                state[name][client] = value
        return state

    def _copies(self) -> dict[str, NDArray[Any]]:
        return {
            "energy_j": self.energy_j.copy(),
            "num_selected": self.num_selected.copy(),
            "num_delivered": self.num_delivered.copy(),
            "held_version": self.held_version.copy(),
            "level_j": self._level_j.copy(),
            "level_at_s": self._level_at_s.copy(),
            "tail_until_s": self._tail_until_s.copy(),
            "tail_radio": self._tail_radio.copy(),
            "radio_names": np.array(list(self._radio_ids), dtype=np.str_),
        }

    def restore(self, state: State) -> None:
        """Take back what `state` gave."""
        self.energy_j = state["energy_j"].astype(np.float64)
        self.num_selected = state["num_selected"].astype(np.int64)
        self.num_delivered = state["num_delivered"].astype(np.int64)
        self.held_version = state["held_version"].astype(np.int64)
        self._level_j = state["level_j"].astype(np.float64)
        self._level_at_s = state["level_at_s"].astype(np.float64)
        self._tail_until_s = state["tail_until_s"].astype(np.float64)
        self._tail_radio = state["tail_radio"].astype(np.int64)
        self._radio_ids = {str(name): i for i, name in enumerate(state["radio_names"].tolist())}
