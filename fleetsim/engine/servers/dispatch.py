"""Dispatch of tasks: numbering, running them on the clock, and collecting their results."""

from collections.abc import Generator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import NamedTuple

import simpy

from fleetsim.contracts import Job, JobResult, Outcome, Parameters, ProbeRequest, Work, WorkKind
from fleetsim.counts import ceil_product
from fleetsim.engine.servers.global_model import Learning
from fleetsim.engine.servers.launcher import Launcher
from fleetsim.engine.tasks.task import Task, TaskResult, TrainingRequest
from fleetsim.engine.tasks.task_batch import TaskBatch
from fleetsim.errors import ScenarioError
from fleetsim.units import BIT_PER_BYTE

_TRAIN_ADDRESS = 0
_PROBE_ADDRESS = 1


class _Messages(NamedTuple):
    """Bytes of a task, and its exchanges of messages beside them, before and after the work."""

    download_byte: int
    upload_byte: int
    more_round_trips: tuple[int, int] = (0, 0)


class Dispatcher:
    """Dispatcher of tasks on the clock, with the trainer's jobs of those under way."""

    def __init__(self, learning: Learning, launcher: Launcher) -> None:
        self._learning, self._launcher, self._world = learning, launcher, launcher.world
        # Asked for every task, with few different arguments.
        self._learning_rate_at = lru_cache(maxsize=1)(learning.learning_rate_at)
        self._wire = learning.wire
        self._payload_byte = learning.cost.payload_byte + self._wire.download_byte
        self._upload_byte = lru_cache(partial(ceil_product, count=learning.upload_byte))
        self._tickets: dict[int, int] = {}

    def trainings(
        self,
        requests: Sequence[TrainingRequest],
        *,
        round_: int,
        selection: int,
        base: Parameters,
        version: int,
        cohort: int,
    ) -> list[Task]:
        """Return training tasks, each one of `cohort`; they begin when given to `run` or `launch`.

        The job of a training that continues a probe is the whole training, with the draws of the
        probe: its first epochs are the probe's. The round determines the learning rate, and the
        number of the selection is part of the address of its draws.
        """
        address: tuple[int, ...] = (_TRAIN_ADDRESS, selection)
        tasks = []
        for request in requests:
            before, work, draws = request.continues, request.work, address
            if before is not None:
                draws = before.address
                if before.work.epochs:
                    work = replace(work, epochs=work.epochs - before.work.epochs)
            task = self._task(
                request,
                work,
                self._job(request, base, round_=round_, draws=draws),
                self._messages(request, version=version, cohort=cohort),
                round_=round_,
                address=address,
                version=version,
            )
            tasks.append(task)
        return tasks

    def _messages(self, request: TrainingRequest, *, version: int, cohort: int) -> _Messages:
        model_byte = self._model_byte(request.client, version)
        secure = self._learning.secure_sum
        if secure is None:
            update_byte = self._upload_byte(request.upload_fraction)
            return _Messages(model_byte, update_byte + self._wire.upload_byte)
        if request.upload_fraction != 1.0:
            raise ScenarioError(
                "server.secure_aggregation masks whole updates, and the selector asks client"
                f" {request.client} for {request.upload_fraction:g} of one; choose another selector"
            )
        return _Messages(
            model_byte + secure.download_byte(cohort),
            secure.upload_byte(cohort),
            (secure.download_round_trips, secure.upload_round_trips),
        )

    def probe(
        self, request: ProbeRequest, *, round_: int, stage: int, base: Parameters, version: int
    ) -> Task:
        """Return a probe task, begun by `run`; `base` [P] is for requests without a model."""
        if request.parameters is not None:
            base, version = request.parameters, -1
        address = (_PROBE_ADDRESS, round_, stage)
        model_byte = self._model_byte(request.client, version) if request.needs_model else 0
        held = version if request.needs_model else int(self._world.held_version[request.client])
        yields_vector = request.work.kind in (WorkKind.GRADIENT, WorkKind.TRAIN)
        vector_byte = self._learning.cost.payload_byte
        messages = _Messages(
            request.download_byte + model_byte,
            request.upload_byte + (vector_byte if yields_vector and request.uploads_vector else 0),
        )
        job = self._job(request, base, round_=round_, draws=address)
        return self._task(
            request, request.work, job, messages, round_=round_, address=address, version=held
        )

    def _model_byte(self, client: int, version: int) -> int:
        """Return the bytes of the model for a client: 0 if it holds this version already."""
        holds_it = version >= 0 and self._world.held_version[client] == version
        return 0 if holds_it else self._payload_byte

    def _job(
        self,
        request: TrainingRequest | ProbeRequest,
        base: Parameters,
        *,
        round_: int,
        draws: tuple[int, ...],
    ) -> Job | None:
        if request.work.kind is WorkKind.NONE:
            return None
        job = Job(request.client, request.work, base, draws, self._learning_rate_at(round_))
        memory = self._learning.memory
        if memory is not None and request.work.kind is WorkKind.TRAIN:
            job = job._replace(
                state=memory.kept_by(request.client), received=memory.sent_with_model()
            )
        return self._counted(job)

    def _task(
        self,
        request: TrainingRequest | ProbeRequest,
        work: Work,
        job: Job | None,
        messages: _Messages,
        *,
        round_: int,
        address: tuple[int, ...],
        version: int,
    ) -> Task:
        needs_model = isinstance(request, TrainingRequest) or request.needs_model
        frozen_byte = int(self._world.frozen_left_byte[request.client]) if needs_model else 0
        return Task(
            number=self._launcher.number(),
            round=round_,
            request=request,
            work=work,
            job=job,
            address=address,
            version=version,
            download_bit=(messages.download_byte + frozen_byte) * BIT_PER_BYTE,
            upload_bit=messages.upload_byte * BIT_PER_BYTE,
            dispatched_at_s=self._launcher.now_s,
            more_round_trips=messages.more_round_trips,
            frozen_bit=frozen_byte * BIT_PER_BYTE,
        )

    def _counted(self, job: Job) -> Job:
        """Return a job of steps as one of epochs, the last of which may be cut short."""
        steps = job.work.steps
        if steps is None:
            return job
        num_samples = int(self._world.fleet.num_samples[job.client])
        per_epoch = self._learning.batching.num_batches(num_samples)
        work = replace(job.work, epochs=-(-steps // per_epoch), steps=None)
        return job._replace(work=work, most_steps=steps)

    def launch(self, task: Task, deadline_s: float | None) -> TaskBatch:
        """Dispatch a task now; it ends (late) after `deadline_s`."""
        batch = self._launcher.launch([task], deadline_s)
        self._submit(batch)
        return batch

    def _submit(self, batch: TaskBatch) -> None:
        """Give the trainer the jobs of tasks that will deliver, unless the server cuts them off."""
        for task, job in batch.jobs():
            self._tickets[task.number] = self._learning.trainer.submit(job)

    def run(
        self, tasks: Sequence[Task], *, enough: int, deadline_s: float | None
    ) -> Generator[simpy.Event, None, list[TaskResult]]:
        """Run tasks until `enough` have delivered, all have ended, the deadline, or the end.

        Clients that still work then are cut off: late at the deadline, cancelled otherwise. The
        trainer starts on the jobs that `collect` will ask for. Results are in the order of tasks.
        """
        if not tasks:
            return []
        together = self._launcher.begin(tasks, enough=enough, deadline_s=deadline_s)
        self._submit(together.batch)
        yield together.ended
        results = self._launcher.close(together)
        jobs = together.batch.jobs()
        self._learning.trainer.start([self._tickets[task.number] for task, _ in jobs])
        return results

    def collect(self, results: Sequence[TaskResult]) -> list[tuple[TaskResult, JobResult | None]]:
        """Return ended tasks with what their jobs yielded; jobs of lost tasks are cancelled."""
        trainer = self._learning.trainer
        tickets: dict[int, int] = {}
        for result in results:
            number = result.task.number
            ticket = self._tickets.pop(number, None)
            if ticket is None:
                continue
            if result.is_delivered:
                tickets[number] = ticket
            else:
                trainer.cancel(ticket)
        yielded = dict(zip(tickets, trainer.results(list(tickets.values())), strict=True))
        return self._receive([(result, yielded.get(result.task.number)) for result in results])

    def _receive(
        self, collected: list[tuple[TaskResult, JobResult | None]]
    ) -> list[tuple[TaskResult, JobResult | None]]:
        sent, vectors = [], []
        for at, (result, yielded) in enumerate(collected):
            request, job = result.task.request, result.task.job
            if not isinstance(request, TrainingRequest) or job is None or yielded is None:
                continue
            if (vector := yielded.vector) is not None:
                address, fraction = result.task.address, request.upload_fraction
                uplink = self._learning.uplink
                vectors.append(uplink.receive(request.client, job.base, vector, address, fraction))
                sent.append((at, job, yielded))
        reasons = self._learning.screen([job.base for _, job, _ in sent], vectors)
        if (memory := self._learning.memory) is not None:
            reasons = [
                memory.fault(yielded.sent) if reason is None else reason
                for (_, _, yielded), reason in zip(sent, reasons, strict=True)
            ]
        for (at, _, yielded), received, reason in zip(sent, vectors, reasons, strict=True):
            result = collected[at][0]
            if reason is not None:
                refused = result._replace(outcome=Outcome.REFUSED, refused=reason)
                collected[at] = (refused, yielded._replace(vector=None, state=None, sent=None))
            elif received is not yielded.vector:
                collected[at] = (result, yielded._replace(vector=received))
        return collected
