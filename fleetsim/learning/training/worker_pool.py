"""Which process computes which chunk: this one and its helpers, with equal results for any number.

Chunks follow from the list of jobs alone, every chunk is computed by one process on one torch
thread, and results are put together in the order of the list. So the number of processes shows in
nothing but the time.

Where the system can fork, helpers are forked: they share the samples' memory and need no start-up.
They talk to this process alone, over a socket (`wire`).
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
from fleetsim.learning.kernels.cpu.numerical_platform import settle
from fleetsim.learning.local.local_sgd import CHUNK
from fleetsim.learning.training import wakeup
from fleetsim.learning.training.ipc import packed, receive, send, unpacked
from fleetsim.learning.training.wakeup import Bell

_TRAIN_PASSES = 3
"""Passes of one epoch of training: forward, and backward by inputs and by weights."""


def usable_cores() -> int:
    """Cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class _Helper:
    """A process that computes chunks, and the socket to it."""

    process: BaseProcess
    end: socket.socket
    bell: Bell | None
    """On which it sleeps; None: on its socket."""


@dataclass(frozen=True, slots=True)
class _Begun:
    """Jobs that helpers are at work on."""

    jobs: list[Job]
    own: list[list[Job]]
    """Chunks of this process, still to be computed."""
    num_helpers: int
    order: list[int]
    """Jobs by index as the answers hold them: this process's, then those of every helper."""


