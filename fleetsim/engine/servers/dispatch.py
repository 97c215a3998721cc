"""Sending tasks out together and closing them together."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from functools import lru_cache

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
from fleetsim.counts import num_batches
from fleetsim.engine.event_order import Clock, Rank, priority
from fleetsim.engine.servers.rounds import check_bytes
from fleetsim.engine.servers.waiting_clients import EnergySettings, Enlisted
from fleetsim.engine.tasks.interruption import InterruptionSettings
from fleetsim.engine.tasks.task import Task
from fleetsim.engine.tasks.task_batch import Course
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
        learning_rate_at: Callable[[int], float],
        stop_at_s: float,
        interruption: InterruptionSettings,
        energy: EnergySettings,
        next_task: int = 0,
    ) -> None:
        self._clock = clock
        self._world = world
        self._trainer = trainer
        self._uplink = uplink
        self._screen = screen
        self._cost = cost
        self._batch_size = batch_size
        self._learning_rate_at = lru_cache(maxsize=1)(learning_rate_at)  # asked task by task
        self._interruption = interruption
        self._enlisted = Enlisted(world, energy)
        self.next_task = next_task
        self._stop_at_s = stop_at_s
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
        download_byte: int = 0,
        uploads_vector: bool = True,
        upload_fraction: float = 1.0,
        asks_resources: bool = False,
        weight: float | None = None,
        is_share: bool = False,
        goes_on_from: Task | None = None,
    ) -> Task:
        """A task for one client, numbered; it begins when `run` is given it.

        Args:
            client: who.
            round_: of which round.
            purpose: what for.
            work: what to compute, of a training that goes on with what is done of it.
            base: model to compute it with [P].
            version: version of the global model, -1 for a model that is not the global one.
            address: the job's random address.
            needs_model: whether to send the model; not sent again to a client that holds it.
            upload_byte: size of the answer, vector and all.
            download_byte: what the client is sent besides the model.
            uploads_vector: whether the server gets the vector that the work yields.
            upload_fraction: how much of the update it sends, of which `upload_byte` is the size.
            asks_resources: whether the client says how it stands.
            weight: what the answer counts, if the selector says so.
            is_share: whether that is a share of the next model.
            goes_on_from: the probe of this round with whose training of `base` it goes on. The job
                is the whole training, by the draws of the probe: its first epochs are the probe's.
        """
        holds_it = version >= 0 and self._world.held_version[client] == version
        model_byte = self._cost.payload_byte if needs_model and not holds_it else 0
        job = None
        if work.kind is not WorkKind.NONE:
            rate = self._learning_rate_at(round_)
            draws = address if goes_on_from is None else goes_on_from.address
            job = self._counted(Job(client, work, base, draws, learning_rate=rate))
        epochs_before = 0 if goes_on_from is None else goes_on_from.work.epochs
        if epochs_before:
            work = replace(work, epochs=work.epochs - epochs_before)
        task = Task(
            task=self.next_task,
            round=round_,
            client=client,
            purpose=purpose,
            work=work,
            job=job,
            address=address,
            version=version,
            download_bit=(download_byte + model_byte) * BIT_PER_BYTE,
            upload_bit=upload_byte * BIT_PER_BYTE,
            uploads_vector=uploads_vector,
            upload_fraction=upload_fraction,
            asks_resources=asks_resources,
            dispatched_at_s=float(self._clock.now),
            weight=weight,
            is_share=is_share,
            epochs_before=epochs_before,
            enlisted_idle_j=0.0 if self._enlisted.is_charged else None,
        )
        self.next_task += 1
        return task

    def _counted(self, job: Job) -> Job:
        """The same training in epochs, the last of which may be cut short."""
        steps = job.work.steps
        if steps is None:
            return job
        num_samples = int(self._world.fleet.num_samples[job.client])
        per_epoch = num_batches(num_samples, self._batch_size)
        work = replace(job.work, epochs=-(-steps // per_epoch), steps=None)
        return job._replace(work=work, most_steps=steps)

    def launch(self, tasks: Sequence[Task], *, deadline_s: float | None) -> Course:
        """Send tasks out now, to be given up (late) after `deadline_s`.

        The trainer is told of the jobs that will be answered, unless the server cuts them off.

        Raises:
            SimulationError: a client is in a task already, or its battery left [0, capacity].
        """
        gives_up_at_s = math.inf if deadline_s is None else self._clock.now + deadline_s
        course = Course(
            self._world,
            tasks,
            now_s=float(self._clock.now),
            cost=self._cost,
            batch_size=self._batch_size,
            interruption=self._interruption,
            cut_at_s=min(gives_up_at_s, self._stop_at_s),
        )
        if deadline_s is not None:
            course.give_up(gives_up_at_s)
        for task, delivers in zip(tasks, course.is_delivered().tolist(), strict=True):
            if task.job is not None and delivers:
                task.ticket = self._trainer.submit(task.job)
        return course

    def settle(self, course: Course) -> None:
        """The tasks of a course have ended.

        Raises:
            SimulationError: bits got lost or appeared.
        """
        course.settle()
        for task in course.tasks:
            check_bytes(task)

    def run(
        self, tasks: Sequence[Task], *, enough: int, deadline_s: float | None
    ) -> Generator[simpy.Event, None, None]:
        """Run tasks until `enough` have delivered, all have ended, the deadline, or the end.

        Whoever still works then is cut off: late at the deadline, cancelled otherwise. When this
        returns, every task has an outcome, and the trainer is at work on what `collect` will ask
        for. Who delivered waits for the server until it is sent out again or `let_go`.
        """
        if not tasks:
            return
        self._enlisted.call(tasks)
        course = self.launch(tasks, deadline_s=deadline_s)
        closes_at_s, last = course.closing(enough)
        closed = self._clock.place(closes_at_s, last)
        yield self._clock.any_of([closed, self.time_is_up])
        course.cut(
            self._clock.now, last if closed.processed else priority(Rank.STOP), Outcome.CANCELLED
        )
        self._trainer.start(
            [
                task.ticket
                for task, delivers in zip(tasks, course.is_delivered().tolist(), strict=True)
                if delivers and task.ticket is not None
            ]
        )
        self.settle(course)
        self._enlisted.answered(course, float(self._clock.now))

    def let_go(self) -> None:
        """The clients that have answered need not wait for the server any longer."""
        self._enlisted.let_go()

    def collect(self, tasks: Sequence[Task]) -> dict[int, JobResult]:
        """What delivered tasks yield, by task number; the jobs of all others are cancelled.

        Models come as the uplink lets them through; one that the server must not use makes its
        task a refused one.
        """
        delivered: dict[int, Task] = {}
        for task in tasks:
            if task.ticket is None:
                continue
            if task.outcome is Outcome.DELIVERED:
                delivered[task.ticket] = task
            else:
                self._trainer.cancel(task.ticket)
        results = self._trainer.results(list(delivered))
        by_task = {task.task: r for task, r in zip(delivered.values(), results, strict=True)}
        self._take_in(
            [task for task in delivered.values() if task.purpose is Purpose.TRAIN], by_task
        )
        return by_task

    def _take_in(self, tasks: Sequence[Task], results: dict[int, JobResult]) -> None:
        """Put the models of train tasks into their results as the server has them."""
        sent = [
            (task, task.job, vector)
            for task in tasks
            if task.job is not None and (vector := results[task.task].vector) is not None
        ]
        vectors = [
            self._uplink.receive(task.client, job.base, vector, task.address, task.upload_fraction)
            for task, job, vector in sent
        ]
        whys = self._screen([job.base for _, job, _ in sent], vectors)
        for (task, _, vector), received, why in zip(sent, vectors, whys, strict=True):
            if why is not None:
                task.refused, task.outcome = why, Outcome.REFUSED
                results[task.task] = results[task.task]._replace(vector=None)
            elif received is not vector:
                results[task.task] = results[task.task]._replace(vector=received)
