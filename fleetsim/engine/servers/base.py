"""What every server works with, however its rounds go: the parts, joined and saved together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from dataclasses import dataclass

import numpy as np
import simpy

from fleetsim.contracts import (
    Aggregator,
    ClientColumns,
    Parameters,
    Progress,
    Purpose,
    Recorder,
    Screen,
    Selector,
    State,
    StopReason,
    Trainer,
    Uplink,
)
from fleetsim.counts import ceil_product
from fleetsim.engine.eligibility import EligibilitySettings
from fleetsim.engine.event_order import Clock
from fleetsim.engine.servers.dispatch import Dispatcher
from fleetsim.engine.servers.global_model import GlobalModel, Learning
from fleetsim.engine.servers.round_closer import Book
from fleetsim.engine.servers.rounds import client_columns
from fleetsim.engine.servers.selection import Choice, state_of
from fleetsim.engine.servers.stop import StopSettings
from fleetsim.engine.servers.training_requests import Ask
from fleetsim.engine.servers.waiting_clients import EnergySettings
from fleetsim.engine.tasks.interruption import NOT_SHARED, InterruptionSettings, LoseSettings
from fleetsim.engine.tasks.task import Task
from fleetsim.engine.world import World
from fleetsim.errors import ScenarioError
from fleetsim.fleet.population import Fleet

_TRAIN_ADDRESS = 0


@dataclass(frozen=True, slots=True)
class Parts:
    """What a run is joined from."""

    fleet: Fleet
    learning: Learning
    selector: Selector
    trainer: Trainer
    uplink: Uplink
    screen: Screen
    aggregator: Aggregator
    recorder: Recorder
    energy: EnergySettings
    on_progress: Callable[[Progress], None] | None = None


class Server(ABC):
    """World, model, clock and book of one run; a subclass says how rounds go."""

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
            parts: what the run is joined from.
            stop: when it ends.
            rule: who may take part.
            interruption: what clients do whose owners take the device away.
            cohort: clients at work for one round, as selectors are told.
            wanted: clients that a choice asks for.
            probe_deadline_s: how long a stage of probing may take; None: for ever.
            now_s: virtual time at which it goes on.
            begins_s: virtual time at which the clock begins, before `now_s` if tasks in flight are
                lived through again.
            is_resumed: whether the selector was set up in an earlier life.

        Raises:
            ScenarioError: tasks may be interrupted and go on, but the fleet shares links.
        """
        if parts.fleet.links is not None and not isinstance(interruption, LoseSettings):
            raise ScenarioError(f"server.interruption.kind = {interruption.kind!r} {NOT_SHARED}")
        self._stop = stop
        self._learning = parts.learning
        self._recorder = parts.recorder
        self._selector = parts.selector
        self._uplink = parts.uplink
        self._energy = parts.energy
        fleet, spare_byte = parts.fleet, None
        if fleet.memory is not None:
            spare_byte = fleet.memory.spare_byte(
                parts.learning.cost,
                num_samples=fleet.num_samples,
                batch_size=parts.learning.batch_size,
            )
        self._world = World(fleet, rule, spare_byte=spare_byte)
        self._model = GlobalModel(
            parts.learning.parameters, aggregator=parts.aggregator, trainer=parts.trainer
        )
        self._book = Book(
            world=self._world,
            model=self._model,
            selector=parts.selector,
            recorder=parts.recorder,
            evaluate_every_rounds=parts.learning.evaluate_every_rounds,
            last_round=stop.rounds,
            on_progress=parts.on_progress,
        )
        self._clock = Clock(begins_s, clients_at_work=wanted)
        self._dispatcher = Dispatcher(
            clock=self._clock,
            world=self._world,
            trainer=parts.trainer,
            uplink=parts.uplink,
            screen=parts.screen,
            cost=parts.learning.cost,
            batch_size=parts.learning.batch_size,
            learning_rate_at=parts.learning.learning_rate_at,
            stop_at_s=max(stop.time_s, now_s),
            interruption=interruption,
            energy=parts.energy,
        )
        self._choice = Choice(
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
        return self._book.round

    def run(self) -> StopReason:
        """Run until a stop rule holds, and say which.

        Raises:
            ScenarioError: the selector asks for something that this server cannot do.
            SimulationError: an invariant broke, or a plug-in broke its contract.
        """
        reason = self._clock.run(until=self._clock.process(self._serve()))
        assert isinstance(reason, StopReason)
        return reason

    @abstractmethod
    def _serve(self) -> Generator[simpy.Event, None, StopReason]:
        """The server's life on the clock."""

    def clients(self) -> ClientColumns:
        """The clients table as of now."""
        is_charged = self._energy.idle == "charged"
        return client_columns(self._world, self.now_s, charges_enlisted=is_charged)

    def _reached(self) -> StopReason | None:
        """The stop rule that holds between two rounds, if any."""
        if self.now_s >= self._stop.time_s:
            return self._stop.time_is_up(num_waiting_for=0)
        return self._stop.after_round(
            round_=self._book.round,
            accuracy=self._model.accuracy,
            energy_total_j=self._book.energy_total_j,
        )

    def _train_task(
        self, ask: Ask, *, choice: int, base: Parameters, version: int, round_: int
    ) -> Task:
        return self._dispatcher.task(
            ask.client,
            round_=round_,
            purpose=Purpose.TRAIN,
            work=ask.work,
            base=base,
            version=version,
            address=(_TRAIN_ADDRESS, choice),
            needs_model=True,
            upload_byte=ceil_product(ask.upload_fraction, self._learning.upload_byte),
            upload_fraction=ask.upload_fraction,
            weight=ask.weight,
            is_share=ask.is_share,
            goes_on_from=ask.goes_on_from,
        )

    def _state(self) -> State:
        """What every server saves besides its clients."""
        state: State = {
            "server/now_s": np.array(self.now_s),
            "server/next_task": np.array(self._dispatcher.next_task),
        }
        parts = {
            "model": self._model.state(),
            "book": self._book.state(),
            "selector": state_of(self._selector, time_s=self.now_s),
            "uplink": self._uplink.state(),
        }
        for name, part in parts.items():
            state |= {f"{name}/{key}": value for key, value in part.items()}
        return state

    def _restore(self, state: State) -> None:
        """Take back `_state` and the clients."""

        def part(name: str) -> State:
            prefix = f"{name}/"
            return {
                key.removeprefix(prefix): v for key, v in state.items() if key.startswith(prefix)
            }

        self._world.restore(part("clients"))
        self._model.restore(part("model"))
        self._book.restore(part("book"))
        self._selector.restore(part("selector"))
        self._uplink.restore(part("uplink"))
        self._dispatcher.next_task = int(state["server/next_task"])
