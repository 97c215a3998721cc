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
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import simpy
from pydantic import Field, model_validator

from fleetsim.contracts import (
    Outcome,
    State,
    StopReason,
    Work,
    WorkKind,
)
from fleetsim.engine.eligibility import EligibilitySettings
from fleetsim.engine.event_order import Rank, priority
from fleetsim.engine.servers.base import Parts, Server
from fleetsim.engine.servers.rounds import Span, report_of, task_rows
from fleetsim.engine.servers.stop import MOST_WAIT_S, StopSettings, nobody_will_come, waited_in_vain
from fleetsim.engine.servers.training_requests import Ask
from fleetsim.engine.servers.windows import window_end_s
from fleetsim.engine.tasks.interruption import InterruptionSettings, LoseSettings
from fleetsim.engine.tasks.task import Task
from fleetsim.engine.tasks.task_batch import Course
from fleetsim.errors import ScenarioError, SimulationError
from fleetsim.schema.effects import PEOPLE, by_key
from fleetsim.schema.ranges import Clients, DurationS
from fleetsim.settings import Settings

Steps = Generator[simpy.Event, None, None]

_PLAIN_ANSWER = (math.nan, 0.0, 0.0)
"""Weight of an answer, whether it is a share, whether it tells what epochs lost: by default."""


class BufferedSettings(Settings):
    """How the buffered server runs."""

    acts_if = by_key(
        interruption=PEOPLE,
    )

    concurrency: Clients
    """Clients at work at the same time."""
    buffer_size: Clients | None = None
    """Answers that close a round; this or `window_s`."""
    window_s: Annotated[float, Field(ge=0.1, le=1e9)] | None = None
    """Virtual seconds after which a round is closed; this or `buffer_size`."""
    max_staleness: Annotated[int, Field(ge=0, le=100_000_000)] | None = None
    """Answers that are more versions old are refused; null: none are."""
    deadline_s: DurationS | None = None
    """A task is given up so long after its dispatch; null: never."""
    eligibility: EligibilitySettings = EligibilitySettings()
    interruption: InterruptionSettings = LoseSettings()
    """What becomes of a task whose owner takes the device away."""

    @model_validator(mode="after")
    def _closes_rounds_one_way(self) -> BufferedSettings:
        if (self.buffer_size is None) == (self.window_s is None):
            both = self.buffer_size is not None
            raise ValueError(
                "buffer_size and window_s are both given; leave one out"
                if both
                else "nothing closes a round; give buffer_size or window_s"
            )
        return self


@dataclass(slots=True)
class _Flight:
    """A client at work."""

    task: Task
    choice: int
    """Number of the choice that sent it out."""
    course: Course


