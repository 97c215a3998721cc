"""Pool of processes that compute chunks of jobs, with equal results for any number of processes.

Chunks follow from the list of jobs alone, one process computes a chunk on one torch thread, and
results have the order of the list. So neither the number of processes nor who computes a chunk
changes anything but the time.
"""

import operator
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fleetsim.contracts import Job, JobResult, Parameters, WorkKind
from fleetsim.kernels.base import Kernel, ServerSet
from fleetsim.learning.local.local_sgd import CHUNK
from fleetsim.training.helper_processes import MOST_SHARED, Calls, Helpers
from fleetsim.training.results_store import ResultsStore

_MOST_SHARED_BYTE = 1 << 26
"""Most bytes of jobs that are sent to every process, unless they have two models or fewer."""
_TRAIN_PASSES = 3
"""Work of one epoch of training in forward passes: forward, backward by inputs and by weights."""


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class _Begun:
    """Jobs that helpers compute at present."""

    jobs: list[Job]
    here: Calls
    """Chunks that this process has yet to compute."""
    own: list[list[int]]
    """Chunks by index that each process has for itself, this one first."""
    shared: list[int]
    """Chunks by index that all processes take in turns."""
    chunks: list[list[int]]
    """Jobs by index of every chunk."""


class JobPool(Protocol):
    """Processes that compute jobs and evaluations: of this host, or of a cluster."""

    @property
    def origins(self) -> Counter[str]:
        """Chunks by the origin of their results, with a store."""

    def begin(self, jobs: Sequence[Job]) -> None:
        """Begin jobs that `compute` will be called with next."""

    def compute(self, jobs: Sequence[Job]) -> list[JobResult]:
        """Return the results of jobs, in their order; ValueError: other jobs were begun."""

    def evaluate(
        self, parameters: Parameters, server_set: ServerSet
    ) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """Return losses and hits [n] of a model [P] on samples of the server."""


class Pool:
    """Processes that compute chunks of jobs: this one and its helpers.

    Helpers start when there are two chunks for the first time, and end with the pool.
    """

    def __init__(self, kernel: Kernel, workers: int, store: ResultsStore | None = None) -> None:
        """Build it for so many processes, this one included; helpers have copies of both."""
        if workers < 1:
            raise ValueError(f"workers must be at least 1, got {workers}")
        self._kernel = kernel
        self._workers = workers
        self._store = store
        self._helpers = Helpers(kernel, store)
        self._begun: _Begun | None = None
        self.origins: Counter[str] = Counter()
        """Chunks by the origin of their results, with a store."""

    def begin(self, jobs: Sequence[Job]) -> None:
        """Let the helpers begin jobs that `compute` will be called with next."""
        if len(jobs) == 0:
            return
        chunks = self._kernel.chunks(jobs)
        of_chunks = [[jobs[i] for i in chunk] for chunk in chunks]
        loads = loads_of(self._kernel, of_chunks)
        own, shared = assigned(loads, self._workers), []
        num_byte = sum(array.nbytes for array in arrays_of(jobs).values())
        if len(own) > 1 and num_byte <= max(_MOST_SHARED_BYTE, 2 * jobs[0].base.nbytes):
            # Each begins with the heaviest of its share; who gets free first takes the next.
            rest = sorted((c for share in own for c in share[1:]), key=lambda c: -loads[c])
            shared = rest[-MOST_SHARED:]
            is_shared = set(shared)
            own = [[c for c in share if c not in is_shared] for share in own]
        for_all = [of_chunks[c] for c in shared]
        here, *theirs = [Calls("compute", [of_chunks[c] for c in each], for_all) for each in own]
        self._request(theirs)
        self._begun = _Begun(list(jobs), here, own, shared, chunks)

    def compute(self, jobs: Sequence[Job]) -> list[JobResult]:
        """Return the results of jobs, in their order; ValueError: other jobs were begun."""
        if self._begun is None:
            self.begin(jobs)
        begun, self._begun = self._begun, None
        if begun is None:
            return []
        if len(begun.jobs) != len(jobs) or any(map(operator.is_not, begun.jobs, jobs)):
            # Their replies would be read as those of the next calls.
            self._helpers.end()
            raise ValueError("other jobs were begun than are requested")
        in_order: dict[int, JobResult] = {}
        answers = self._helpers.answers(begun.here, len(begun.own) - 1)
        for own, answer in zip(begun.own, answers, strict=True):
            self.origins.update(answer.origins)
            of_process = [*own, *(begun.shared[number] for number in answer.taken)]
            for chunk, results in zip(of_process, answer.results, strict=True):
                in_order |= zip(begun.chunks[chunk], results, strict=True)
        return [in_order[i] for i in range(len(jobs))]

    def evaluate(
        self, parameters: Parameters, server_set: ServerSet
    ) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """Return losses and hits [n] of a model [P] on samples of the server."""
        num_samples = self._kernel.num_server_samples(server_set)
        calls = [
            Calls("evaluate", [(parameters, server_set, *samples)], [])
            for samples in ranges_of(num_samples, self._workers)
        ]
        self._request(calls[1:])
        answers = self._helpers.answers(calls[0], len(calls) - 1)
        losses, hits = zip(*(one for answer in answers for one in answer.results), strict=True)
        return np.concatenate(losses), np.concatenate(hits)

    def _request(self, calls: Sequence[Calls]) -> None:
        if self._begun is not None:
            raise ValueError("jobs were begun whose results have not been requested")
        self._helpers.request(calls)


def loads_of(kernel: Kernel, chunks: Sequence[Sequence[Job]]) -> list[int]:
    """Return the work of each chunk, in samples of forward passes."""

    def load_of(job: Job) -> int:
        if job.work.kind is not WorkKind.TRAIN:
            return kernel.num_samples_of(job)
        whole = _TRAIN_PASSES * job.work.epochs * int(kernel.num_samples[job.client])
        if job.most_steps is None:
            return whole
        return whole * kernel.num_steps(job) // kernel.num_steps(job._replace(most_steps=None))

    return [sum(map(load_of, jobs)) for jobs in chunks]


def ranges_of(num_samples: int, num_processes: int) -> list[tuple[int, int]]:
    """Return first and last + 1 of the server's samples that each process evaluates on."""
    num_chunks = -(-num_samples // CHUNK)
    shares = np.array_split(np.arange(num_chunks), min(num_processes, num_chunks))
    return [
        (int(share[0]) * CHUNK, min(num_samples, (int(share[-1]) + 1) * CHUNK)) for share in shares
    ]


def arrays_of(jobs: Iterable[Job]) -> dict[int, NDArray[Any]]:
    """Return all arrays of jobs by their identity, each once."""
    return {
        id(array): array
        for job in jobs
        for array in (job.base, *(job.state or {}).values(), *(job.received or {}).values())
    }


def assigned(loads: Sequence[int], num_processes: int) -> list[list[int]]:
    """Assign chunks, by index, to processes: heaviest first, each to the least loaded process.

    The first share is that of this process, the lightest, as it has other work, too. No share is
    empty.
    """
    shares: list[list[int]] = [[] for _ in range(num_processes)]
    totals = [0] * num_processes
    for chunk in sorted(range(len(loads)), key=lambda c: -loads[c]):
        least = totals.index(min(totals))
        shares[least].append(chunk)
        totals[least] += max(loads[chunk], 1)
    lightest_first = sorted(zip(totals, shares, strict=True), key=operator.itemgetter(0))
    return [share for _, share in lightest_first if share]
