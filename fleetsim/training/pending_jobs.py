"""Pending jobs: kept by ticket, and computed only when their results are requested."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from fleetsim.contracts import IntArray, Job, JobResult, WorkKind


class PendingJobs(ABC):
    """Base class of trainers, which keeps pending jobs, and counts those computed and cancelled.

    A ticket that is unknown, used or cancelled is a ValueError.
    """

    def __init__(self, num_samples: IntArray) -> None:
        self._num_clients = num_samples.size
        self._jobs: dict[int, Job] = {}
        self._next_ticket = 0
        self.num_computed = 0
        self.num_cancelled = 0

    def submit(self, job: Job) -> int:
        """Keep a job and return its ticket; ValueError: no such client, or invalid work."""
        _check_job(job, self._num_clients)
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


def _check_job(job: Job, num_clients: int) -> None:
    work = job.work
    if not 0 <= job.client < num_clients:
        raise ValueError(f"client {job.client} is not in 0..{num_clients - 1}")
    if work.kind is WorkKind.TRAIN and (work.epochs < 1 or work.num_samples is not None):
        raise ValueError(f"training takes at least one epoch over all samples: {work}")
    if job.most_steps is not None and (work.kind is not WorkKind.TRAIN or job.most_steps < 1):
        raise ValueError(f"only training is stopped early, after one step at least: {job}")
    if work.num_samples is not None and work.num_samples < 1:
        raise ValueError(f"work on fewer than one sample: {work}")
