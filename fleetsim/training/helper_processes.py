"""Helper processes of a pool: their start, calls, answers and end.

Where the system can fork, helpers are forked: they share the samples' memory and need no start-up.
Each communicates with this process over a socket (`ipc`) and computes on one torch thread.
"""

import multiprocessing
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

from fleetsim.errors import FleetsimError, PluginError, TrainingError
from fleetsim.kernels.base import Kernel
from fleetsim.learning.torch_settings import configure_torch
from fleetsim.training.ipc import packed, receive, send, unpacked
from fleetsim.training.results_store import ResultsStore


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
        self.running: list[Helper] = []
        # Runs before multiprocessing's own clean-up, which sends helpers SIGTERM, which they
        # ignore, and would wait for them forever.
        self._finalizer = Finalize(self, _end, (self.running,), exitpriority=0)

    def request(self, verb: str, calls: Sequence[Sequence[Any]]) -> None:
        """Send each of the first helpers its calls."""
        self._start(len(calls))
        with self.ended_by_faults():
            for helper, theirs in zip(self.running, calls, strict=False):
                try:
                    send(helper.end, (verb, [packed(call) for call in theirs]))
                except ConnectionError:
                    raise _dead(helper) from None

    def replies(self, num_helpers: int) -> list[list[Any]]:
        """Return the first helpers' answers; TrainingError or PluginError: one failed or died."""
        with self.ended_by_faults():
            return [_reply(helper) for helper in self.running[:num_helpers]]

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

    def _start(self, num_helpers: int) -> None:
        context = _context()
        while len(self.running) < num_helpers:
            ours, theirs = socket.socketpair()
            # A helper must not hold this process's ends: it would outlive the process.
            foreign = [helper.end for helper in self.running] + [ours]
            is_forked = context.get_start_method() == "fork"
            process = context.Process(
                target=_serve,
                args=(self._kernel, self._store, theirs, foreign if is_forked else []),
                name=f"fleetsim training {len(self.running) + 1}",
                daemon=True,
            )
            with warnings.catch_warnings():
                # Python warns of forks beside threads; helpers use torch and numpy on one thread.
                warnings.filterwarnings("ignore", ".*use of fork.*", DeprecationWarning)
                process.start()
            theirs.close()
            self.running.append(Helper(process, ours))


def answered(
    kernel: Kernel, store: ResultsStore | None, verb: str, calls: Sequence[Any]
) -> list[Any]:
    """Return the answers to calls, computed in this process.

    With a store, the answers to "compute" are followed by a tuple of their origins.
    """
    if verb == "compute" and store is not None:
        obtained = store.results(calls, kernel.compute)
        return [*(each.results for each in obtained), tuple(each.origin for each in obtained)]
    if verb == "compute":
        return [kernel.compute(jobs) for jobs in calls]
    return [kernel.evaluate(*call) for call in calls]


def _context() -> SpawnContext | ForkContext:
    """Return the start method of helpers: fork where that is safe, else spawn."""
    if sys.platform == "linux":
        return multiprocessing.get_context("fork")
    return multiprocessing.get_context("spawn")


def _serve(
    kernel: Kernel,
    store: ResultsStore | None,
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
    while True:
        try:
            verb, calls = receive(end)
        except (EOFError, ConnectionError):
            return
        # A fault and whether it is one of the user's code; or None and the results.
        answer: tuple[str | None, Any]
        try:
            results = answered(kernel, store, verb, [unpacked(call) for call in calls])
            answer = (None, [packed(result) for result in results])
        except FleetsimError as fault:
            answer = (str(fault), isinstance(fault, PluginError))
        except Exception:  # any fault: the process that sent the call raises it
            answer = (traceback.format_exc(), None)
        try:
            send(end, answer)
        except ConnectionError:
            return


def _reply(helper: Helper) -> list[Any]:
    try:
        fault, answer = receive(helper.end)
    except (EOFError, ConnectionError):
        raise _dead(helper) from None
    if fault is not None and answer is not None:
        raise (PluginError if answer else TrainingError)(fault)
    if fault is not None:
        raise TrainingError(f"a training process failed:\n{fault}")
    return [unpacked(result) for result in answer]


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
