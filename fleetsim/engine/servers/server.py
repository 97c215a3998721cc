"""Base of both servers: parts of a run, joined and saved together."""

import math
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import simpy

from fleetsim.contracts import ClientColumns, Purpose, Report, State, StopReason, TaskRow
from fleetsim.contracts.recording import joined, part_of
from fleetsim.engine.eligibility import EligibilitySettings
from fleetsim.engine.event_order import Clock
from fleetsim.engine.servers.checked_selector import CheckedSelector
from fleetsim.engine.servers.dispatch import Dispatcher
from fleetsim.engine.servers.global_model import GlobalModel
from fleetsim.engine.servers.launcher import Launcher
from fleetsim.engine.servers.parts import Parts
from fleetsim.engine.servers.round_closer import Observed, RoundCloser
from fleetsim.engine.servers.rounds import EndedTask, Span, client_columns, report_of, task_rows
from fleetsim.engine.servers.selection import Selection, fleet_view
from fleetsim.engine.servers.stop import StopSettings, WithoutUpdates
from fleetsim.engine.tasks.interruption import InterruptionSettings
from fleetsim.engine.tasks.task import Task, TaskResult, TrainingRequest
from fleetsim.engine.world import World
from fleetsim.errors import SimulationError


class _Settings(Protocol):
    """Settings that both servers have."""

    @property
    def eligibility(self) -> EligibilitySettings: ...
    @property
    def interruption(self) -> InterruptionSettings: ...
    @property
    def deadline_s(self) -> float | None: ...


