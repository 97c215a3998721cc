"""Trainers: computation of the clients' jobs on the host.

A job is a pure function of its arguments, so a trainer may compute it at any moment between
`submit` and `results`, and need not if it is cancelled. A `Kernel` computes jobs in one process, a
`Pool` assigns them to processes.
"""

import multiprocessing
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fleetsim.contracts import Evaluation, IntArray, Job, JobResult, Parameters, WorkKind
from fleetsim.errors import ScenarioError
from fleetsim.kernels.base import Kernel, ServerSet
from fleetsim.training.results_store import ResultsStore
from fleetsim.training.worker_pool import Pool, in_order, usable_cores


class PendingJobs(ABC):
    """Base class of trainers, which keeps pending jobs, and counts those computed and cancelled.

    A ticket that is unknown, used or cancelled is a ValueError.
    """

    def __init__(self) -> None:
        self._jobs: dict[int, Job] = {}
        self._next_ticket = 0
        self.num_computed = 0
        self.num_cancelled = 0

    def submit(self, job: Job) -> int:
        """Keep a job and return its ticket."""
        ticket = self._next_ticket
        self._next_ticket += 1
        self._jobs[ticket] = job
        return ticket

    def start(self, tickets: Sequence[int]) -> None:
        """Allow the computation to begin: these results will be requested next, in this order."""
        self._begin([self._job(ticket) for ticket in tickets])

    def results(self, tickets: Sequence[int]) -> list[JobResult]:
        """Compute jobs together, and return results in the order of the tickets.

        A result that is not finite is returned unchanged.
        """
        jobs = [self._take(ticket) for ticket in tickets]
        self.num_computed += len(jobs)
        return self._compute(jobs)

    def cancel(self, ticket: int) -> None:
        """Discard a job."""
        self._take(ticket)
        self.num_cancelled += 1

    def _take(self, ticket: int) -> Job:
        job = self._job(ticket)
        del self._jobs[ticket]
        return job

    def _job(self, ticket: int) -> Job:
        job = self._jobs.get(ticket)
        if job is None:
            raise ValueError(f"ticket {ticket}: never issued, answered already, or cancelled")
        return job

    def _begin(self, jobs: Sequence[Job]) -> None:  # noqa: B027 - a trainer need not begin early
        """Begin jobs that `_compute` will be called with next."""

    @abstractmethod
    def _compute(self, jobs: Sequence[Job]) -> list[JobResult]:
        """Return the results of jobs, in their order."""


class _Plan(NamedTuple):
    """Jobs to compute by chunk."""

    chunks: list[list[int]]
    """Jobs of each chunk, by index."""
    of_chunks: list[list[Job]]
    found: list[list[JobResult] | None]
    """Stored results of each chunk; None: to be computed."""

    @property
    def missing(self) -> list[list[Job]]:
        """Chunks without stored results."""
        return [jobs for jobs, found in zip(self.of_chunks, self.found, strict=True) if not found]