class Pool:
    """Computes chunks of jobs in this process and in helpers.

    Helpers are started when there are first two chunks to compute, and end with the pool.
    """

    def __init__(self, kernel: Kernel, workers: int) -> None:
        """Build it.

        Args:
            kernel: computes in this process; helpers work on copies of it.
            workers: number of processes, this one included.

        Raises:
            ValueError: `workers` is under 1.
        """
        if workers < 1:
            raise ValueError(f"workers must be at least 1, got {workers}")
        self._kernel = kernel
        self._sizes: list[int] = kernel.num_samples.tolist()  # as Python's numbers: read one by one
        self._workers = workers
        self._helpers: list[_Helper] = []
        self._begun: _Begun | None = None
        # Of multiprocessing's own kind, to come before its end of a program, which would wait for
        # helpers for ever: it terminates them, which they ignore.
        self._finalizer = Finalize(self, _end, (self._helpers,), exitpriority=0)

    def begin(self, jobs: Sequence[Job]) -> None:
        """Let the helpers begin with what `compute` will be asked for next.

        Raises:
            TrainingError: a helper died.
        """
        if len(jobs) == 0:
            return
        chunks = self._kernel.chunks(jobs)
        parts = [[jobs[i] for i in chunk] for chunk in chunks]
        hands = _deal(list(map(self._load, parts)), self._workers)
        calls = [[parts[c] for c in hand] for hand in hands]
        self._ask("compute", calls[1:])
        order = [i for hand in hands for c in hand for i in chunks[c]]
        self._begun = _Begun(list(jobs), calls[0], len(hands) - 1, order)

    def compute(self, jobs: Sequence[Job]) -> list[JobResult]:
        """What the jobs yield, in their order.

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
            # Their replies are under way, and would be taken for those to the next calls.
            _end(self._helpers)
            raise ValueError("other jobs were begun than are asked for")
        answers = self._gather("compute", begun.own, begun.num_helpers)
        flat = [one for hand in answers for chunk in hand for one in chunk]
        in_order = sorted(zip(begun.order, flat, strict=True), key=operator.itemgetter(0))
        return [result for _, result in in_order]

    def evaluate(
        self, parameters: Parameters, server_set: ServerSet
    ) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """Losses and hits [n] of a model [P] on a part of the server's samples.

        Raises:
            TrainingError: a helper failed or died.
        """
        num_samples = self._kernel.num_server_samples(server_set)
        num_chunks = -(-num_samples // CHUNK)
        calls = []
        for hand in np.array_split(np.arange(num_chunks), min(self._workers, num_chunks)):
            stop = min(num_samples, (int(hand[-1]) + 1) * CHUNK)
            calls.append([(parameters, server_set, int(hand[0]) * CHUNK, stop)])
        self._ask("evaluate", calls[1:])
        hands = self._gather("evaluate", calls[0], len(calls) - 1)
        answers = [one for hand in hands for one in hand]
        losses, hits = zip(*answers, strict=True)
        return np.concatenate(losses), np.concatenate(hits)

    def _load(self, jobs: Sequence[Job]) -> int:
        """How much a chunk computes, to deal evenly."""
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

    def _ask(self, verb: str, calls: Sequence[Sequence[Any]]) -> None:
        """Give each of the first helpers its calls.

        Raises:
            TrainingError: a helper died.
            ValueError: what was begun before has not been asked for.
        """
        if self._begun is not None:
            raise ValueError("jobs were begun whose results nobody has asked for")
        self._start(len(calls))
        with self._starting_anew_on_faults():
            for helper, theirs in zip(self._helpers, calls, strict=False):
                _ask(helper, (verb, [packed(part) for part in theirs]))

    def _gather(self, verb: str, own: Sequence[Any], num_helpers: int) -> list[list[Any]]:
        """Answers to this process's own calls, and those of so many helpers.

        Raises:
            TrainingError: a helper failed or died.
        """
        with self._starting_anew_on_faults():
            answers = [_answer(self._kernel, verb, own)]
            answers += [_reply(helper) for helper in self._helpers[:num_helpers]]
        return answers

    @contextmanager
    def _starting_anew_on_faults(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            # Replies may be under way that nobody will read: begin anew with fresh helpers.
            _end(self._helpers)
            raise

    def _start(self, num_helpers: int) -> None:
        """See to it that there are so many helpers."""
        context = _context()
        while len(self._helpers) < num_helpers:
            ours, theirs = socket.socketpair()
            # A helper must not hold this process's ends, or it would outlive it.
            foreign = [helper.end for helper in self._helpers] + [ours]
            is_forked = context.get_start_method() == "fork"
            hung = Bell.hung() if is_forked and wakeup.IS_THERE else None
            process = context.Process(
                target=_serve,
                args=(self._kernel, theirs, hung, foreign if is_forked else []),
                name=f"fleetsim training {len(self._helpers) + 1}",
                daemon=True,
            )
            with warnings.catch_warnings():
                # Python warns of forks beside threads; helpers use torch and numpy on one thread.
                warnings.filterwarnings("ignore", ".*use of fork.*", DeprecationWarning)
                process.start()
            theirs.close()
            self._helpers.append(_Helper(process, ours, hung))


def _context() -> SpawnContext | ForkContext:
    """How helpers start: forked where that is safe, else as fresh interpreters."""
    if sys.platform == "linux":
        return multiprocessing.get_context("fork")
    return multiprocessing.get_context("spawn")


def _deal(loads: Sequence[int], num_hands: int) -> list[list[int]]:
    """Chunks by index for each process, heaviest first, each to the least loaded; none is empty.

    The first hand is this process's own, which has more to do than to compute: the lightest.

    >>> _deal([5, 9, 4, 3], 2)
    [[0, 2], [1, 3]]
    """
    hands: list[list[int]] = [[] for _ in range(num_hands)]
    totals = [0] * num_hands
    for chunk in sorted(range(len(loads)), key=lambda c: -loads[c]):
        hand = totals.index(min(totals))
        hands[hand].append(chunk)
        totals[hand] += max(loads[chunk], 1)
    lightest_first = sorted(zip(totals, hands, strict=True), key=operator.itemgetter(0))
    return [hand for _, hand in lightest_first if hand]


def _answer(kernel: Kernel, verb: str, calls: Sequence[Any]) -> list[Any]:
    """What this process computes."""
    if verb == "compute":
        return [kernel.compute(jobs) for jobs in calls]
    return [kernel.evaluate(*call) for call in calls]


# --- the two ends of a socket ---------------------------------------------------------------------


def _serve(
    kernel: Kernel, end: socket.socket, hung: Bell | None, foreign: Sequence[socket.socket]
) -> None:
    """A helper's life: answer calls until the other end is closed."""
    # Ctrl-C is for the process that began, and so is the SIGTERM that a scheduler sends to all
    # processes of a job; that process ends its helpers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for other in foreign:
        other.close()
    settle()
    while True:
        if hung is not None:
            hung.wait(end)
        try:
            verb, calls = receive(end)
        except (EOFError, ConnectionError):
            return
        answer: tuple[str | None, Any]
        try:
            parts = _answer(kernel, verb, [unpacked(part) for part in calls])
            answer = (None, [packed(part) for part in parts])
        except Exception:  # whatever it is: the process that asked raises it
            answer = (traceback.format_exc(), None)
        try:
            send(end, answer)
        except ConnectionError:
            return


def _ask(helper: _Helper, message: object) -> None:
    """Send a helper its calls.

    Raises:
        TrainingError: it died.
    """
    try:
        send(helper.end, message, helper.bell)
    except ConnectionError:
        raise _dead(helper) from None


def _reply(helper: _Helper) -> list[Any]:
    """A helper's answer.

    Raises:
        TrainingError: it failed or died.
    """
    try:
        fault, answer = receive(helper.end)
    except (EOFError, ConnectionError):
        raise _dead(helper) from None
    if fault is not None:
        raise TrainingError(f"a training process failed:\n{fault}")
    return [unpacked(part) for part in answer]


def _dead(helper: _Helper) -> TrainingError:
    """What to say of a helper whose end is closed."""
    helper.process.join()
    return TrainingError(
        f"a training process ended with exit code {helper.process.exitcode}; -9 is a kill, as for"
        " want of memory: fewer --workers need less of it"
    )


def _end(helpers: list[_Helper]) -> None:
    """End helpers: by closing their sockets, and by force what still computes."""
    for helper in helpers:
        helper.end.close()
        if helper.bell is not None:
            helper.bell.take_down()
    for helper in helpers:
        helper.process.kill()
        helper.process.join()
    helpers.clear()
