"""Pools of processes that compute chunks of jobs, with equal results for any number of processes.

Chunks follow from the list of jobs alone, one process computes a chunk on one torch thread, and
results have the order of the list. So neither the number of processes nor who computes a chunk
changes anything but the time.
"""

import operator
import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

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


class JobPool(ABC):
    """Base class of pools: chunks, and the order of results; subclasses say who computes."""

    def __init__(self, kernel: Kernel, num_processes: int) -> None:
        self.kernel, self.num_processes = kernel, num_processes
        self._jobs: list[Job] = []
        """Jobs that are computed at present."""
        self._chunks: list[list[int]] = []
        """The same by index, in chunks."""
        self.origins: Counter[str] = Counter()
        """Chunks by the origin of their results, with a store."""

    @abstractmethod
    def _hand_out(self, chunks: Sequence[list[Job]], loads: Sequence[int]) -> None:
        """Let others begin chunks; `loads` are their work in samples of forward passes."""

    @abstractmethod
    def _computed(self) -> Iterable[tuple[int, list[JobResult]]]:
        """Return all chunks that were handed out, by index, with their results."""

    @abstractmethod
    def _evaluated(self, calls: Sequence[tuple[Any, ...]]) -> Iterable[Any]:
        """Return losses and hits by calls of the kernel's `evaluate`, in their order."""

    @abstractmethod
    def _drop(self) -> None:
        """Give up chunks that were handed out."""

    def begin(self, jobs: Sequence[Job]) -> None:
        """Let others begin jobs that `compute` will be called with next."""
        if len(jobs) == 0:
            return
        chunks = self.kernel.chunks(jobs)
        of_chunks = [[jobs[i] for i in chunk] for chunk in chunks]
        self._hand_out(of_chunks, list(map(self._load, of_chunks)))
        self._jobs, self._chunks = list(jobs), chunks

    def compute(self, jobs: Sequence[Job]) -> list[JobResult]:
        """Return the results of jobs, in their order; ValueError: other jobs were begun."""
        if not self._jobs:
            self.begin(jobs)
        begun, self._jobs = self._jobs, []
        if not begun:
            return []
        if len(begun) != len(jobs) or any(map(operator.is_not, begun, jobs)):
            # Their replies would be read as those of the next calls.
            self._drop()
            raise ValueError("other jobs were begun than are requested")
        in_order: dict[int, JobResult] = {}
        for chunk, results in self._computed():
            in_order |= zip(self._chunks[chunk], results, strict=True)
        return [in_order[i] for i in range(len(jobs))]

    def evaluate(
        self, parameters: Parameters, server_set: ServerSet
    ) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """Return losses and hits [n] of a model [P] on samples of the server."""
        num_samples = self.kernel.num_server_samples(server_set)
        num_chunks = -(-num_samples // CHUNK)
        calls = []
        for share in np.array_split(np.arange(num_chunks), min(self.num_processes, num_chunks)):
            stop = min(num_samples, (int(share[-1]) + 1) * CHUNK)
            calls.append((parameters, server_set, int(share[0]) * CHUNK, stop))
        losses, hits = zip(*self._evaluated(calls), strict=True)
        return np.concatenate(losses), np.concatenate(hits)

    def _load(self, jobs: Sequence[Job]) -> int:
        """Return the work of a chunk, in samples of forward passes."""
        kernel, load = self.kernel, 0
        for job in jobs:
            if job.work.kind is not WorkKind.TRAIN:
                load += kernel.num_samples_of(job)
                continue
            whole = _TRAIN_PASSES * job.work.epochs * int(kernel.num_samples[job.client])
            if job.most_steps is not None:
                all_steps = kernel.num_steps(job._replace(most_steps=None))
                whole = whole * kernel.num_steps(job) // all_steps
            load += whole
        return load


@dataclass(frozen=True, slots=True)
class _Begun:
    """Chunks that helpers compute at present."""

    here: Calls
    """Chunks that this process has yet to compute."""
    own: list[list[int]]
    """Chunks by index that each process has for itself, this one first."""
    shared: list[int]
    """Chunks by index that all processes take in turns."""


class Pool(JobPool):
    """Processes of this host that compute chunks of jobs: this one and its helpers.

    Helpers start when there are two chunks for the first time, and end with the pool.
    """

    def __init__(self, kernel: Kernel, workers: int, store: ResultsStore | None = None) -> None:
        """Build it for so many processes, this one included; helpers have copies of both."""
        if workers < 1:
            raise ValueError(f"workers must be at least 1, got {workers}")
        super().__init__(kernel, workers)
        self._helpers = Helpers(kernel, store)
        self._begun: _Begun | None = None

    def _hand_out(self, chunks: Sequence[list[Job]], loads: Sequence[int]) -> None:
        own, shared = assigned(loads, self.num_processes), []
        most_byte = max(_MOST_SHARED_BYTE, 2 * chunks[0][0].base.nbytes)
        if len(own) > 1 and _num_byte(chunks) <= most_byte:
            # Each begins with the heaviest of its share; who gets free first takes the next.
            rest = sorted((c for share in own for c in share[1:]), key=lambda c: -loads[c])
            shared = rest[-MOST_SHARED:]
            is_shared = set(shared)
            own = [[c for c in share if c not in is_shared] for share in own]
        for_all = [chunks[c] for c in shared]
        here, *theirs = [Calls("compute", [chunks[c] for c in each], for_all) for each in own]
        self._request(theirs)
        self._begun = _Begun(here, own, shared)

    def _computed(self) -> Iterable[tuple[int, list[JobResult]]]:
        begun, self._begun = self._begun, None
        assert begun is not None
        answers = self._helpers.answers(begun.here, len(begun.own) - 1)
        for own, answer in zip(begun.own, answers, strict=True):
            self.origins.update(answer.origins)
            of_process = [*own, *(begun.shared[number] for number in answer.taken)]
            yield from zip(of_process, answer.results, strict=True)

    def _drop(self) -> None:
        self._begun = None
        self._helpers.end()

    def _evaluated(self, calls: Sequence[tuple[Any, ...]]) -> Iterable[Any]:
        here, *theirs = [Calls("evaluate", [call], []) for call in calls]
        self._request(theirs)
        answers = self._helpers.answers(here, len(theirs))
        return [one for answer in answers for one in answer.results]

    def _request(self, calls: Sequence[Calls]) -> None:
        if self._begun is not None:
            raise ValueError("jobs were begun whose results have not been requested")
        self._helpers.request(calls)


def _num_byte(chunks: Sequence[list[Job]]) -> int:
    """Return the bytes of all arrays of jobs, each once."""
    arrays = {
        id(array): array
        for jobs in chunks
        for job in jobs
        for array in (job.base, *(job.state or {}).values(), *(job.received or {}).values())
    }
    return sum(array.nbytes for array in arrays.values())


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