class DataTrainer(PendingJobs):
    """Trainer on real data; it counts the SGD steps that were computed, `num_steps`."""

    def __init__(
        self, kernel: Kernel, *, workers: int | None = 1, store: ResultsStore | None = None
    ) -> None:
        """Build it for so many processes, this one included, which changes the time alone.

        So does a store, in which results that are known are found.

        None: one for every core that this process may use; this one alone with a cuda device, and
        in a daemon, which may start none.

        Raises:
            ScenarioError: several processes would share a cuda device, or this one is a daemon.
        """
        super().__init__()
        if not kernel.is_on_cpu:
            if workers not in (None, 1):
                raise ScenarioError(
                    f"--workers: {workers} processes cannot share --torch-device cuda; leave"
                    " --workers out"
                )
            workers = 1
        if multiprocessing.current_process().daemon:
            if workers not in (None, 1):
                raise ScenarioError(
                    f"--workers: {workers}: this process is a daemon, as those of"
                    " multiprocessing.Pool are, and may start no others; leave workers out, or use"
                    " concurrent.futures.ProcessPoolExecutor"
                )
            workers = 1
        self._kernel = kernel
        self._pool = Pool(kernel, usable_cores() if workers is None else workers)
        self.store = store
        self._begun: _Plan | None = None
        self._num_calls = self._num_found = 0
        """Numbers of `results` with jobs, and of those all of whose jobs were stored."""
        self.num_steps = 0

    def evaluate(self, parameters: Parameters) -> Evaluation:
        """Return accuracy and mean loss of a model [P] on the server's test set."""
        return self._evaluate(parameters, "test")

    def validate(self, parameters: Parameters) -> Evaluation | None:
        """Return both on the samples that the server keeps for selectors; None without such."""
        if not self._kernel.num_server_samples("validation"):
            return None
        return self._evaluate(parameters, "validation")

    def _evaluate(self, parameters: Parameters, server_set: ServerSet) -> Evaluation:
        def compute() -> Evaluation:
            losses, hits = self._pool.evaluate(parameters, server_set)
            loss = float(losses.mean(dtype=np.float64))
            return Evaluation(accuracy=float(hits.mean()), loss=loss)

        if self.store is None:
            return compute()
        return self.store.evaluation(parameters, server_set, compute)

    @property
    def found_text(self) -> str | None:
        """Line that says how much of the training was stored; None without a store."""
        if self.store is None:
            return None
        damaged = f"; {self.store.num_damaged} damaged entries" if self.store.num_damaged else ""
        return (
            f"results cache: the training of {self._num_found} of {self._num_calls} rounds was"
            f" found{damaged}"
        )

    def _begin(self, jobs: Sequence[Job]) -> None:
        if jobs and (self.store is None or self._pool.workers > 1):
            self._begun = self._planned(jobs)
            self._pool.begin_chunks(self._begun.missing)

    def _compute(self, jobs: Sequence[Job]) -> list[JobResult]:
        if not jobs:
            return []
        plan, self._begun = self._begun or self._planned(jobs), None
        self.num_steps += sum(map(self._kernel.num_steps, jobs))
        self._num_calls += 1
        before = 0 if self.store is None else self.store.num_computed
        results = in_order(plan.chunks, self._of_chunks(plan))
        if self.store is not None and self.store.num_computed == before:
            self._num_found += 1
        return results

    def _planned(self, jobs: Sequence[Job]) -> _Plan:
        """Return the chunks of jobs, and the results that are stored."""
        chunks = self._kernel.chunks(jobs)
        of_chunks = [[jobs[i] for i in chunk] for chunk in chunks]
        # One process looks them up one by one, so that several runs share the work.
        store = self.store if self._pool.workers > 1 else None
        found = [None if store is None else store.found(each) for each in of_chunks]
        return _Plan(chunks, of_chunks, found)

    def _of_chunks(self, plan: _Plan) -> list[list[JobResult]]:
        """Return the results of all chunks of a plan."""
        if self.store is None:
            return self._pool.compute_chunks(plan.of_chunks)
        if self._pool.workers > 1:
            begun_s = time.perf_counter()
            computed = self._pool.compute_chunks(plan.missing)
            each_s = (time.perf_counter() - begun_s) / max(len(computed), 1)
            for jobs, results in zip(plan.missing, computed, strict=True):
                self.store.keep(jobs, results, each_s)
            rest = iter(computed)
            return [next(rest) if results is None else results for results in plan.found]
        # Chunks that other runs compute at present are left for the end.
        every = [self._found_or_computed(jobs, waits=False) for jobs in plan.of_chunks]
        late = [
            self._found_or_computed(jobs, waits=True) if results is None else results
            for jobs, results in zip(plan.of_chunks, every, strict=True)
        ]
        return [results for results in late if results is not None]

    def _found_or_computed(self, jobs: list[Job], *, waits: bool) -> list[JobResult] | None:
        assert self.store is not None
        return self.store.results(jobs, lambda: self._pool.compute_chunks([jobs])[0], waits=waits)


class NullTrainer(PendingJobs):
    """Trainer without training: losses, vectors and accuracy are None, numbers of samples real.

    If `num_evaluated` is None, clients evaluate on their training samples.
    """

    def __init__(self, num_samples: IntArray, num_evaluated: IntArray | None = None) -> None:
        super().__init__()
        self._num_samples = num_samples
        self._num_evaluated = num_samples if num_evaluated is None else num_evaluated

    def _num_samples_of(self, job: Job) -> int:
        if job.work.kind is WorkKind.NONE:
            return 0
        is_evaluation = job.work.kind is WorkKind.EVALUATE
        available = int((self._num_evaluated if is_evaluation else self._num_samples)[job.client])
        return available if job.work.num_samples is None else min(job.work.num_samples, available)

    def _compute(self, jobs: Sequence[Job]) -> list[JobResult]:
        return [JobResult(num_samples=self._num_samples_of(job)) for job in jobs]

    def evaluate(self, parameters: Parameters) -> Evaluation:
        """Return an evaluation without values."""
        return Evaluation(accuracy=None, loss=None)

    def validate(self, parameters: Parameters) -> Evaluation | None:
        """Return None: no samples are kept for selectors."""
        return None
