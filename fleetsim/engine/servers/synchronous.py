"""Synchronous server: rounds of probe, select, train, aggregate on one virtual clock.

docs/models/server.md has the steps of a round. Over-commitment, deadline and minimum reports are
those of Bonawitz et al., "Towards federated learning at scale: system design", MLSys 2019.
Computation of the server takes no virtual time.
"""

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Annotated

import simpy
from pydantic import Field

from fleetsim.contracts import Report, State, StopReason
from fleetsim.counts import ceil_product
from fleetsim.engine.eligibility import EligibilitySettings
from fleetsim.engine.event_order import Rank
from fleetsim.engine.servers.parts import Parts
from fleetsim.engine.servers.rounds import Span
from fleetsim.engine.servers.server import Server
from fleetsim.engine.servers.stop import StopSettings, pause_s, too_few_clients
from fleetsim.engine.tasks.interruption import InterruptionSettings, LoseSettings
from fleetsim.engine.tasks.task import TaskResult, TrainingRequest
from fleetsim.schema.key_conditions import PEOPLE, by_key
from fleetsim.schema.ranges import Clients, DurationS
from fleetsim.settings import Settings

Steps = Generator[simpy.Event, None, StopReason | None]


class SynchronousSettings(Settings):
    """Settings of the synchronous server."""

    acts_if = by_key(interruption=PEOPLE)

    cohort: Clients
    """Number of answers wanted in a round."""
    over_commit: Annotated[float, Field(ge=1.0, le=1000.0)] = 1.0
    """Clients selected per answer wanted; the slowest are cancelled."""
    deadline_s: DurationS | None = None
    """Longest time of a round (and each stage of probing) after its dispatch; null: unlimited."""
    minimum_reports: Clients = 1
    """Least number of eligible clients to begin a round, and of answers to aggregate it."""
    eligibility: EligibilitySettings = EligibilitySettings()
    """State that a client must be in to be selected."""
    interruption: InterruptionSettings = LoseSettings()
    """Treatment of a task that is interrupted."""


@dataclass(slots=True)
class _Round:
    round: int
    started_at_s: float
    probes: list[TaskResult] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)
    """Reports of the probes."""
    trained: list[TaskResult] = field(default_factory=list)
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
        super().__init__(
            settings,
            stop,
            parts,
            cohort=settings.cohort,
            most=ceil_product(settings.over_commit, settings.cohort),
            state=state,
        )
        self._settings = settings

    def _serve(self) -> Generator[simpy.Event, None, StopReason]:
        while True:
            reason = self._reached() if self._closer.round else None
            if reason is None:
                reason = yield from self._run_round()
            if reason is not None:
                return reason

    def _run_round(self) -> Steps:
        round_ = _Round(self._closer.round + 1, self.now_s)
        requests: list[TrainingRequest] = []
        num_refusals = 0
        while not requests:
            reason = yield from self._wait(round_, num_refusals)
            if reason is not None:
                if round_.probes:
                    self._finish(round_)
                return reason
            began_s, num_probes = self.now_s, len(round_.probes)
            yield from self._selection.probe(round_.round, round_.reports, round_.probes)
            self._launcher.waiting.release()
            round_.probe_s += self.now_s - began_s
            if not self._launcher.is_time_up:
                requests = self._selection.select(round_.round, round_.reports)
                if not requests:
                    num_refusals += 1
                    self._count(round_.probes[num_probes:])
        round_.reports.clear()  # of probes: their vectors take as much memory as updates
        tasks = self._trainings(requests, round_.round, cohort=len(requests))
        round_.trained = yield from self._dispatcher.run(
            tasks, enough=self._settings.cohort, deadline_s=self._settings.deadline_s
        )
        self._launcher.waiting.release()
        self._count(round_.trained)
        self._finish(round_)
        return self._stop.time_is_up(num_waiting_for=0) if self._launcher.is_time_up else None

    def _count(self, ended: list[TaskResult]) -> None:
        delivered = [result.task.request for result in ended if result.is_delivered]
        num_delivered = sum(isinstance(request, TrainingRequest) for request in delivered)
        self._without_updates.end(len(ended), num_delivered=num_delivered, now_s=self.now_s)

    def _wait(self, round_: _Round, num_refusals: int) -> Steps:
        """Wait for enough eligible clients; after refusals, at least for a change of the fleet."""
        minimum = self._settings.minimum_reports
        began_s, again_s = self.now_s, self.now_s + pause_s(num_refusals)
        after_change = num_refusals > 0
        while not self._launcher.is_time_up:
            num_eligible = int(self._world.eligible.candidates(self.now_s).size)
            if num_eligible >= minimum and not after_change:
                round_.num_eligible = num_eligible
                round_.idle_s += self.now_s - began_s
                return None
            if num_eligible < minimum:
                change_s = self._world.eligible.enough_s(minimum - num_eligible, self.now_s)
            else:
                change_s = max(self._world.eligible.next_change_s(self.now_s), again_s)
            reason = too_few_clients(
                now_s=self.now_s,
                since_s=round_.started_at_s,
                change_s=change_s,
                minimum=minimum,
                num_eligible=num_eligible,
            ) or self._without_updates.reason(self.now_s)
            if reason is not None:
                return reason
            wake = self._clock.at(change_s, Rank.WAKE)
            yield self._clock.any_of([wake, self._launcher.time_is_up])
            after_change = False
        round_.idle_s += self.now_s - began_s
        return self._stop.time_is_up(num_waiting_for=minimum)

    def _finish(self, round_: _Round) -> None:
        self._close_round(
            Span(
                round_.started_at_s, self.now_s, round_.idle_s, round_.probe_s, round_.num_eligible
            ),
            round_.trained,
            minimum=self._settings.minimum_reports,
            probes=round_.probes,
        )
