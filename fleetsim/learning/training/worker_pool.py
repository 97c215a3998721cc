"""Pool of processes that compute chunks of jobs, with equal results for any number of processes.

Chunks follow from the list of jobs alone, one process computes a chunk on one torch thread, and
results have the order of the list. So the number of processes changes the time alone.

Where the system can fork, helpers are forked: they share the samples' memory and need no start-up.
Each communicates with this process over a socket (`ipc`).
"""

from __future__ import annotations

import multiprocessing
import operator
import os
import signal
import socket
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.context import ForkContext, SpawnContext
from multiprocessing.process import BaseProcess
from multiprocessing.util import Finalize
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleetsim.contracts import Job, JobResult, Parameters, WorkKind
from fleetsim.errors import TrainingError
from fleetsim.learning.kernels.base import Kernel, ServerSet
from fleetsim.learning.kernels.cpu.numerical_platform import configure_torch
from fleetsim.learning.local.local_sgd import CHUNK
from fleetsim.learning.training.ipc import packed, receive, send, unpacked

_TRAIN_PASSES = 3
"""Work of one epoch of training in forward passes: forward, backward by inputs and by weights."""


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class _Helper:
    """Process that computes chunks, and the socket to it."""

    process: BaseProcess
    end: socket.socket


@dataclass(frozen=True, slots=True)
class _Begun:
    """Jobs that helpers compute at present."""

    jobs: list[Job]
    own: list[list[Job]]
    """Chunks that this process has yet to compute."""
    num_helpers: int
    order: list[int]
    """Jobs by index in the order of the answers: of this process, then of every helper."""


