"""Sending tasks out together and closing them together."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace

import simpy

from fleetsim.contracts import (
    Job,
    JobResult,
    ModelCost,
    Outcome,
    Parameters,
    Purpose,
    Screen,
    Trainer,
    Uplink,
    Work,
    WorkKind,
)
from fleetsim.engine.client import ClientProcess, Task
from fleetsim.engine.rounds import check_bytes
from fleetsim.engine.ties import Clock, Rank
from fleetsim.engine.world import World
from fleetsim.units import BIT_PER_BYTE


class Dispatcher:
    """Numbers tasks, runs them on the clock, and fetches what they yield from the trainer."""

    def __init__(
        self,
        *,
        clock: Clock,
        world: World,
        trainer: Trainer,
        uplink: Uplink,
        screen: Screen,
        cost: ModelCost,
        batch_size: int,
        stop_at_s: float,
        next_task: int = 0,
    ) -> None:
        self._clock = clock
        self._world = world
        self._trainer = trainer
        self._uplink = uplink
        self._screen = screen
        self._cost = cost
        self._batch_size = batch_size
        self.next_task = next_task
        self.time_is_up = clock.at(stop_at_s, Rank.STOP)
        """Succeeds when the run's virtual time is over."""

    def task(
        self,
        client: int,
        *,
        round_: int,
        purpose: Purpose,
        work: Work,
        base: Parameters,
        version: int,
        address: tuple[int, ...],
        needs_model: bool,
        upload_byte: int,
        uploads_vector: bool = True,
        asks_resources: bool = False,
    ) -> Task:
        """A task for one client, numbered; it begins when `run` is given it.

        Args:
            client: who.
            round_: of which round.
            purpose: what for.
            work: what to compute.
            base: model to compute it with [P].
            version: version of the global model, -1 for a model that is not the global one.
            address: the job's random address.
            needs_model: whether to send the model; not sent again to a client that holds it.
            upload_byte: size of the answer, vector and all.
            uploads_vector: whether the server gets the vector that the work yields.
            asks_resources: whether the client says how it stands.
        """
        holds_it = version >= 0 and self._world.held_version[client] == version
        job = None
        if work.kind is not WorkKind.NONE:
            job = Job(client=client, work=work, base=base, address=address)
        task = Task(
            task=self.next_task,
            round=round_,
            client=client,
            purpose=purpose,
            work=work,
            job=job,
            address=address,
            version=version,
            cost=self._cost,
            batch_size=self._batch_size,
            download_bit=(
                self._cost.payload_byte * BIT_PER_BYTE if needs_model and not holds_it else 0
            ),
            upload_bit=upload_byte * BIT_PER_BYTE,
            uploads_vector=uploads_vector,
            asks_resources=asks_resources,
            dispatched_at_s=float(self._clock.now),
        )
        self.next_task += 1
        return task

    def launch(self, task: Task, on_end: Callable[[Task], None]) -> simpy.Process:
        """Start one task on the clock; `on_end` is called once, when its outcome stands."""

        def ended(task: Task) -> None:
            check_bytes(task)
            on_end(task)

        client = ClientProcess(
            task,
            clock=self._clock,
            world=self._world,
            trainer=self._trainer,
            on_end=ended,
        )
        return self._clock.process(client.run())

    def run(
        self, tasks: Sequence[Task], *, enough: int, deadline_s: float | None
    ) -> Generator[simpy.Event, None, None]:
        """Run tasks until `enough` have delivered, all have ended, the deadline, or the end.

        Whoever still works then is interrupted: late at the deadline, cancelled otherwise. When
        this returns, every task has an outcome.
        """
        if not tasks:
            return
        closed = self._clock.event()
        working: dict[int, simpy.Process] = {}
        num_delivered = 0

        def on_end(task: Task) -> None:
            nonlocal num_delivered
            del working[task.task]
            num_delivered += task.outcome is Outcome.DELIVERED
            if not closed.triggered and (num_delivered >= enough or not working):
                closed.succeed()

        for task in tasks:
            working[task.task] = self.launch(task, on_end)
        ends = [closed, self.time_is_up]
        if deadline_s is not None:
            ends.append(self._clock.at(self._clock.now + deadline_s, Rank.DEADLINE))
        yield self._clock.any_of(ends)
        is_late = not closed.triggered and not self.time_is_up.processed
        stragglers = list(working.values())
        for straggler in stragglers:
            straggler.interrupt(Outcome.LATE if is_late else Outcome.CANCELLED)
        if stragglers:
            yield self._clock.all_of(stragglers)

    def collect(self, tasks: Sequence[Task]) -> dict[int, JobResult]:
        """What delivered tasks yield, by task number; the jobs of all others are cancelled.

        Models come as the uplink lets them through; one that the server must not use makes its
        task a refused one.
        """
        delivered: dict[int, int] = {}
        for task in tasks:
            if task.ticket is None:
                continue
            if task.outcome is Outcome.DELIVERED:
                delivered[task.task] = task.ticket
            else:
                self._trainer.cancel(task.ticket)
        results = self._trainer.results(list(delivered.values()))
        by_task = dict(zip(delivered, results, strict=True))
        for task in tasks:
            result = by_task.get(task.task)
            if result is not None and task.purpose is Purpose.TRAIN and task.job is not None:
                by_task[task.task] = self._taken_in(task, task.job, result)
        return by_task

    def _taken_in(self, task: Task, job: Job, result: JobResult) -> JobResult:
        """The result of a train task as the server has it."""
        if result.vector is None:
            return result
        vector = self._uplink.receive(task.client, job.base, result.vector, job.address)
        task.refused = self._screen(job.base, vector)
        if task.refused is not None:
            task.outcome = Outcome.REFUSED
            return replace(result, vector=None)
        return replace(result, vector=vector)
