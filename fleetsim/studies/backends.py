"""Places where the runs of a study are carried out: processes of this machine, any executor.

`LocalProcesses` runs into the folders of the runs, so that an interrupted run continues. With
`RemoteTasks` only orders and finished tables travel.
"""

import multiprocessing
import os
import signal
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from multiprocessing.context import SpawnContext
from pathlib import Path
from typing import Any, Protocol

from fleetsim.errors import ScenarioError
from fleetsim.host.spawning import FreshContext
from fleetsim.studies.run_order import RunOrder, carry_out_and_return
from fleetsim.studies.run_process import END, RunProgress, begin, into_folder, kill_group

Files = Mapping[str, bytes]

_LOOK_PERIOD_S = 0.25


class Backend(Protocol):
    """Place where runs are carried out."""

    @property
    def shares_disk(self) -> bool:
        """True if runs are written into their folders, and False if their files come back."""

    @property
    def has_room(self) -> bool:
        """True if a further run would begin soon."""

    def submit(self, order: RunOrder, folder: Path) -> Future[Files | None]:
        """Begin a run; the result is its files, or None if they are in the folder."""

    def has_begun(self, future: Future[Files | None]) -> bool:
        """Return whether a run is being carried out, and does not wait for a place."""

    def give_up(self, future: Future[Files | None]) -> bool:
        """End a run that takes too long; return whether another may begin in its place."""

    def progress(self) -> list[RunProgress]:
        """Return the progress of runs since the last call."""

    def close(self) -> None:
        """End all runs; those on this machine save what they have."""


class LocalProcesses:
    """Processes of this machine, one run at a time each, every one with one thread.

    One that has called code of the user's own carries out no other run, which that code could
    reach. Each is an executor with pipes of its own: if the system kills one, no other run is lost
    or waits for a lock that the dead process holds.
    """

    shares_disk = True

    def __init__(self, jobs: int | None) -> None:
        if multiprocessing.current_process().daemon:
            raise ScenarioError(
                "this process is a daemon, as those of multiprocessing.Pool are, and may not start"
                " the processes of a study; use concurrent.futures.ProcessPoolExecutor"
            )
        # Spawned, not forked: torch has threads.
        self._context = FreshContext()
        self._jobs = jobs or os.cpu_count() or 1
        self._idle: list[_Child] = []
        self._busy: dict[Future[Files | None], _Child] = {}

    @property
    def has_room(self) -> bool:
        """True if a process is idle, or one more may begin."""
        self._collect()
        return len(self._busy) < self._jobs

    def _collect(self) -> None:
        """Return the processes of ended runs to the idle ones; a dead one is given up."""
        for future in [future for future in self._busy if future.done()]:
            child = self._busy.pop(future)
            if isinstance(future.exception(), BrokenProcessPool) or child.has_user_code:
                child.leave()
            else:
                self._idle.append(child)

    def submit(self, order: RunOrder, folder: Path) -> Future[Files | None]:
        """Begin a run in an idle process, or in a new one."""
        child = self._idle.pop() if self._idle else _Child(self._context)
        try:
            future = child.submit(order, folder)
        except BrokenProcessPool:
            # It was killed while it was idle.
            child.leave()
            child = _Child(self._context)
            future = child.submit(order, folder)
        self._busy[future] = child
        return future

    def has_begun(self, future: Future[Files | None]) -> bool:
        """Return whether the process of a run has started."""
        return future not in self._busy or self._busy[future].number is not None

    def give_up(self, future: Future[Files | None]) -> bool:
        """Kill the process of a run, and those that it has started."""
        child = self._busy.pop(future, None)
        if child is not None:
            child.kill()
        return True

    def progress(self) -> list[RunProgress]:
        """Return the progress of runs since the last call."""
        return [one for child in self._busy.values() for one in child.progress()]

    def close(self) -> None:
        """End all runs after their current round; what they have is saved."""
        children = [*self._idle, *self._busy.values()]
        try:
            for child in self._busy.values():
                child.ask_to_end()
            while wait(self._busy, timeout=_LOOK_PERIOD_S).not_done:
                # A full pipe would block a process before the end of its round.
                self.progress()
            self._collect()
            for child in self._idle:
                child.pool.shutdown(wait=True)
        finally:
            for child in children:
                child.leave()


class _Child:
    """Process that makes runs, with a pipe from it and one to it."""

    def __init__(self, context: SpawnContext) -> None:
        self.number: int | None = None
        """Number of the process, once it has started."""
        self.has_user_code = False
        """True if it calls or has called code of the user's own."""
        self._messages, messages = context.Pipe(duplex=False)
        requests, self._requests = context.Pipe(duplex=False)
        self.pool = ProcessPoolExecutor(
            1, mp_context=context, initializer=begin, initargs=(messages, requests)
        )

    def submit(self, order: RunOrder, folder: Path) -> Future[Files | None]:
        """Begin a run."""
        self.has_user_code = self.has_user_code or bool(order.plugins)
        with _without_ctrl_c():
            return self.pool.submit(into_folder, order, folder)

    def progress(self) -> list[RunProgress]:
        """Return the progress of its runs since the last call."""
        result: list[RunProgress] = []
        # Messages are shorter than a pipe's atomic write, so a kill leaves no part of one.
        while self._messages.poll():
            message = self._messages.recv()
            if isinstance(message, int):
                self.number = message
            else:
                result.append(message)
        return result

    def ask_to_end(self) -> None:
        """Ask the process to end its run after the current round."""
        with suppress(OSError):  # it is dead already
            self._requests.send_bytes(END)

    def kill(self) -> None:
        """End the process whatever it does, and those that it has started."""
        with suppress(ProcessLookupError):
            if self.number is not None:
                kill_group(self.number)
        self.leave()

    def leave(self) -> None:
        """Give the process up: if it is alive, it exits at once."""
        self._requests.close()
        self.pool.shutdown(wait=False, cancel_futures=True)


@contextmanager
def _without_ctrl_c() -> Iterator[None]:
    """Block Ctrl-C within the block, and for ever in a process that is started there."""
    # It would end a process that is not initialised yet, with a traceback.
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class RemoteTasks:
    """Any executor; it shares nothing with this process."""

    shares_disk = False
    has_room = True

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._futures: list[Future[Files | None]] = []

    def submit(self, order: RunOrder, folder: Path) -> Future[Files | None]:
        """Begin a run; its files come back as the result."""
        future: Future[Any] = self._executor.submit(carry_out_and_return, order)
        self._futures.append(future)
        return future

    def has_begun(self, future: Future[Files | None]) -> bool:
        """Return whether the executor says so."""
        return future.running()

    def give_up(self, future: Future[Files | None]) -> bool:
        """Cancel a run; an executor cannot end one that has begun, which keeps its place."""
        return future.cancel()

    def progress(self) -> list[RunProgress]:
        """Return nothing: an executor tells no progress of its tasks."""
        return []

    def close(self) -> None:
        """Cancel the runs that have not begun; the executor belongs to the caller."""
        for future in self._futures:
            future.cancel()
