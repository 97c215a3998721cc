"""Base of both servers: parts of a run, joined and saved together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from dataclasses import dataclass

import numpy as np
import simpy

from fleetsim.contracts import (
    ClientColumns,
    Progress,
    Recorder,
    Selector,
    State,
    StopReason,
)
from fleetsim.engine.eligibility import EligibilitySettings
from fleetsim.engine.event_order import Clock
from fleetsim.engine.servers.dispatch import Dispatcher
from fleetsim.engine.servers.global_model import GlobalModel, Learning
from fleetsim.engine.servers.round_closer import RoundCloser
from fleetsim.engine.servers.rounds import client_columns
from fleetsim.engine.servers.selection import Selection, state_of
from fleetsim.engine.servers.stop import StopSettings
from fleetsim.engine.servers.waiting_clients import EnergySettings
from fleetsim.engine.tasks.interruption import NOT_SHARED, InterruptionSettings, LoseSettings
from fleetsim.engine.world import World
from fleetsim.errors import ScenarioError
from fleetsim.fleet.population import Fleet


@dataclass(frozen=True, slots=True)
class Parts:
    """Parts of a run."""

    fleet: Fleet
    learning: Learning
    selector: Selector
    recorder: Recorder
    energy: EnergySettings
    on_progress: Callable[[Progress], None] | None = None


class Server(ABC):
    """World, model, clock and round closer of one run; a subclass runs the rounds."""

    def __init__(
        self,
        parts: Parts,
        stop: StopSettings,
        *,
        rule: EligibilitySettings,
        interruption: InterruptionSettings,
        cohort: int,
        wanted: int,
        probe_deadline_s: float | None,
        now_s: float,
        begins_s: float,
        is_resumed: bool,
    ) -> None:
        """Join the parts.

        Args:
            parts: parts of the run.
            stop: rules that end it.
            rule: eligibility rule.
            interruption: treatment of interrupted tasks.
            cohort: clients at work for one round, as selectors are told.
            wanted: clients that a selection asks for.
            probe_deadline_s: longest duration of a stage of probing; None: unlimited.
            now_s: virtual time from which it continues.
            begins_s: virtual time at which the clock begins, before `now_s` if tasks in flight are
                repeated.
            is_resumed: true if the selector was set up in an earlier process.

        Raises:
            ScenarioError: interrupted tasks may continue, but the fleet shares links.
        """
        if parts.fleet.links is not None and not isinstance(interruption, LoseSettings):
            raise ScenarioError(f"server.interruption.kind = {interruption.kind!r} {NOT_SHARED}")
        self._stop = stop
        self._learning = parts.learning
        self._recorder = parts.recorder
        self._selector = parts.selector
        self._energy = parts.energy
        fleet, spare_byte = parts.fleet, None
        if fleet.memory is not None:
            spare_byte = fleet.memory.spare_byte(
                parts.learning.cost,
                num_samples=fleet.num_samples,
                batch_size=parts.learning.batch_size,
            )
        self._world = World(fleet, rule, spare_byte=spare_byte)
        self._model = GlobalModel(parts.learning)
        self._closer = RoundCloser(
            world=self._world,
            model=self._model,
            selector=parts.selector,
            recorder=parts.recorder,
            learning=parts.learning,
            last_round=stop.rounds,
            on_progress=parts.on_progress,
        )
        self._clock = Clock(begins_s, clients_at_work=wanted)
        self._dispatcher = Dispatcher(
            clock=self._clock,
            world=self._world,
            learning=parts.learning,
            stop_at_s=max(stop.time_s, now_s),
            interruption=interruption,
            energy=parts.energy,
        )
        self._selection = Selection(
            parts.selector,
            clock=self._clock,
            world=self._world,
            dispatcher=self._dispatcher,
            model=self._model,
            learning=parts.learning,
            cohort=cohort,
            wanted=wanted,
            probe_deadline_s=probe_deadline_s,
            planned_rounds=stop.rounds,
            is_resumed=is_resumed,
        )

    @property
    def now_s(self) -> float:
        """Virtual time."""
        return float(self._clock.now)

    @property
    def num_rounds(self) -> int:
        """Rounds closed so far."""
        return self._closer.round

    def run(self) -> StopReason:
        """Run until a stop rule holds; return its reason.

        Raises:
            ScenarioError: the selector asks for something that this server does not support.
            SimulationError: an invariant or the contract of a plugin was broken.
        """
        reason = self._clock.run(until=self._clock.process(self._serve()))
        assert isinstance(reason, StopReason)
        return reason

    @abstractmethod
    def _serve(self) -> Generator[simpy.Event, None, StopReason]:
        """Process of the server on the clock."""

    def clients(self) -> ClientColumns:
        """Return the clients table at this moment."""
        is_charged = self._energy.idle == "charged"
        return client_columns(self._world, self.now_s, charges_enlisted=is_charged)

    def _reached(self) -> StopReason | None:
        """Return the stop rule that holds between two rounds, if any."""
        if self.now_s >= self._stop.time_s:
            return self._stop.time_is_up(num_waiting_for=0)
        return self._stop.after_round(
            round_=self._closer.round,
            accuracy=self._model.accuracy,
            energy_total_j=self._closer.energy_total_j,
        )

    def _state(self) -> State:
        """Return the state of every server, without the clients."""
        state: State = {
            "server/now_s": np.array(self.now_s),
            "server/next_task": np.array(self._dispatcher.next_task),
        }
        parts = {
            "model": self._model.state(),
            "rounds": self._closer.state(),
            "selector": state_of(self._selector, time_s=self.now_s),
            "uplink": self._learning.uplink.state(),
        }
        for name, part in parts.items():
            state |= {f"{name}/{key}": value for key, value in part.items()}
        return state

    def _restore(self, state: State) -> None:
        """Restore `_state` and the clients."""

        def part(name: str) -> State:
            prefix = f"{name}/"
            return {
                key.removeprefix(prefix): v for key, v in state.items() if key.startswith(prefix)
            }

        self._world.restore(part("clients"))
        self._model.restore(part("model"))
        self._closer.restore(part("rounds"))
        self._selector.restore(part("selector"))
        self._learning.uplink.restore(part("uplink"))
        self._dispatcher.next_task = int(state["server/next_task"])
