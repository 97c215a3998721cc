"""Buffered server: clients train at their own pace, and updates are aggregated as they come.

docs/models/server.md has the rules. FedBuff (Nguyen et al. 2022) closes a round at `buffer_size` K
answers, with aggregator fedbuff; FedAsync (Xie et al. 2019) at 1, with fedasync; the
semi-synchronous form every `window_s` seconds, with any aggregator.

A checkpoint is taken when a round is closed, while tasks run. It holds the state of their
clients before them, and a resumed run repeats these tasks up to the moment of the checkpoint. That
needs nothing but the tasks, because the world is a pure function of time.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import Annotated

import numpy as np
import simpy
from pydantic import Field, model_validator

from fleetsim.contracts import Outcome, State, StopReason
from fleetsim.engine.eligibility import EligibilitySettings
from fleetsim.engine.event_order import Rank, priority
from fleetsim.engine.servers.parts import Parts
from fleetsim.engine.servers.rounds import Span
from fleetsim.engine.servers.running_tasks import first_dispatch_s, saved_tasks, state_of_running
from fleetsim.engine.servers.server import Server
from fleetsim.engine.servers.stop import StopSettings, pause_s, too_few_clients
from fleetsim.engine.tasks.interruption import InterruptionSettings, LoseSettings
from fleetsim.engine.tasks.task import Task, TaskResult
from fleetsim.engine.tasks.task_batch import TaskBatch
from fleetsim.errors import SimulationError
from fleetsim.schema.key_conditions import PEOPLE, by_key
from fleetsim.schema.ranges import Clients, DurationS
from fleetsim.settings import Settings

Steps = Generator[simpy.Event, None, None]

_MAX_WINDOWS = 2**50
"""Largest quotient of moment and length whose error is below one window."""


class BufferedSettings(Settings):
    """Settings of the buffered server."""

    acts_if = by_key(interruption=PEOPLE)

    concurrency: Clients
    """Number of clients at work at the same time."""
    buffer_size: Clients | None = None
    """Number of answers that close a round; this or `window_s`."""
    window_s: Annotated[float, Field(ge=0.1, le=1e9)] | None = None
    """Virtual seconds after which a round is closed; this or `buffer_size`."""
    max_staleness: Annotated[int, Field(ge=0, le=100_000_000)] | None = None
    """Largest staleness of an answer; others are refused. null: unlimited."""
    deadline_s: DurationS | None = None
    """Longest time of a task after its dispatch; null: unlimited."""
    eligibility: EligibilitySettings = EligibilitySettings()
    """State that a client must be in to be selected."""
    interruption: InterruptionSettings = LoseSettings()
    """Treatment of a task that is interrupted."""

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


class BufferedServer(Server):
    """One run: at most `concurrency` clients at work, each in one task, no staleness below 0."""

    def __init__(
        self,
        settings: BufferedSettings,
        stop: StopSettings,
        parts: Parts,
        *,
        state: State | None = None,
    ) -> None:
        super().__init__(
            settings,
            stop,
            parts,
            cohort=settings.concurrency,
            most=settings.concurrency,
            state=state,
            first_dispatch_s=math.inf if state is None else first_dispatch_s(state),
        )
        self._settings = settings
        self._num_selections = 0
        self._num_eligible = 0
        self._num_refusals = 0
        """Selections of no client in a row while none was at work."""
        self._running: dict[int, TaskBatch] = {}
        """Each task that runs, as a batch of its own, by its number."""
        self._ended: list[TaskResult] = []
        """Results since the last round was closed, in the order of their ends."""
        self._num_buffered = 0
        self._wake: tuple[float, simpy.Event] | None = None
        self._closed_at_s = 0.0 if state is None else float(state["server/now_s"])
        self._last = 0
        """Priority of the event on which the server acts."""
        self._freed = self._clock.event()
        self._done = self._clock.event()
        if state is not None:
            self._replay_tasks(state)

    def _serve(self) -> Generator[simpy.Event, None, StopReason]:
        reason = self._reached() if self._closer.round else None
        if reason is None:
            self._clock.process(self._keep_busy())
            yield self._clock.any_of([self._done, self._launcher.time_is_up])
            if self._done.triggered:
                reason = self._done.value
                assert isinstance(reason, StopReason)
            else:
                self._last = priority(Rank.STOP)
                reason = self._stop.time_is_up(num_waiting_for=int(not self._running))
                self._done.succeed(reason)
        self._end_all()
        return reason

    def _end_all(self) -> None:
        for running in list(self._running.values()):
            running.cut(self.now_s, self._last, Outcome.CANCELLED)
            self._end_task(running)
        self._ended = [
            result._replace(outcome=Outcome.CANCELLED) if result.is_delivered else result
            for result in self._ended
        ]
        if self._ended:
            self._close()

    # --- dispatch ---------------------------------------------------------------------------------

    def _keep_busy(self) -> Steps:
        while not self._done.triggered:
            candidates = self._world.eligible.candidates(self.now_s)
            self._num_eligible = int(candidates.size)
            num_free = self._settings.concurrency - len(self._running)
            if num_free and candidates.size:
                self._num_selections += 1
                self._selection.refuse_probes(self._num_selections)
                requests = self._selection.select(self._num_selections, [], at_most=num_free)
                for task in self._trainings(requests, self._num_selections):
                    self._launch(task)
                self._num_refusals = 0 if self._running else self._num_refusals + 1
            self._freed = self._clock.event()
            ends = [self._freed, self._done]
            if len(self._running) < self._settings.concurrency:
                change_s = self._world.eligible.next_change_s(self.now_s)
                if not self._running:
                    change_s = max(change_s, self.now_s + pause_s(self._num_refusals))
                # Tasks end in the order of the list: the last one is the latest.
                busy_until_s = self._closed_at_s
                if self._ended:
                    busy_until_s = max(busy_until_s, self._ended[-1].finished_at_s)
                reason = None
                if not self._running:
                    reason = too_few_clients(
                        now_s=self.now_s,
                        since_s=busy_until_s,
                        change_s=change_s,
                        minimum=1,
                        num_eligible=self._num_eligible,
                    )
                if reason is not None:
                    self._end_by(reason)
                elif change_s < math.inf:
                    ends.append(self._wake_at(change_s))
            yield self._clock.any_of(ends)

    def _wake_at(self, time_s: float) -> simpy.Event:
        """Return the wake-up at a moment, the same event for the same moment."""
        if self._wake is None or self._wake[0] != time_s or self._wake[1].processed:
            self._wake = (time_s, self._clock.at(time_s, Rank.WAKE))
        return self._wake[1]

    def _launch(self, task: Task) -> None:
        if len(self._running) == self._settings.concurrency:
            raise SimulationError(
                f"more than {self._settings.concurrency} clients are at work",
                self.now_s,
                client=task.client,
                task=task.number,
            )
        running = self._dispatcher.launch(task, self._settings.deadline_s)
        self._running[task.number] = running
        ends_at_s, last = running.closing(1)
        end = self._clock.place(ends_at_s, last)
        assert end.callbacks is not None
        end.callbacks.append(lambda _: self._at_end(running, last))

    # --- ends -------------------------------------------------------------------------------------

    def _at_end(self, running: TaskBatch, priority_: int) -> None:
        if running.tasks[0].number in self._running:
            self._last = priority_
            self._end_task(running)

    def _end_task(self, running: TaskBatch) -> None:
        [result] = self._launcher.settle(running)
        del self._running[result.task.number]
        limit = self._settings.max_staleness
        if result.is_delivered and limit is not None and self._staleness(result.task) > limit:
            result = result._replace(outcome=Outcome.STALE)
        self._ended.append(result)
        self._num_buffered += result.is_delivered
        self._without_updates.end(1, num_delivered=result.is_delivered, now_s=self.now_s)
        if not self._done.triggered:
            if self._settings.window_s is not None and len(self._ended) == 1:
                self._open_window(self._settings.window_s)
            elif self._num_buffered == self._settings.buffer_size:
                self._close()
        self._end_by(self._without_updates.reason(self.now_s))
        if not self._freed.triggered:
            self._freed.succeed()

    def _open_window(self, window_s: float) -> None:
        """Close the round at the end of the window in which its first task has just ended."""
        closes = priority(Rank.DEADLINE)
        ends_s = window_end_s(self.now_s, window_s, is_after=self._last >= closes)
        end = self._clock.place(ends_s, closes)
        assert end.callbacks is not None
        end.callbacks.append(lambda _: self._end_window())

    def _end_window(self) -> None:
        if not self._done.triggered:
            self._last = priority(Rank.DEADLINE)
            self._close()

    def _close(self) -> None:
        ended, self._ended, self._num_buffered = self._ended, [], 0
        span = Span(self._closed_at_s, self.now_s, 0.0, 0.0, self._num_eligible)
        self._closed_at_s = self.now_s
        self._close_round(span, ended, minimum=1)
        self._end_by(self._reached())

    def _end_by(self, reason: StopReason | None) -> None:
        if reason is not None and not self._done.triggered:
            self._done.succeed(reason)

    # --- stop and resume --------------------------------------------------------------------------

    def _state(self) -> State:
        return (
            super()._state()
            | state_of_running(running.tasks[0] for running in self._running.values())
            | {
                "server/num_selections": np.array(self._num_selections),
                "server/num_eligible": np.array(self._num_eligible),
                "server/num_refusals": np.array(self._num_refusals),
            }
        )

    def _replay_tasks(self, state: State) -> None:
        """Repeat the tasks that were in flight, up to the moment of the checkpoint."""
        self._num_selections = int(state["server/num_selections"])
        self._num_eligible = int(state["server/num_eligible"])
        self._num_refusals = int(state["server/num_refusals"])
        for saved in saved_tasks(state):
            if saved.dispatched_at_s > self.now_s:
                self._clock.run(until=self._clock.at(saved.dispatched_at_s, Rank.WAKE))
            self._launcher.next_task = saved.number
            [task] = self._dispatcher.trainings(
                [saved.request],
                round_=saved.round,
                selection=saved.selection,
                base=saved.base,
                version=saved.version,
                cohort=1,
            )
            self._launch(task)
        if self._closed_at_s > self.now_s:
            self._clock.run(until=self._clock.at(self._closed_at_s, Rank.DELIVERY))
        self._launcher.next_task = int(state["server/next_task"])


def window_end_s(at_s: float, length_s: float, *, is_after: bool) -> float:
    """Return the first end of a window at or after a moment (>= 0), never 0.

    Window k ends at k * length, computed as this one product (k = 1, 2, ...). The window follows
    from the moment alone, so a resumed run needs no counter.

    With `is_after` an end at the moment itself does not count.

    >>> window_end_s(9 * 3.3, 3.3, is_after=True)  # although floor(9 * 3.3 / 3.3) + 1 is 9 again
    33.0
    """
    if not at_s / length_s < _MAX_WINDOWS:
        raise SimulationError(
            f"windows of {length_s:g} s cannot be told apart any more; make server.window_s longer",
            time_s=at_s,
        )
    # The quotient is rounded: begin one window early and compare the products themselves.
    number = max(1, math.floor(at_s / length_s) - 1)
    while number * length_s < at_s or (is_after and number * length_s == at_s):
        number += 1
    return number * length_s
