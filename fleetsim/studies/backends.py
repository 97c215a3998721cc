"""Places where the runs of a study are carried out: processes of this machine, any executor.

`LocalProcesses` runs on this machine, into the folders of the runs, so that an interrupted run
continues. `RemoteTasks` runs on any `concurrent.futures.Executor`, such as that of a Dask cluster;
only orders and finished tables travel.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Mapping
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from queue import Empty
from typing import Any, NamedTuple, Protocol

from fleetsim.contracts import Progress
from fleetsim.progress import fraction_done
from fleetsim.scenario import Scenario
from fleetsim.studies.run_order import RunOrder, carry_out, carry_out_and_return

Files = Mapping[str, bytes]


class RunProgress(NamedTuple):
    """Progress of a run under way."""

    key: str
    fraction: float
    """Share of the run that is done, by the stop rule that is nearest."""
    round: int
    now_s: float
    accuracy: float | None


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

    def progress(self) -> list[RunProgress]:
        """Return the progress that runs have told since the last call."""

    def close(self) -> None:
        """End all runs; those on this machine save what they have."""


class LocalProcesses:
    """Processes of this machine, one run each, every one with one thread.

    Every process is an executor of its own: if the system kills one, no other run is lost.
    """

    shares_disk = True

    def __init__(self, jobs: int) -> None:
        # Spawned, not forked: torch has threads.
        context = multiprocessing.get_context("spawn")
        self._context = context
        self._told: Any = context.Queue()
        self._ends = context.Event()
        self._idle: list[ProcessPoolExecutor] = [self._new_pool() for _ in range(jobs)]
        self._busy: dict[Future[Files | None], ProcessPoolExecutor] = {}

    def _new_pool(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(
            1, mp_context=self._context, initializer=_begin, initargs=(self._told, self._ends)
        )

    @property
    def has_room(self) -> bool:
        """True if a process is idle."""
        self._collect()
        return bool(self._idle)

    def _collect(self) -> None:
        """Return the processes of ended runs to the idle ones; a broken one is replaced."""
        for future in [future for future in self._busy if future.done()]:
            pool = self._busy.pop(future)
            if isinstance(future.exception(), BrokenProcessPool):
                pool.shutdown(wait=False)
                pool = self._new_pool()
            self._idle.append(pool)

    def submit(self, order: RunOrder, folder: Path) -> Future[Files | None]:
        """Begin a run in an idle process."""
        pool = self._idle.pop()
        future: Future[Files | None] = pool.submit(_into_folder, order, folder)
        self._busy[future] = pool
        return future

    def progress(self) -> list[RunProgress]:
        """Return the progress that runs have told since the last call."""
        found = []
        while True:
            try:
                found.append(self._told.get_nowait())
            except Empty:
                return found

    def close(self) -> None:
        """End all runs after their current round; what they have is saved."""
        self._ends.set()
        for pool in (*self._idle, *self._busy.values()):
            pool.shutdown(wait=True, cancel_futures=True)


_PROCESS: dict[str, Any] = {}
"""State of a process that makes runs: the queue `told` and the event `ends`."""


def _begin(told: Any, ends: Any) -> None:
    """Initialise a process that makes runs."""
    # Ctrl-C reaches all processes of a terminal; the first one tells the others by `ends`.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _PROCESS.update(told=told, ends=ends)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Exit when the parent process has been killed, which nothing else would notice."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        # At once: a run survives a kill at any moment.
        os._exit(1)


def _into_folder(order: RunOrder, folder: Path) -> None:
    """Carry out an order in a process of its own."""

    def tell(scenario: Scenario, progress: Progress) -> None:
        if _PROCESS["ends"].is_set():
            raise KeyboardInterrupt
        _PROCESS["told"].put(
            RunProgress(
                order.key,
                fraction_done(scenario.stop, progress),
                progress.round,
                progress.now_s,
                progress.accuracy,
            )
        )

    try:
        carry_out(order, folder, on_progress=tell)
    except KeyboardInterrupt:
        # The executor takes results alone; the run has saved what it has.
        return


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

    def progress(self) -> list[RunProgress]:
        """Return nothing: an executor tells no progress of its tasks."""
        return []

    def close(self) -> None:
        """Cancel the runs that have not begun; the executor belongs to the caller."""
        for future in self._futures:
            future.cancel()