class Server(ABC):
    """World, model, clock and round closer of one run; a subclass runs the rounds."""

    def __init__(
        self,
        settings: _Settings,
        stop: StopSettings,
        parts: Parts,
        *,
        cohort: int,
        most: int,
        state: State | None,
        first_dispatch_s: float = math.inf,
    ) -> None:
        """Join the parts.

        Selectors are told of `cohort` clients at work for one round, and asked for up to `most`.
        With a `state` the run continues, but for the running tasks: they are repeated by the
        subclass, and the clock begins with the first of them.
        """
        self._stop = stop
        self._parts = parts
        fleet, learning, spare_byte = parts.fleet, parts.learning, None
        if fleet.memory is not None:
            spare_byte = fleet.memory.spare_byte(
                learning.cost, num_samples=fleet.num_samples, batching=learning.batching
            )
        now_s = 0.0 if state is None else float(state["server/now_s"])
        self._clock = Clock(min(now_s, first_dispatch_s), clients_at_work=most)
        self._world = World(
            fleet,
            settings.eligibility,
            spare_byte=spare_byte,
            frozen_byte=learning.cost.frozen_byte,
        )
        self._model = GlobalModel(learning)
        self._selector = CheckedSelector(parts.selector, parts.user_selector, self._clock)
        self._without_updates = WithoutUpdates(fleet.size)
        self._closer = RoundCloser(
            parts, self._world, self._model, self._selector, last_round=stop.rounds
        )
        self._launcher = Launcher(
            self._world,
            self._clock,
            settings.interruption,
            parts.energy,
            stop_at_s=max(stop.time_s, now_s),
            cost=learning.cost,
            batching=learning.batching,
        )
        self._dispatcher = Dispatcher(learning, self._launcher)
        view = fleet_view(
            parts, cohort=cohort, planned_rounds=stop.rounds, validation=self._model.validate()
        )
        asked = self._selector.setup(view)
        self._selection = Selection(
            parts,
            self._launcher,
            self._dispatcher,
            model=self._model,
            selector=self._selector,
            most=most,
            deadline_s=settings.deadline_s,
            setup_requests=asked if state is None else [],
        )
        if state is not None:
            self._restore(state)

    @property
    def now_s(self) -> float:
        """Virtual time."""
        return float(self._clock.now)

    @property
    def num_rounds(self) -> int:
        """Rounds closed so far."""
        return self._closer.round

    def run(self) -> StopReason:
        """Run until a stop rule holds; return its reason."""
        reason = self._clock.run(until=self._clock.process(self._serve()))
        assert isinstance(reason, StopReason)
        return reason

    @abstractmethod
    def _serve(self) -> Generator[simpy.Event, None, StopReason]:
        """Process of the server on the clock."""

    def clients(self) -> Iterator[ClientColumns]:
        """Yield the clients table at this moment, some clients at a time."""
        is_charged = self._launcher.waiting.is_charged
        return client_columns(self._world, self.now_s, charges_enlisted=is_charged)

    def _reached(self) -> StopReason | None:
        if self.now_s >= self._stop.time_s:
            return self._stop.time_is_up(num_waiting_for=0)
        reason = self._stop.after_round(
            round_=self._closer.round,
            accuracy=self._model.accuracy,
            energy_total_j=self._closer.energy_total_j,
        )
        return reason or self._without_updates.reason(self.now_s)

    def _trainings(
        self, requests: Sequence[TrainingRequest], selection: int, *, cohort: int = 1
    ) -> list[Task]:
        return self._dispatcher.trainings(
            requests,
            round_=self._closer.round + 1,
            selection=selection,
            base=self._model.parameters,
            version=self._model.version,
            cohort=cohort,
        )

    def _staleness(self, task: Task) -> int:
        staleness = self._model.version - task.version
        if staleness < 0:
            raise SimulationError(
                f"staleness {staleness} is below 0",
                self.now_s,
                client=task.client,
                task=task.number,
            )
        return staleness

    def _close_round(
        self,
        span: Span,
        ended: Sequence[TaskResult],
        *,
        minimum: int,
        probes: Sequence[TaskResult] = (),
    ) -> None:
        """Aggregate the delivered updates, if at least `minimum`, and close and save the round."""
        # Evaluation is in another call: the updates of a large model take much memory.
        rows, observed = self._aggregate(span, ended, minimum=minimum, probes=probes)
        row = self._closer.close(span, rows, observed)
        self._parts.recorder.checkpoint(self._state(), self._world.take_changed())
        self._closer.announce(row, self._model.accuracy)

    def _aggregate(
        self,
        span: Span,
        ended: Sequence[TaskResult],
        *,
        minimum: int,
        probes: Sequence[TaskResult],
    ) -> tuple[list[TaskRow], Observed]:
        """Aggregate the delivered updates, and show them to the selector; return all rows."""
        collected = self._dispatcher.collect(ended)
        staleness = [self._staleness(result.task) for result, _ in collected]
        reports = [
            report_of(result, yielded, staleness=versions)
            for (result, yielded), versions in zip(collected, staleness, strict=True)
        ]
        delivered = [report for report in reports if report.is_delivered]
        is_enough = len(delivered) >= minimum and self._is_unmasked(reports)
        if is_enough:
            results = [
                yielded
                for (_, yielded), report in zip(collected, reports, strict=True)
                if report.is_delivered and yielded is not None
            ]
            try:
                self._model.aggregate(delivered, results)
            except ValueError as fault:
                raise SimulationError(str(fault), self.now_s) from fault
        self._without_updates.close(aggregated=is_enough)
        self._world.count(reports)
        take_joules = self._launcher.waiting.take_joules
        ended_tasks = [EndedTask(each, Purpose.PROBE, take_joules(each)) for each in probes]
        ended_tasks += [
            EndedTask(
                result, Purpose.TRAIN, take_joules(result), report.loss, stale, report.metrics
            )
            for (result, _), report, stale in zip(collected, reports, staleness, strict=True)
        ]
        rows = task_rows(
            ended_tasks,
            self._world.fleet,
            round_=self._closer.round + 1,
            has_frozen=self._world.frozen_byte > 0,
        )
        observed = self._closer.show(span, reports, aggregated=is_enough)
        return sorted(rows, key=lambda row: row.task), observed

    def _is_unmasked(self, reports: Sequence[Report]) -> bool:
        secure = self._parts.learning.secure_sum
        if secure is None:
            return True
        return secure.is_unmasked(
            [report.client for report in reports],
            [report.client for report in reports if report.is_delivered],
            self._closer.round + 1,
        )

    def _saved(self) -> dict[str, Any]:
        """Return the parts whose states a checkpoint holds, by name."""
        learning = self._parts.learning
        parts = {
            "model": self._model,
            "rounds": self._closer,
            "without-updates": self._without_updates,
            "selector": self._selector,
            "uplink": learning.uplink,
            "accountant": learning.accountant,
            "own-training": learning.memory,
        }
        return {name: part for name, part in parts.items() if part is not None}

    def _state(self) -> State:
        state = {"now_s": np.array(self.now_s), "next_task": np.array(self._launcher.next_task)}
        states = {name: part.state() for name, part in self._saved().items()}
        return joined({"server": state} | states)

    def _restore(self, state: State) -> None:
        self._world.restore(part_of(state, "clients"))
        for name, part in self._saved().items():
            part.restore(part_of(state, name))
        self._launcher.next_task = int(state["server/next_task"])
