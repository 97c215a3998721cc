"""Trainers: computation of the clients' jobs on the host.

A job is a pure function of its arguments, so a trainer may compute it at any moment between
`submit` and `results`, and need not if it is cancelled. A `Kernel` computes jobs in one process, a
`Pool` assigns them to processes.
"""

import multiprocessing
from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from fleetsim.contracts import Evaluation, IntArray, Job, JobResult, Parameters, WorkKind
from fleetsim.errors import ScenarioError
from fleetsim.kernels.base import Kernel, ServerSet
from fleetsim.training.results_store import ResultsStore
from fleetsim.training.worker_pool import JobPool, Pool, usable_cores


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


class DataTrainer(PendingJobs):
    """Trainer on real data; it counts the SGD steps that were computed, `num_steps`."""

    def __init__(
        self,
        kernel: Kernel,
        *,
        workers: int | None = 1,
        store: ResultsStore | None = None,
        pool: JobPool | None = None,
    ) -> None:
        """Build it for so many processes, this one included, which changes the time alone.

        So does a store, in which results are looked for before they are computed, and a pool,
        which is used in their place.

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
        if pool is None:
            pool = Pool(kernel, usable_cores() if workers is None else workers, store)
        self._pool = pool
        self._store = store
        self.num_steps = self._num_found = 0
        self.num_rounds = 0
        """Number of computations with training until now; a round has one."""

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

        if self._store is None:
            return compute()
        return self._store.evaluation(parameters, server_set, compute)

    @property
    def use_of_store(self) -> dict[str, str | int] | None:
        """Use of the store until now, for the manifest; None without a store."""
        if self._store is None:
            return None
        num = self._pool.origins
        return {
            "unit": "batch" if self._kernel.computes_together else "job",
            "rounds": self.num_rounds,
            "rounds_found": self._num_found,
            "entries_found": num["found"],
            "entries_computed": num["computed"] + num["damaged"],
            "entries_damaged": num["damaged"],
        }

    def _begin(self, jobs: Sequence[Job]) -> None:
        self._pool.begin(jobs)

    def _compute(self, jobs: Sequence[Job]) -> list[JobResult]:
        before = self._pool.origins.copy()
        results = self._pool.compute(jobs)
        self.num_steps += sum(map(self._kernel.num_steps, jobs))
        if any(job.work.kind is WorkKind.TRAIN for job in jobs):
            self.num_rounds += 1
            self._num_found += set(self._pool.origins - before) == {"found"}
        return results


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