class Pool:
    """Processes that compute chunks of jobs: this one and its helpers.

    Helpers start when there are two chunks for the first time, and end with the pool.
    """

    def __init__(self, kernel: Kernel, workers: int) -> None:
        """Build it.

        Args:
            kernel: kernel of this process; helpers have copies of it.
            workers: number of processes, this one included.

        Raises:
            ValueError: `workers` is under 1.
        """
        if workers < 1:
            raise ValueError(f"workers must be at least 1, got {workers}")
        self._kernel = kernel
        self._sizes: list[int] = kernel.num_samples.tolist()  # Python numbers: read one at a time
        self._workers = workers
        self._helpers: list[_Helper] = []
        self._begun: _Begun | None = None
        # Runs before multiprocessing's own clean-up, which sends helpers SIGTERM, which they
        # ignore, and would wait for them forever.
        self._finalizer = Finalize(self, _end, (self._helpers,), exitpriority=0)

    def begin(self, jobs: Sequence[Job]) -> None:
        """Let the helpers begin jobs that `compute` will be called with next.

        Raises:
            TrainingError: a helper died.
        """
        if len(jobs) == 0:
            return
        chunks = self._kernel.chunks(jobs)
        of_chunks = [[jobs[i] for i in chunk] for chunk in chunks]
        shares = _assign(list(map(self._load, of_chunks)), self._workers)
        calls = [[of_chunks[c] for c in share] for share in shares]
        self._request("compute", calls[1:])
        order = [i for share in shares for c in share for i in chunks[c]]
        self._begun = _Begun(list(jobs), calls[0], len(shares) - 1, order)

    def compute(self, jobs: Sequence[Job]) -> list[JobResult]:
        """Return the results of jobs, in their order.

        Raises:
            TrainingError: a helper failed or died.
            ValueError: other jobs were begun.
        """
        if self._begun is None:
            self.begin(jobs)
        begun, self._begun = self._begun, None
        if begun is None:
            return []
        if len(begun.jobs) != len(jobs) or any(map(operator.is_not, begun.jobs, jobs)):
            # Their replies would be read as those of the next calls.
            _end(self._helpers)
            raise ValueError("other jobs were begun than are requested")
        answers = self._gather("compute", begun.own, begun.num_helpers)
        flat = [one for answer in answers for chunk in answer for one in chunk]
        in_order = sorted(zip(begun.order, flat, strict=True), key=operator.itemgetter(0))
        return [result for _, result in in_order]

    def evaluate(
        self, parameters: Parameters, server_set: ServerSet
    ) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """Return losses and hits [n] of a model [P] on samples of the server.

        Raises:
            TrainingError: a helper failed or died.
        """
        num_samples = self._kernel.num_server_samples(server_set)
        num_chunks = -(-num_samples // CHUNK)
        calls = []
        for share in np.array_split(np.arange(num_chunks), min(self._workers, num_chunks)):
            stop = min(num_samples, (int(share[-1]) + 1) * CHUNK)
            calls.append([(parameters, server_set, int(share[0]) * CHUNK, stop)])
        self._request("evaluate", calls[1:])
        answers = self._gather("evaluate", calls[0], len(calls) - 1)
        losses, hits = zip(*(one for answer in answers for one in answer), strict=True)
        return np.concatenate(losses), np.concatenate(hits)

    def _load(self, jobs: Sequence[Job]) -> int:
        """Return the work of a chunk, in samples of forward passes."""
        sizes, load = self._sizes, 0
        for job in jobs:
            if job.work.kind is not WorkKind.TRAIN:
                load += self._kernel.num_samples_of(job)
                continue
            whole = _TRAIN_PASSES * job.work.epochs * sizes[job.client]
            if job.most_steps is not None:
                num_steps = self._kernel.num_steps
                whole = whole * num_steps(job) // num_steps(job._replace(most_steps=None))
            load += whole
        return load

    def _request(self, verb: str, calls: Sequence[Sequence[Any]]) -> None:
        """Send each of the first helpers its calls.

        Raises:
            TrainingError: a helper died.
            ValueError: results of begun jobs have not been requested.
        """
        if self._begun is not None:
            raise ValueError("jobs were begun whose results have not been requested")
        self._start(len(calls))
        with self._restarting_on_faults():
            for helper, theirs in zip(self._helpers, calls, strict=False):
                _request(helper, (verb, [packed(call) for call in theirs]))

    def _gather(self, verb: str, own: Sequence[Any], num_helpers: int) -> list[list[Any]]:
        """Return the answers to this process's own calls and of the first helpers.

        Raises:
            TrainingError: a helper failed or died.
        """
        with self._restarting_on_faults():
            answers = [_answer(self._kernel, verb, own)]
            answers += [_reply(helper) for helper in self._helpers[:num_helpers]]
        return answers

    @contextmanager
    def _restarting_on_faults(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            # Replies that nothing will read may be on their way: the next call starts new helpers.
            _end(self._helpers)
            raise

    def _start(self, num_helpers: int) -> None:
        """Start helpers until there are so many."""
        context = _context()
        while len(self._helpers) < num_helpers:
            ours, theirs = socket.socketpair()
            # A helper must not hold this process's ends: it would outlive the process.
            foreign = [helper.end for helper in self._helpers] + [ours]
            is_forked = context.get_start_method() == "fork"
            process = context.Process(
                target=_serve,
                args=(self._kernel, theirs, foreign if is_forked else []),
                name=f"fleetsim training {len(self._helpers) + 1}",
                daemon=True,
            )
            with warnings.catch_warnings():
                # Python warns of forks beside threads; helpers use torch and numpy on one thread.
                warnings.filterwarnings("ignore", ".*use of fork.*", DeprecationWarning)
                process.start()
            theirs.close()
            self._helpers.append(_Helper(process, ours))


def _context() -> SpawnContext | ForkContext:
    """Return the start method of helpers: fork where that is safe, else spawn."""
    if sys.platform == "linux":
        return multiprocessing.get_context("fork")
    return multiprocessing.get_context("spawn")


def _assign(loads: Sequence[int], num_processes: int) -> list[list[int]]:
    """Assign chunks, by index, to processes: heaviest first, each to the least loaded process.

    The first share is that of this process, the lightest, as it has other work, too. No share is
    empty.

    >>> _assign([5, 9, 4, 3], 2)
    [[0, 2], [1, 3]]
    """
    shares: list[list[int]] = [[] for _ in range(num_processes)]
    totals = [0] * num_processes
    for chunk in sorted(range(len(loads)), key=lambda c: -loads[c]):
        least = totals.index(min(totals))
        shares[least].append(chunk)
        totals[least] += max(loads[chunk], 1)
    lightest_first = sorted(zip(totals, shares, strict=True), key=operator.itemgetter(0))
    return [share for _, share in lightest_first if share]


def _answer(kernel: Kernel, verb: str, calls: Sequence[Any]) -> list[Any]:
    """Compute calls in this process."""
    if verb == "compute":
        return [kernel.compute(jobs) for jobs in calls]
    return [kernel.evaluate(*call) for call in calls]


# --- the two ends of a socket ---------------------------------------------------------------------


def _serve(kernel: Kernel, end: socket.socket, foreign: Sequence[socket.socket]) -> None:
    """Answer calls in a helper until the other end is closed."""
    # Ctrl-C, and a scheduler's SIGTERM to all processes, are handled by the process that started
    # the helpers; it ends them.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for other in foreign:
        other.close()
    configure_torch()
    while True:
        try:
            verb, calls = receive(end)
        except (EOFError, ConnectionError):
            return
        answer: tuple[str | None, Any]  # fault, and the results or whether it is one line
        try:
            results = _answer(kernel, verb, [unpacked(call) for call in calls])
            answer = (None, [packed(result) for result in results])
        except TrainingError as fault:
            answer = (str(fault), True)
        except Exception:  # any fault: the process that sent the call raises it
            answer = (traceback.format_exc(), None)
        try:
            send(end, answer)
        except ConnectionError:
            return


def _request(helper: _Helper, message: object) -> None:
    """Send a helper its calls.

    Raises:
        TrainingError: the helper died.
    """
    try:
        send(helper.end, message)
    except ConnectionError:
        raise _dead(helper) from None


def _reply(helper: _Helper) -> list[Any]:
    """Return a helper's answer.

    Raises:
        TrainingError: the helper failed or died.
    """
    try:
        fault, answer = receive(helper.end)
    except (EOFError, ConnectionError):
        raise _dead(helper) from None
    if fault is not None and answer:
        raise TrainingError(fault)
    if fault is not None:
        raise TrainingError(f"a training process failed:\n{fault}")
    return [unpacked(result) for result in answer]


def _dead(helper: _Helper) -> TrainingError:
    """Return the error for a helper whose end is closed."""
    helper.process.join()
    return TrainingError(
        f"a training process ended with exit code {helper.process.exitcode}; -9 is a kill, for"
        " instance for lack of memory: fewer --workers need less of it"
    )


def _end(helpers: list[_Helper]) -> None:
    """End helpers: close their sockets, and kill those that still compute."""
    for helper in helpers:
        helper.end.close()
    for helper in helpers:
        helper.process.kill()
        helper.process.join()
    helpers.clear()
