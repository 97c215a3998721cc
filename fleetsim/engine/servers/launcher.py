"""Launch of tasks on the clock, alone or together, up to their deadline or the end of the run."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import simpy

from fleetsim.contracts import ModelCost, Outcome
from fleetsim.counts import Batching
from fleetsim.engine.event_order import Clock, Rank, priority
from fleetsim.engine.servers.waiting_clients import EnergySettings, WaitingClients
from fleetsim.engine.tasks.interruption import InterruptionSettings
from fleetsim.engine.tasks.task import Task, TaskResult
from fleetsim.engine.tasks.task_batch import TaskBatch
from fleetsim.engine.world import World
from fleetsim.errors import SimulationError


class Together(NamedTuple):
    """Tasks that are closed together."""

    batch: TaskBatch
    last: int
    closed: simpy.Event
    ended: simpy.Event
    """Event at which they are closed, or the time of the run is up."""


class Launcher:
    """Launcher of the tasks of one run."""

    def __init__(
        self,
        world: World,
        clock: Clock,
        interruption: InterruptionSettings,
        energy: EnergySettings,
        *,
        stop_at_s: float,
        cost: ModelCost,
        batching: Batching | None = None,
    ) -> None:
        """Begin with task 0; no task lasts beyond `stop_at_s`."""
        self.world, self.clock = world, clock
        self.waiting = WaitingClients(world, energy)
        self.next_task = 0
        self.time_is_up = clock.at(stop_at_s, Rank.STOP)
        self._stop_at_s = stop_at_s
        self._cost, self._batching = cost, batching or Batching(1)
        self._interruption = interruption

    @property
    def now_s(self) -> float:
        """Virtual time."""
        return float(self.clock.now)

    @property
    def is_time_up(self) -> bool:
        """True at the end of the run's virtual time."""
        return bool(self.time_is_up.processed)

    def number(self) -> int:
        """Return the number of another task."""
        self.next_task += 1
        return self.next_task - 1

    def launch(self, tasks: Sequence[Task], deadline_s: float | None) -> TaskBatch:
        """Dispatch tasks now; they end (late) after `deadline_s`."""
        deadline_at_s = math.inf if deadline_s is None else self.now_s + deadline_s
        batch = TaskBatch(
            self.world,
            tasks,
            now_s=self.now_s,
            cost=self._cost,
            batching=self._batching,
            interruption=self._interruption,
            deadline_at_s=min(deadline_at_s, self._stop_at_s),
        )
        if deadline_s is not None:
            batch.give_up(deadline_at_s)
        return batch

    def begin(self, tasks: Sequence[Task], *, enough: int, deadline_s: float | None) -> Together:
        """Dispatch tasks that are closed when `enough` have delivered, or all have ended."""
        self.waiting.dispatch(tasks)
        batch = self.launch(tasks, deadline_s)
        closes_at_s, last = batch.closing(enough)
        closed = self.clock.place(closes_at_s, last)
        return Together(batch, last, closed, self.clock.any_of([closed, self.time_is_up]))

    def close(self, together: Together) -> list[TaskResult]:
        """Cut off the tasks that still run, and return all results, in the order of the tasks."""
        batch, last = together.batch, together.last
        after = last if together.closed.processed else priority(Rank.STOP)
        batch.cut(self.now_s, after, Outcome.CANCELLED)
        results = self.settle(batch)
        self.waiting.add(batch, self.now_s)
        return results

    def settle(self, batch: TaskBatch) -> list[TaskResult]:
        """Charge the ended tasks of a batch to the world and return their results."""
        results = batch.settle()
        for result in results:
            _check_bits(result)
        return results


def _check_bits(result: TaskResult) -> None:
    if result.outcome is not Outcome.DELIVERED:
        return
    task = result.task
    moved = (result.downloaded_bit, result.uploaded_bit)
    again_down, again_up = result.repeated_bit
    due = (task.download_bit + again_down, task.upload_bit + again_up)
    if moved != due:
        raise SimulationError(
            f"moved {moved} bit down and up instead of {due}",
            time_s=result.finished_at_s,
            client=task.client,
            task=task.number,
        )
