"""Helper processes of a pool: their start, calls, answers and end.

Where the system can fork, helpers are forked: they share the samples' memory and need no start-up.
Each communicates with this process over a socket (`ipc`) and computes on one torch thread.
"""

import multiprocessing
import os
import signal
import socket
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.context import ForkContext, SpawnContext
from multiprocessing.process import BaseProcess
from multiprocessing.util import Finalize
from typing import Any, NamedTuple

import numpy as np

from fleetsim.errors import FleetsimError, PluginError, TrainingError
from fleetsim.host.memory import give_back_freed
from fleetsim.kernels.base import Kernel
from fleetsim.learning.torch_settings import configure_torch
from fleetsim.training.ipc import packed, receive, send, unpacked
from fleetsim.training.results_store import ResultsStore

MOST_SHARED = 1000
"""Most shared calls: their numbers fit into a pipe of one page."""


class Calls(NamedTuple):
    """Calls of one process."""

    verb: str
    own: list[Any]
    """Calls that no other process has."""
    shared: list[Any]
    """Calls that all processes have, and take in turns as they get free."""


class Answers(NamedTuple):
    """Answers of one process to its calls."""

    results: list[Any]
    taken: list[int]
    """Shared calls, by index, that the last results answer."""
    origins: list[str]
    """Origin of each result, with a store."""


class Turns:
    """Numbers of shared calls, of which each is taken once.

    A read of four bytes from a pipe needs no lock, so a process that dies holds none.
    """

    def __init__(self, context: SpawnContext | ForkContext) -> None:
        self._reader, self._writer = context.Pipe(duplex=False)
        os.set_blocking(self._reader.fileno(), False)

    def give(self, num_calls: int) -> None:
        """Let numbers be taken, at most `MOST_SHARED`."""
        os.write(self._writer.fileno(), np.arange(num_calls, dtype=np.int32).tobytes())

    def __iter__(self) -> Iterator[int]:
        """Take numbers until none is left."""
        while True:
            try:
                number = os.read(self._reader.fileno(), 4)
            except BlockingIOError:
                return
            yield int.from_bytes(number, sys.byteorder)


@dataclass(frozen=True, slots=True)
class Helper:
    """Process that answers calls, and the socket to it."""

    process: BaseProcess
    end: socket.socket


class Helpers:
    """Helpers of one pool, which start when they are called for the first time.

    They end with this object, and after a fault; the next call starts new ones.
    """

    def __init__(self, kernel: Kernel, store: ResultsStore | None = None) -> None:
        self._kernel, self._store = kernel, store
        self._turns: Turns | None = None
        self.running: list[Helper] = []
        # Runs before multiprocessing's own clean-up, which sends helpers SIGTERM, which they
        # ignore, and would wait for them forever.
        self._finalizer = Finalize(self, _end, (self.running,), exitpriority=0)

    def request(self, calls: Sequence[Calls]) -> None:
        """Send each of the first helpers its calls; `answers_here` is to follow."""
        self._start(len(calls))
        with self.ended_by_faults():
            if calls and self._turns is not None:
                self._turns.give(len(calls[0].shared))
            for helper, theirs in zip(self.running, calls, strict=False):
                own, shared = list(map(packed, theirs.own)), list(map(packed, theirs.shared))
                try:
                    send(helper.end, Calls(theirs.verb, own, shared))
                except ConnectionError:
                    raise _dead(helper) from None

    def answers(self, here: Calls, num_helpers: int) -> list[Answers]:
        """Return the answers of this process to its calls, and those of the first helpers.

        Raises:
            TrainingError, PluginError: a process failed or died.
        """
        with self.ended_by_faults():
            ours = _answers(self._kernel, self._store, here, self._turns)
            return [ours, *map(_reply, self.running[:num_helpers])]

    @contextmanager
    def ended_by_faults(self) -> Iterator[None]:
        """End all helpers if the block raises: their replies may never be read."""
        try:
            yield
        except BaseException:
            self.end()
            raise

    def end(self) -> None:
        """End all helpers."""
        _end(self.running)
        self._turns = None  # its numbers are of calls that nobody answers

    def _start(self, num_helpers: int) -> None:
        context = _context()
        if len(self.running) < num_helpers:
            # Freed memory that both go on to use would be copied.
            give_back_freed()
        if num_helpers and self._turns is None:
            self._turns = Turns(context)
        while len(self.running) < num_helpers:
            ours, theirs = socket.socketpair()
            # A helper must not hold this process's ends: it would outlive the process.
            foreign = [helper.end for helper in self.running] + [ours]
            is_forked = context.get_start_method() == "fork"
            process = context.Process(
                target=_serve,
                args=(self._kernel, self._store, self._turns, theirs, foreign if is_forked else []),
                name=f"fleetsim training {len(self.running) + 1}",
                daemon=True,
            )
            with warnings.catch_warnings():
                # Python warns of forks beside threads; helpers use torch and numpy on one thread.
                warnings.filterwarnings("ignore", ".*use of fork.*", DeprecationWarning)
                process.start()
            theirs.close()
            self.running.append(Helper(process, ours))