class BufferedServer(Server):
    """One run of the buffered server.

    Invariants: never more than `concurrency` clients at work; a client in one task at a time;
    staleness >= 0.
    """

    def __init__(
        self,
        settings: BufferedSettings,
        stop: StopSettings,
        parts: Parts,
        *,
        state: State | None = None,
    ) -> None:
        """Set up at virtual time 0, or where `state` (from a checkpoint) left off.

        Raises:
            ScenarioError: the fleet shares links, so that tasks in flight influence each other.
        """
        if parts.fleet.links is not None:
            raise ScenarioError(
                "fleet.shared_links: tasks of a buffered server begin at any time and are laid out"
                " one by one; leave it out, or use server.mode = 'synchronous'"
            )
        now_s = 0.0 if state is None else float(state["server/now_s"])
        super().__init__(
            parts,
            stop,
            rule=settings.eligibility,
            interruption=settings.interruption,
            cohort=settings.concurrency,
            wanted=settings.concurrency,
            probe_deadline_s=None,
            now_s=now_s,
            begins_s=now_s if state is None else float(np.min(state["flight/at_s"], initial=now_s)),
            is_resumed=state is not None,
        )
        self._settings = settings
        self._num_choices = 0
        self._num_eligible = 0
        self._flights: dict[int, _Flight] = {}
        self._ended: list[Task] = []
        """Tasks that have ended since the last round was closed, in that order."""
        self._num_buffered = 0
        """Of these, the delivered ones."""
        self._wake: tuple[float, simpy.Event] | None = None
        """The last wake-up that was placed, and when it is."""
        self._closed_at_s = now_s
        self._last = 0
        """Priority of the event that the server acts on."""
        self._freed = self._clock.event()
        self._done = self._clock.event()
        if state is not None:
            self._restore(state)
            self._live_again(state, now_s)

    def _serve(self) -> Generator[simpy.Event, None, StopReason]:
        reason = self._reached() if self._book.round else None
        if reason is None:
            self._clock.process(self._recruit())
            yield self._clock.any_of([self._done, self._dispatcher.time_is_up])
            if self._done.triggered:
                reason = self._done.value
                assert isinstance(reason, StopReason)
            else:
                self._last = priority(Rank.STOP)
                reason = self._stop.time_is_up(num_waiting_for=int(not self._flights))
                self._done.succeed(reason)
        self._end()
        return reason

    def _end(self) -> None:
        """Call everybody back, and put what no aggregation has used on record."""
        for flight in list(self._flights.values()):
            flight.course.cut(self.now_s, self._last, Outcome.CANCELLED)
            self._land(flight)
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
                self._send_out(self._choice.choose(self._num_choices, [], at_most=num_free))
            self._freed = self._clock.event()
            ends = [self._freed, self._done]
            if len(self._flights) < self._settings.concurrency:
                change_s = self._world.next_change_s(self.now_s)
                # Tasks end in the order of the list: the last one is the latest.
                busy_until_s = self._closed_at_s
                if self._ended:
                    busy_until_s = max(busy_until_s, self._ended[-1].finished_at_s)
                if not self._flights and self.now_s - busy_until_s > MOST_WAIT_S:
                    self._done.succeed(waited_in_vain(now_s=self.now_s, minimum=1, num_eligible=0))
                elif change_s < math.inf:
                    ends.append(self._wake_at(change_s))
                elif not self._flights:
                    self._done.succeed(
                        nobody_will_come(now_s=self.now_s, minimum=1, num_eligible=0)
                    )
            yield self._clock.any_of(ends)

    def _wake_at(self, time_s: float) -> simpy.Event:
        """Wake-up at a moment; one event for all who wait for the same."""
        if self._wake is None or self._wake[0] != time_s or self._wake[1].processed:
            self._wake = (time_s, self._clock.at(time_s, Rank.WAKE))
        return self._wake[1]

    def _send_out(self, asks: Sequence[Ask]) -> None:
        choice, version, round_ = self._num_choices, self._model.version, self._book.round + 1
        for ask in asks:
            task = self._train_task(
                ask,
                choice=choice,
                base=self._model.parameters,
                version=version,
                round_=round_,
            )
            self._launch(task, choice)

    def _launch(self, task: Task, choice: int) -> None:
        if len(self._flights) == self._settings.concurrency:
            raise SimulationError(
                f"more than {self._settings.concurrency} clients are at work",
                self.now_s,
                client=task.client,
                task=task.task,
            )
        course = self._dispatcher.launch([task], deadline_s=self._settings.deadline_s)
        flight = _Flight(task, choice, course)
        self._flights[task.task] = flight
        ends_at_s, last = course.closing(1)
        end = self._clock.place(ends_at_s, last)
        assert end.callbacks is not None
        end.callbacks.append(lambda _: self._reaches_end(flight, last))

    # --- taking in --------------------------------------------------------------------------------

    def _reaches_end(self, flight: _Flight, priority_: int) -> None:
        """A task is at its end, unless it was called back before."""
        if flight.task.task in self._flights:
            self._last = priority_
            self._land(flight)

    def _land(self, flight: _Flight) -> None:
        """A task has ended."""
        task = flight.task
        self._dispatcher.settle(flight.course)
        del self._flights[task.task]
        limit = self._settings.max_staleness
        if task.outcome is Outcome.DELIVERED and limit is not None and self._age(task) > limit:
            task.outcome = Outcome.STALE
        self._ended.append(task)
        self._num_buffered += task.outcome is Outcome.DELIVERED
        if not self._done.triggered:
            if self._settings.window_s is not None and len(self._ended) == 1:
                self._open_window(self._settings.window_s)
            elif self._num_buffered == self._settings.buffer_size:
                self._close()
        if not self._freed.triggered:
            self._freed.succeed()

    def _open_window(self, window_s: float) -> None:
        """Close the round at the end of the window in which its first task has just ended."""
        closes = priority(Rank.DEADLINE)
        ends_s = window_end_s(self.now_s, window_s, is_after=self._last >= closes)
        end = self._clock.place(ends_s, closes)
        assert end.callbacks is not None
        end.callbacks.append(lambda _: self._ends_window())

    def _ends_window(self) -> None:
        """A window is over, in which a task has ended."""
        if not self._done.triggered:
            self._last = priority(Rank.DEADLINE)
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
        tasks, self._ended, self._num_buffered = self._ended, [], 0
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
        self._world.count(reports)
        for task in tasks:
            task.round = self._book.round + 1
        rows = task_rows(
            tasks,
            self._world.fleet,
            train_losses=[report.loss for report in reports],
            staleness=ages,
        )
        row = self._book.close(
            Span(self._closed_at_s, self.now_s, 0.0, 0.0, self._num_eligible),
            sorted(rows, key=lambda row: row.task),
            reports=reports,
            aggregated=bool(delivered),
        )
        self._closed_at_s = self.now_s
        self._recorder.checkpoint(self._with_flights(), self._world.take_changed())
        self._book.announce(row)
        reason = self._reached()
        if reason is not None and not self._done.triggered:
            self._done.succeed(reason)

    # --- stop and resume --------------------------------------------------------------------------

    def _with_flights(self) -> State:
        """Everything that a resumed run needs, in mid-flight."""
        flights = sorted(self._flights.values(), key=lambda flight: flight.task.task)
        bases: State = {}
        for flight in flights:
            if flight.task.job is not None:
                base = flight.task.job.base.view()  # never changed: nobody needs a copy
                base.flags.writeable = False
                bases[f"flight/base/{flight.task.version}"] = base
        tasks = [flight.task for flight in flights]
        numbers = [
            (
                f.task.task,
                f.task.client,
                f.choice,
                f.task.version,
                f.task.round,
                f.task.work.epochs,
                f.task.work.steps or 0,
            )
            for f in flights
        ]
        fractions = [(task.work.clock_fraction, task.upload_fraction) for task in tasks]
        return (
            self._state()
            | bases
            | _answers(tasks)
            | {
                "server/num_choices": np.array(self._num_choices),
                "server/num_eligible": np.array(self._num_eligible),
                "flight/at_s": np.array([flight.task.dispatched_at_s for flight in flights]),
                "flight/numbers": np.array(numbers, dtype=np.int64).reshape(len(flights), 7),
                "flight/fractions": np.array(fractions, dtype=np.float64).reshape(len(flights), 2),
            }
        )

    def _live_again(self, state: State, now_s: float) -> None:
        """Live through the tasks that were in flight, up to the moment of the checkpoint."""
        self._num_choices = int(state["server/num_choices"])
        self._num_eligible = int(state["server/num_eligible"])
        plain = np.tile(_PLAIN_ANSWER, (len(state["flight/at_s"]), 1))
        for at_s, numbers, (clock, upload), (weight, is_share, tells) in zip(
            state["flight/at_s"].tolist(),
            state["flight/numbers"].tolist(),
            state["flight/fractions"].tolist(),
            state.get("flight/answers", plain).tolist(),
            strict=True,
        ):
            number, client, choice, version, round_, epochs, steps = numbers
            if at_s > self.now_s:
                self._clock.run(until=self._clock.at(at_s, Rank.WAKE))
            self._dispatcher.next_task = number
            work = Work(
                WorkKind.TRAIN,
                epochs,
                steps=steps or None,
                clock_fraction=clock,
                tells_epoch_losses=bool(tells),
            )
            own = None if math.isnan(weight) else weight
            task = self._train_task(
                Ask(client, work, upload, own, bool(is_share)),
                choice=choice,
                base=state[f"flight/base/{version}"].astype(np.float32, copy=False),
                version=version,
                round_=round_,
            )
            self._launch(task, choice)
        if now_s > self.now_s:
            self._clock.run(until=self._clock.at(now_s, Rank.DELIVERY))
        self._dispatcher.next_task = int(state["server/next_task"])


def _answers(tasks: Sequence[Task]) -> State:
    """What is particular about the answers of flights: nothing is saved where nothing is."""
    rows = [
        (
            math.nan if task.weight is None else task.weight,
            float(task.is_share),
            float(task.work.tells_epoch_losses),
        )
        for task in tasks
    ]
    answers = np.array(rows, dtype=np.float64).reshape(len(rows), len(_PLAIN_ANSWER))
    is_plain = np.isnan(answers[:, 0]) & (answers[:, 1:] == 0.0).all(axis=1)
    return {} if is_plain.all() else {"flight/answers": answers}
