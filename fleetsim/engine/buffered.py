"""The buffered server: clients train at their own pace, updates are aggregated as they come.

Up to `concurrency` clients are at work. Whenever one of them ends, another is chosen and sent the
global model of that moment. Answers gather in a buffer; a round is closed, and its answers are
aggregated, when the buffer holds `buffer_size` of them, or every `window_s` seconds:

* FedBuff (Nguyen et al. 2022): `buffer_size` K, aggregator fedbuff;
* FedAsync (Xie et al. 2019): `buffer_size` 1, aggregator fedasync;
* semi-synchronous: `window_s`, any aggregator.

Slow clients therefore deliver updates of older models; how many versions old is an update's
staleness. Answers more than `max_staleness` versions old are refused.

A checkpoint is taken when a round is closed, in mid-flight: of a client in a task it holds how the
client stood before it, and a resumed run lives through such tasks again up to the moment of the
checkpoint. That needs nothing but the tasks, because the world is a pure function of time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import simpy
from pydantic import Field, model_validator

from fleetsim.contracts import (
    Aggregator,
    ClientColumns,
    FloatArray,
    Outcome,
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
    Work,
    WorkKind,
)
from fleetsim.engine.book import Book
from fleetsim.engine.choice import Choice
from fleetsim.engine.client import Task
from fleetsim.engine.dispatch import Dispatcher
from fleetsim.engine.model import GlobalModel, Learning
from fleetsim.engine.rounds import Span, client_columns, report_of
from fleetsim.engine.stop import StopSettings, nobody_will_come
from fleetsim.engine.ties import Clock, Rank
from fleetsim.engine.world import NUM_STANDING, EligibilitySettings, World
from fleetsim.errors import SimulationError
from fleetsim.fleet.population import Fleet
from fleetsim.settings import Settings

_TRAIN_ADDRESS = 0

Steps = Generator[simpy.Event, None, None]


class BufferedSettings(Settings):
    """How the buffered server runs."""

    concurrency: Annotated[int, Field(ge=1)]
    """Clients at work at the same time."""
    buffer_size: Annotated[int, Field(ge=1)] | None = None
    """Answers that close a round; this or `window_s`."""
    window_s: Annotated[float, Field(gt=0.0)] | None = None
    """Virtual seconds after which a round is closed; this or `buffer_size`."""
    max_staleness: Annotated[int, Field(ge=0)] | None = None
    """Answers that are more versions old are refused; null: none are."""
    deadline_s: Annotated[float, Field(gt=0.0)] | None = None
    """A task is given up so long after its dispatch; null: never."""
    eligibility: EligibilitySettings = EligibilitySettings()

    @model_validator(mode="after")
    def _closes_rounds_one_way(self) -> BufferedSettings:
        if (self.buffer_size is None) == (self.window_s is None):
            raise ValueError("give either buffer_size or window_s: what closes a round")
        return self


@dataclass(slots=True)
class _Flight:
    """A client at work."""

    task: Task
    choice: int
    """Number of the choice that sent it out."""
    before: FloatArray
    """How the client stood before."""
    process: simpy.Process | None = None


class BufferedServer:
    """One run of the buffered server.

    Invariants: never more than `concurrency` clients at work; a client in one task at a time;
    staleness >= 0.
    """

    def __init__(
        self,
        settings: BufferedSettings,
        stop: StopSettings,
        *,
        fleet: Fleet,
        learning: Learning,
        selector: Selector,
        trainer: Trainer,
        uplink: Uplink,
        screen: Screen,
        aggregator: Aggregator,
        recorder: Recorder,
        on_progress: Callable[[Progress], None] | None = None,
        state: State | None = None,
    ) -> None:
        """Set up at virtual time 0, or where `state` (from a checkpoint) left off."""
        self._settings = settings
        self._stop = stop
        self._learning = learning
        self._selector = selector
        self._recorder = recorder
        self._uplink = uplink
        self._world = World(fleet, settings.eligibility)
        self._model = GlobalModel(learning.parameters, aggregator=aggregator, trainer=trainer)
        self._book = Book(
            world=self._world,
            model=self._model,
            selector=selector,
            recorder=recorder,
            evaluate_every_rounds=learning.evaluate_every_rounds,
            last_round=stop.rounds,
            on_progress=on_progress,
        )
        self._num_choices = 0
        self._num_eligible = 0
        self._flights: dict[int, _Flight] = {}
        self._ended: list[Task] = []
        """Tasks that have ended since the last round was closed, in that order."""
        now_s = 0.0 if state is None else float(state["server/now_s"])
        self._closed_at_s = now_s
        begins_s = now_s if state is None else float(np.min(state["flight/at_s"], initial=now_s))
        self._clock = Clock(begins_s)
        self._dispatcher = Dispatcher(
            clock=self._clock,
            world=self._world,
            trainer=trainer,
            uplink=uplink,
            screen=screen,
            cost=learning.cost,
            batch_size=learning.batch_size,
            stop_at_s=max(stop.time_s, now_s),
        )
        self._freed = self._clock.event()
        self._done = self._clock.event()
        self._choice = Choice(
            selector,
            clock=self._clock,
            world=self._world,
            dispatcher=self._dispatcher,
            model=self._model,
            learning=learning,
            cohort=settings.concurrency,
            wanted=settings.concurrency,
            probe_deadline_s=None,
            planned_rounds=stop.rounds,
            is_resumed=state is not None,
        )
        if state is not None:
            self._restore(state, now_s)

    @property
    def now_s(self) -> float:
        """Virtual time."""
        return float(self._clock.now)

    @property
    def num_rounds(self) -> int:
        """Rounds closed so far."""
        return self._book.round

    def clients(self) -> ClientColumns:
        """The clients table as of now."""
        return client_columns(self._world, self.now_s)

    def run(self) -> StopReason:
        """Run until a stop rule holds, and say which.

        Raises:
            ScenarioError: the selector wants to probe.
            SimulationError: an invariant broke, or a plug-in broke its contract.
        """
        reason = self._clock.run(until=self._clock.process(self._serve()))
        assert isinstance(reason, StopReason)
        return reason

    def _serve(self) -> Generator[simpy.Event, None, StopReason]:
        reason = self._reached() if self._book.round else None
        if reason is None:
            self._clock.process(self._recruit())
            if self._settings.window_s is not None:
                self._clock.process(self._close_windows(self._settings.window_s))
            yield self._clock.any_of([self._done, self._dispatcher.time_is_up])
            if self._done.triggered:
                reason = self._done.value
                assert isinstance(reason, StopReason)
            else:
                reason = self._stop.time_is_up(num_waiting_for=int(not self._flights))
                self._done.succeed(reason)
        yield from self._end()
        return reason

    def _end(self) -> Steps:
        """Call everybody back, and put what no aggregation has used on record."""
        flights = [flight.process for flight in self._flights.values() if flight.process]
        for process in flights:
            process.interrupt(Outcome.CANCELLED)
        if flights:
            yield self._clock.all_of(flights)
        for task in self._ended:
            if task.outcome is Outcome.DELIVERED:
                task.outcome = Outcome.CANCELLED
        if self._ended:
            self._close()

    # --- sending out ------------------------------------------------------------------------------

    def _recruit(self) -> Steps:
        """Keep `concurrency` clients at work, as far as there are any."""
        while not self._done.triggered:
            candidates = self._world.candidates(self.now_s)
            self._num_eligible = int(candidates.size)
            num_free = self._settings.concurrency - len(self._flights)
            if num_free and candidates.size:
                self._num_choices += 1
                self._choice.refuse_probes(self._num_choices)
                chosen = self._choice.choose(self._num_choices, [], at_most=num_free)
                for client in chosen.tolist():
                    self._send_out(client)
            self._freed = self._clock.event()
            ends = [self._freed, self._done]
            if len(self._flights) < self._settings.concurrency:
                change_s = self._world.next_change_s(self.now_s)
                if change_s < math.inf:
                    ends.append(self._clock.at(change_s, Rank.WAKE))
                elif not self._flights:
                    self._done.succeed(
                        nobody_will_come(now_s=self.now_s, minimum=1, num_eligible=0)
                    )
            yield self._clock.any_of(ends)

    def _send_out(self, client: int) -> None:
        task = self._task(client, self._num_choices, self._model.parameters, self._model.version)
        self._launch(_Flight(task, self._num_choices, self._world.standing(client)))

    def _task(self, client: int, choice: int, base: Parameters, version: int) -> Task:
        return self._dispatcher.task(
            client,
            round_=self._book.round + 1,
            purpose=Purpose.TRAIN,
            work=Work(WorkKind.TRAIN, epochs=self._learning.epochs),
            base=base,
            version=version,
            address=(_TRAIN_ADDRESS, choice),
            needs_model=True,
            upload_byte=self._learning.upload_byte,
        )

    def _launch(self, flight: _Flight) -> None:
        task = flight.task
        self._flights[task.task] = flight
        if len(self._flights) > self._settings.concurrency:
            raise SimulationError(
                f"more than {self._settings.concurrency} clients are at work",
                self.now_s,
                client=task.client,
                task=task.task,
            )
        flight.process = self._dispatcher.launch(task, self._task_ended)
        if self._settings.deadline_s is not None:
            self._clock.process(self._give_up(flight, self._settings.deadline_s))

    def _give_up(self, flight: _Flight, deadline_s: float) -> Steps:
        task = flight.task
        yield self._clock.at(task.dispatched_at_s + deadline_s, Rank.DEADLINE, task.task)
        if task.task in self._flights and flight.process is not None:
            flight.process.interrupt(Outcome.LATE)

    # --- taking in --------------------------------------------------------------------------------

    def _task_ended(self, task: Task) -> None:
        del self._flights[task.task]
        limit = self._settings.max_staleness
        if task.outcome is Outcome.DELIVERED and limit is not None and self._age(task) > limit:
            task.outcome = Outcome.STALE
        self._ended.append(task)
        if not self._done.triggered:
            num_buffered = sum(task.outcome is Outcome.DELIVERED for task in self._ended)
            if num_buffered == self._settings.buffer_size:
                self._close()
        if not self._freed.triggered:
            self._freed.succeed()

    def _close_windows(self, window_s: float) -> Steps:
        while not self._done.triggered:
            number = math.floor(self.now_s / window_s) + 1
            yield self._clock.at(number * window_s, Rank.DEADLINE)
            if self._ended and not self._done.triggered:
                self._close()

    def _age(self, task: Task) -> int:
        age = self._model.version - task.version
        if age < 0:
            raise SimulationError(
                f"staleness {age} is below 0", self.now_s, client=task.client, task=task.task
            )
        return age

    def _close(self) -> None:
        """Close the round: aggregate what is in the buffer."""
        tasks, self._ended = self._ended, []
        results = self._dispatcher.collect(tasks)
        ages = [self._age(task) for task in tasks]
        reports = [
            report_of(task, results.get(task.task), staleness=age)
            for task, age in zip(tasks, ages, strict=True)
        ]
        delivered = [report for report in reports if report.is_delivered]
        if delivered:
            try:
                self._model.aggregate(delivered)
            except ValueError as fault:
                raise SimulationError(str(fault), self.now_s) from fault
        rows = []
        for task, report, age in zip(tasks, reports, ages, strict=True):
            self._world.num_selected[task.client] += 1
            self._world.num_delivered[task.client] += report.is_delivered
            task.round = self._book.round + 1
            device = self._world.fleet.profile(task.client).name
            rows.append(task.row(device, train_loss=report.loss, staleness=age))
        row = self._book.close(
            Span(self._closed_at_s, self.now_s, 0.0, 0.0, self._num_eligible),
            sorted(rows, key=lambda row: row.task),
            reports=reports,
            aggregated=bool(delivered),
            in_flight_j=math.fsum(
                joules for flight in self._flights.values() for joules in flight.task.energy_j
            ),
        )
        self._closed_at_s = self.now_s
        self._recorder.checkpoint(self._state())
        self._book.announce(row)
        reason = self._reached()
        if reason is not None and not self._done.triggered:
            self._done.succeed(reason)

    def _reached(self) -> StopReason | None:
        if self.now_s >= self._stop.time_s:
            return self._stop.time_is_up(num_waiting_for=0)
        return self._stop.after_round(
            round_=self._book.round,
            accuracy=self._model.accuracy,
            energy_total_j=self._book.energy_total_j,
        )

    # --- stop and resume --------------------------------------------------------------------------

    def _state(self) -> State:
        flights = sorted(self._flights.values(), key=lambda flight: flight.task.task)
        before = {flight.task.client: flight.before for flight in flights}
        versions = sorted({flight.task.version for flight in flights})
        bases = {flight.task.version: flight.task.job.base for flight in flights if flight.task.job}
        state: State = {
            "server/now_s": np.array(self.now_s),
            "server/next_task": np.array(self._dispatcher.next_task),
            "server/num_choices": np.array(self._num_choices),
            "server/num_eligible": np.array(self._num_eligible),
            "flight/at_s": np.array([flight.task.dispatched_at_s for flight in flights]),
            "flight/numbers": np.array(
                [
                    (flight.task.task, flight.task.client, flight.choice, flight.task.version)
                    for flight in flights
                ],
                dtype=np.int64,
            ).reshape(len(flights), 4),
            "flight/before": np.array([flight.before for flight in flights]).reshape(
                len(flights), NUM_STANDING
            ),
            "flight/versions": np.array(versions, dtype=np.int64),
            "flight/bases": np.array([bases[version] for version in versions], dtype=np.float32),
        }
        parts = {
            "world": self._world.state(before),
            "model": self._model.state(),
            "book": self._book.state(),
            "selector": self._selector.state(),
            "uplink": self._uplink.state(),
        }
        for name, part in parts.items():
            state |= {f"{name}/{key}": value for key, value in part.items()}
        return state

    def _restore(self, state: State, now_s: float) -> None:
        """Take back `_state`, and live through the tasks in flight up to its moment."""
        for name, part in (
            ("world", self._world),
            ("model", self._model),
            ("book", self._book),
            ("selector", self._selector),
            ("uplink", self._uplink),
        ):
            prefix = f"{name}/"
            part.restore(
                {key.removeprefix(prefix): v for key, v in state.items() if key.startswith(prefix)}
            )
        self._num_choices = int(state["server/num_choices"])
        self._num_eligible = int(state["server/num_eligible"])
        bases = dict(zip(state["flight/versions"].tolist(), state["flight/bases"], strict=True))
        for at_s, numbers, before in zip(
            state["flight/at_s"].tolist(),
            state["flight/numbers"].tolist(),
            state["flight/before"],
            strict=True,
        ):
            number, client, choice, version = numbers
            if at_s > self.now_s:
                self._clock.run(until=self._clock.at(at_s, Rank.WAKE))
            self._dispatcher.next_task = number
            task = self._task(client, choice, bases[version], version)
            self._launch(_Flight(task, choice, before))
        if now_s > self.now_s:
            self._clock.run(until=self._clock.at(now_s, Rank.DELIVERY))
        self._dispatcher.next_task = int(state["server/next_task"])
        self._closed_at_s = now_s