def _answers(
    kernel: Kernel, store: ResultsStore | None, calls: Calls, turns: Turns | None
) -> Answers:
    """Return the answers to a process's own calls, then to shared ones while there are any."""
    taken: list[int] = []

    def in_turns() -> Iterator[Any]:
        yield from map(unpacked, calls.own)
        for number in turns or ():
            taken.append(number)
            yield unpacked(calls.shared[number])

    if calls.verb == "evaluate":
        return Answers([kernel.evaluate(*call) for call in in_turns()], taken, [])
    if store is None:
        answers = Answers(list(map(kernel.compute, in_turns())), taken, [])
    else:
        obtained = store.results(in_turns(), kernel.compute)
        answers = Answers(
            [each.results for each in obtained], taken, [each.origin for each in obtained]
        )
    if not kernel.computes_together:
        # The steps' memory, before the results of all processes are in one. Stacks reuse theirs.
        give_back_freed()
    return answers


def _context() -> SpawnContext | ForkContext:
    """Return the start method of helpers: fork where that is safe, else spawn."""
    if sys.platform == "linux":
        return multiprocessing.get_context("fork")
    return multiprocessing.get_context("spawn")


def _serve(
    kernel: Kernel,
    store: ResultsStore | None,
    turns: Turns | None,
    end: socket.socket,
    foreign: Sequence[socket.socket],
) -> None:
    """Answer calls in a helper until the other end is closed."""
    # Ctrl-C, and a scheduler's SIGTERM to all processes, are handled by the process that started
    # the helpers; it ends them.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for other in foreign:
        other.close()
    configure_torch()
    # No name here is bound to calls and results, which would be held until the next call.
    with suppress(EOFError, ConnectionError):
        while True:
            send(end, _answer(kernel, store, receive(end), turns))


def _answer(
    kernel: Kernel, store: ResultsStore | None, calls: Calls, turns: Turns | None
) -> tuple[str | None, Any]:
    """Return a fault and whether it is one of the user's code; or None and the results."""
    try:
        answers = _answers(kernel, store, calls, turns)
        return None, answers._replace(results=list(map(packed, answers.results)))
    except FleetsimError as fault:
        return str(fault), isinstance(fault, PluginError)
    except Exception:  # any fault: the process that sent the call raises it
        return traceback.format_exc(), None


def _reply(helper: Helper) -> Answers:
    try:
        fault, answer = receive(helper.end)
    except (EOFError, ConnectionError):
        raise _dead(helper) from None
    if fault is not None and answer is not None:
        raise (PluginError if answer else TrainingError)(fault)
    if fault is not None:
        raise TrainingError(f"a training process failed:\n{fault}")
    answers: Answers = answer
    return answers._replace(results=list(map(unpacked, answers.results)))


def _dead(helper: Helper) -> TrainingError:
    helper.process.join()
    return TrainingError(
        f"a training process ended with exit code {helper.process.exitcode}; -9 is a kill, for"
        " instance for lack of memory: fewer --workers need less of it"
    )


def _end(helpers: list[Helper]) -> None:
    """End helpers: close their sockets, and kill those that still compute."""
    for helper in helpers:
        helper.end.close()
    for helper in helpers:
        helper.process.kill()
        helper.process.join()
    helpers.clear()
