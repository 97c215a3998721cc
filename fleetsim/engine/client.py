"""One task of one client: download, compute, upload, unless somebody or something cuts it off.

```
dispatched --> download --> compute --> upload --> DELIVERED
                  |            |           |
                  +------------+-----------+--> OFFLINE   the owner takes the device away
                                           +--> BATTERY   the battery meets its cut-off
                                           +--> LINK      the channel gives up on a transfer
                                           +--> CRASHED   the process dies
                                           +--> LATE, CANCELLED   the server interrupts
```
Each phase is laid out ahead (a Timeline), and one event is placed at whatever ends it first. What
was used up to that moment is charged whatever the outcome: every joule and byte of a failed task
is on its record. Ties follow `ties`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field

import numpy as np
import simpy

from fleetsim.contracts import (
    Job,
    ModelCost,
    Outcome,
    Purpose,
    Resources,
    TaskRow,
    Trainer,
    Work,
    WorkKind,
)
from fleetsim.engine.ties import Clock, Rank
from fleetsim.engine.world import World
from fleetsim.fleet.channel import Direction
from fleetsim.fleet.compute import work_flop
from fleetsim.fleet.energy import Component
from fleetsim.fleet.timeline import Timeline
from fleetsim.units import BIT_PER_BYTE


@dataclass(slots=True)
class Task:
    """One piece of work for one client, and what has become of it so far."""

    task: int
    round: int
    client: int
    purpose: Purpose
    work: Work
    job: Job | None
    """What the trainer is asked; None if nothing is computed."""
    address: tuple[int, ...]
    """Random address of what happens in it, without the client."""
    version: int
    """Version of the global model that it works on; -1: a model of the selector's own."""
    cost: ModelCost
    batch_size: int
    download_bit: int
    upload_bit: int
    uploads_vector: bool
    asks_resources: bool
    dispatched_at_s: float
    finished_at_s: float = 0.0
    outcome: Outcome | None = None
    ticket: int | None = None
    phase_s: dict[str, float] = field(
        default_factory=lambda: {"download": 0.0, "compute": 0.0, "upload": 0.0}
    )
    energy_j: list[float] = field(default_factory=lambda: [0.0] * len(Component))
    moved_bit: dict[Direction, float] = field(
        default_factory=lambda: {Direction.DOWN: 0.0, Direction.UP: 0.0}
    )
    flop: float = 0.0
    num_samples: int = 0
    resources: Resources | None = None
    refused: str | None = None

    def row(self, device: str, *, train_loss: float | None, staleness: int) -> TaskRow:
        """The record of an ended task."""
        assert self.outcome is not None
        return TaskRow(
            task=self.task,
            round=self.round,
            client=self.client,
            device=device,
            purpose=self.purpose,
            dispatched_at_s=self.dispatched_at_s,
            download_s=self.phase_s["download"],
            compute_s=self.phase_s["compute"],
            upload_s=self.phase_s["upload"],
            finished_at_s=self.finished_at_s,
            outcome=self.outcome,
            energy_compute_j=self.energy_j[Component.COMPUTE],
            energy_receive_j=self.energy_j[Component.RECEIVE],
            energy_transmit_j=self.energy_j[Component.TRANSMIT],
            energy_tail_j=self.energy_j[Component.TAIL],
            energy_idle_j=self.energy_j[Component.IDLE],
            download_byte=int(self.moved_bit[Direction.DOWN] // BIT_PER_BYTE),
            upload_byte=int(self.moved_bit[Direction.UP] // BIT_PER_BYTE),
            train_flop=self.flop,
            num_samples=self.num_samples,
            train_loss=train_loss,
            staleness=staleness,
            refused=self.refused,
        )


Process = Generator[simpy.Event, None, None]


class ClientProcess:
    """Runs one task on the clock; `on_end(task)` is called once, when its outcome stands."""

    def __init__(
        self,
        task: Task,
        *,
        clock: Clock,
        world: World,
        trainer: Trainer,
        on_end: Callable[[Task], None],
    ) -> None:
        self.task = task
        self._clock = clock
        self._world = world
        self._trainer = trainer
        self._on_end = on_end
        self._gone_s = np.inf
        self._crash_s = np.inf

    def run(self) -> Process:
        """The SimPy process: interrupt it with an `Outcome` to cut the task off."""
        task, world = self.task, self._world
        world.begin(task.client, self._now_s, task.task)
        self._gone_s = world.gone_after_s(task.client, self._now_s)
        self._crash_s = world.fleet.crash_at_s(task.client, self._now_s, *task.address)
        outcome = yield from self._transfer(Direction.DOWN, "download", task.download_bit)
        if outcome is None:
            if task.download_bit:
                world.held_version[task.client] = task.version
            outcome = yield from self._compute()
        if outcome is None:
            if task.asks_resources:
                task.resources = world.resources(task.client, self._now_s)
            outcome = yield from self._transfer(Direction.UP, "upload", task.upload_bit)
        task.outcome = Outcome.DELIVERED if outcome is None else outcome
        task.finished_at_s = self._now_s
        world.end(task.client)
        self._on_end(task)

    @property
    def _now_s(self) -> float:
        return float(self._clock.now)

    def _transfer(
        self, direction: Direction, phase: str, bit: int
    ) -> Generator[simpy.Event, None, Outcome | None]:
        task, world = self.task, self._world
        if bit == 0:
            return None
        radio = world.fleet.radio_at(task.client, self._now_s)
        laid_out = world.fleet.transfer(task.client, direction, self._now_s, bit, radio)
        timeline = world.after_paid_tail(task.client, laid_out, radio)
        component = Component.RECEIVE if direction is Direction.DOWN else Component.TRANSMIT
        outcome = yield from self._phase(timeline, phase, component)
        task.moved_bit[direction] = timeline.progress_until(self._now_s)
        task.energy_j[Component.TAIL] += world.spend_tail(task.client, radio, self._now_s)
        return outcome

    def _compute(self) -> Generator[simpy.Event, None, Outcome | None]:
        task, fleet = self.task, self._world.fleet
        if task.work.kind is WorkKind.NONE:
            return None
        if task.job is not None:
            task.ticket = self._trainer.submit(task.job)
        held = int(fleet.num_samples[task.client])
        wanted = held if task.work.num_samples is None else task.work.num_samples
        task.num_samples = min(wanted, held)
        timeline = fleet.computation(
            task.client, self._now_s, task.cost, task.work, task.batch_size
        )
        outcome = yield from self._phase(timeline, "compute", Component.COMPUTE)
        whole = work_flop(task.cost, task.work, num_samples=held)
        done_s = timeline.progress_until(self._now_s)
        all_s = float(timeline.progress[-1])
        task.flop = whole * (done_s / all_s if all_s > 0.0 else 1.0)
        return outcome

    def _phase(
        self, timeline: Timeline, phase: str, component: Component
    ) -> Generator[simpy.Event, None, Outcome | None]:
        """Live through a phase; returns None if it ran to its end, else what cut it off."""
        task, world = self.task, self._world
        end_s, outcome = self._first_end(timeline)
        rank = Rank.DELIVERY if outcome is None else Rank.LOSS
        try:
            yield self._clock.at(end_s, rank, task.task)
        except simpy.Interrupt as interrupt:
            outcome = interrupt.cause
        spent_j, idle_j = world.spend(task.client, timeline, component, self._now_s)
        task.energy_j[component] += spent_j
        task.energy_j[Component.IDLE] += idle_j
        task.phase_s[phase] = self._now_s - timeline.start_s
        return outcome

    def _first_end(self, timeline: Timeline) -> tuple[float, Outcome | None]:
        """What ends a phase, and when; on a tie the first of: done, offline, crash, battery."""
        ends: list[tuple[float, Outcome | None]] = [
            (timeline.end_s, None if timeline.is_complete else Outcome.LINK),
            (self._gone_s, Outcome.OFFLINE),
            (self._crash_s, Outcome.CRASHED),
        ]
        end_s, outcome = min(ends, key=lambda end: end[0])
        empty_at_s = self._world.empty_at_s(self.task.client, timeline, end_s)
        return (empty_at_s, Outcome.BATTERY) if empty_at_s < end_s else (end_s, outcome)
