"""The synchronous server: rounds of probe, choose, train, aggregate on one virtual clock.

A round:

1. wait until at least `minimum_reports` clients are eligible and idle;
2. let the selector probe (each probe is a task: seconds, bytes, joules), then choose;
3. dispatch the model; close the round at the earliest of: `cohort` answers, everybody has ended,
   the deadline, the end of the run; whoever still works is interrupted (late at the deadline,
   cancelled otherwise);
4. with at least `minimum_reports` answers aggregate them, else the model stays as it was;
5. evaluate (outside virtual time), record, let the selector observe.

Over-commitment, deadline and minimum reports are those of Bonawitz et al., "Towards federated
learning at scale: system design", MLSys 2019. What the server itself computes takes no virtual
time.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Annotated

import simpy
from pydantic import Field

from fleetsim.contracts import (
    Report,
    State,
    StopReason,
)
from fleetsim.counts import ceil_product
from fleetsim.engine.eligibility import EligibilitySettings
from fleetsim.engine.event_order import Rank
from fleetsim.engine.servers.base import Parts, Server
from fleetsim.engine.servers.rounds import Span, report_of, task_rows
from fleetsim.engine.servers.stop import MOST_WAIT_S, StopSettings, nobody_will_come, waited_in_vain
from fleetsim.engine.servers.training_requests import Ask
from fleetsim.engine.tasks.interruption import InterruptionSettings, LoseSettings
from fleetsim.engine.tasks.task import Task
from fleetsim.errors import SimulationError
from fleetsim.schema.effects import PEOPLE, by_key
from fleetsim.schema.ranges import Clients, DurationS
from fleetsim.settings import Settings

Steps = Generator[simpy.Event, None, StopReason | None]


class SynchronousSettings(Settings):
    """How the synchronous server runs its rounds."""

    acts_if = by_key(
        interruption=PEOPLE,
    )

    cohort: Clients
    """Answers wanted in a round."""
    over_commit: Annotated[float, Field(ge=1.0, le=1000.0)] = 1.0
    """Clients chosen per answer wanted; the slowest are cancelled."""
    deadline_s: DurationS | None = None
    """A round (and each stage of probing) is closed so long after its dispatch; null: never."""
    minimum_reports: Clients = 1
    """A round begins with at least so many eligible clients and counts with so many answers."""
    eligibility: EligibilitySettings = EligibilitySettings()
    interruption: InterruptionSettings = LoseSettings()
    """What becomes of a task whose owner takes the device away."""


@dataclass(slots=True)
class _Round:
    """A round in the making."""

    round: int
    started_at_s: float
    probes: list[Task] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)
    """What the probes brought back."""
    tasks: list[Task] = field(default_factory=list)
    """Train tasks in the order of the choice."""
    probe_s: float = 0.0
    idle_s: float = 0.0
    num_eligible: int = 0


class SynchronousServer(Server):
    """One run of the synchronous server."""

    def __init__(
        self,
        settings: SynchronousSettings,
        stop: StopSettings,
        parts: Parts,
        *,
        state: State | None = None,
    ) -> None:
        """Set up at virtual time 0, or where `state` (from a checkpoint) left off."""
        now_s = 0.0 if state is None else float(state["server/now_s"])
        super().__init__(
            parts,
            stop,
            rule=settings.eligibility,
            interruption=settings.interruption,
            cohort=settings.cohort,
            wanted=ceil_product(settings.over_commit, settings.cohort),
            probe_deadline_s=settings.deadline_s,
            now_s=now_s,
            begins_s=now_s,
            is_resumed=state is not None,
        )
        self._settings = settings
        if state is not None:
            self._restore(state)

    def _serve(self) -> Generator[simpy.Event, None, StopReason]:
        while True:
            reason = self._reached() if self._book.round else None
            if reason is None:
                reason = yield from self._run_round()
            if reason is not None:
                return reason

    def _run_round(self) -> Steps:
        round_ = _Round(self._book.round + 1, self.now_s)
        asks: list[Ask] = []
        is_refused = False
        while not asks:
            reason = yield from self._wait(round_, after_change=is_refused)
            if reason is not None:
                if round_.probes:
                    self._finish(round_)
                return reason
            began_s = self.now_s
            yield from self._choice.probe(round_.round, round_.reports, round_.probes)
            self._dispatcher.let_go()
            round_.probe_s += self.now_s - began_s
            if not self._is_time_up:
                asks = self._choice.choose(round_.round, round_.reports)
            is_refused = True
        round_.tasks = [
            self._train_task(
                ask,
                choice=round_.round,
                base=self._model.parameters,
                version=self._model.version,
                round_=round_.round,
            )
            for ask in asks
        ]
        yield from self._dispatcher.run(
            round_.tasks, enough=self._settings.cohort, deadline_s=self._settings.deadline_s
        )
        self._dispatcher.let_go()
        self._finish(round_)
        return self._stop.time_is_up(num_waiting_for=0) if self._is_time_up else None

    def _wait(self, round_: _Round, *, after_change: bool) -> Steps:
        """Wait on the clock for enough eligible clients, after the next change if need be."""
        minimum = self._settings.minimum_reports
        began_s = self.now_s
        while not self._is_time_up:
            num_eligible = int(self._world.candidates(self.now_s).size)
            if num_eligible >= minimum and not after_change:
                round_.num_eligible = num_eligible
                round_.idle_s += self.now_s - began_s
                return None
            if self.now_s - round_.started_at_s > MOST_WAIT_S:
                return waited_in_vain(now_s=self.now_s, minimum=minimum, num_eligible=num_eligible)
            change_s = self._world.next_change_s(self.now_s)
            if change_s == math.inf:
                return nobody_will_come(
                    now_s=self.now_s, minimum=minimum, num_eligible=num_eligible
                )
            wake = self._clock.at(change_s, Rank.WAKE)
            yield self._clock.any_of([wake, self._dispatcher.time_is_up])
            after_change = False
        round_.idle_s += self.now_s - began_s
        return self._stop.time_is_up(num_waiting_for=minimum)

    def _finish(self, round_: _Round) -> None:
        """Aggregate what came back and close the round."""
        results = self._dispatcher.collect(round_.tasks)
        reports = [report_of(task, results.get(task.task)) for task in round_.tasks]
        aggregated = self._aggregate(reports)
        self._world.count(reports)
        rows = task_rows(
            [*round_.probes, *round_.tasks],
            self._world.fleet,
            train_losses=[*(None for _ in round_.probes), *(report.loss for report in reports)],
            staleness=[0] * (len(round_.probes) + len(round_.tasks)),
        )
        row = self._book.close(
            Span(
                round_.started_at_s,
                self.now_s,
                round_.idle_s,
                round_.probe_s,
                round_.num_eligible,
            ),
            rows,
            reports=reports,
            aggregated=aggregated,
        )
        self._recorder.checkpoint(self._state(), self._world.take_changed())
        self._book.announce(row)

    def _aggregate(self, reports: list[Report]) -> bool:
        """Aggregate what was delivered; says whether there was enough of it."""
        delivered = [report for report in reports if report.is_delivered]
        if len(delivered) < self._settings.minimum_reports:
            return False
        try:
            self._model.aggregate(delivered)
        except ValueError as fault:
            raise SimulationError(str(fault), time_s=self.now_s) from fault
        return True

    @property
    def _is_time_up(self) -> bool:
        return bool(self._dispatcher.time_is_up.processed)
