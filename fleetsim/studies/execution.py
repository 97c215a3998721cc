"""Execution of a study: the runs that are missing are carried out, and repeated if they fail.

Damaged runs are set aside first, and are missing then. A run that another process is writing begins
here only if that process ends without a result.
"""

import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from concurrent.futures.process import BrokenProcessPool
from typing import NamedTuple, Protocol

from fleetsim.errors import DataError, FleetsimError
from fleetsim.host.termination import terminable
from fleetsim.quoting import one_line
from fleetsim.record.run_folder import RunIsBusyError
from fleetsim.record.saved_run import Run
from fleetsim.studies.backends import Backend, Files
from fleetsim.studies.planned_run import PlannedRun
from fleetsim.studies.run_order import order_of, receive
from fleetsim.studies.run_process import RunProgress, output_of
from fleetsim.studies.run_store import RunStore, SetAside, for_study
from fleetsim.studies.study import Study, stored_cells

MOST_ATTEMPTS = 2
"""Number of times that a run is carried out before it counts as failed."""
_LOOK_PERIOD_S = 0.25


class Watcher(Protocol):
    """Display of the progress of a study."""

    def checking(self, num_checked: int, num_complete: int) -> None:
        """Show that the tables of so many complete runs have been compared with their digests."""

    def begin(self, *, num_done: int, missing: Sequence[PlannedRun]) -> None:
        """Begin with these runs complete and missing."""

    def set_aside(self, planned: PlannedRun, aside: SetAside) -> None:
        """Show that a run was damaged, and is carried out again."""

    def started(self, planned: PlannedRun) -> None:
        """Show that a run was given to the backend."""

    def waiting(self, planned: PlannedRun) -> None:
        """Show that another process is writing a run."""

    def progress(self, updates: Sequence[RunProgress]) -> None:
        """Show progress; called several times a second."""

    def finished(self, planned: PlannedRun) -> None:
        """Show that a run is complete, by whichever process."""

    def failed(self, planned: PlannedRun, reason: str, *, is_final: bool) -> None:
        """Show that a run failed; it is repeated unless that is final."""

    def ending(self) -> None:
        """Show that the execution was interrupted, and waits for the runs under way to end."""


class Execution(NamedTuple):
    """Result of an execution."""

    num_found: int
    """Number of runs that were complete before."""
    num_made: int
    num_taken: int
    """Number of runs that other processes have completed since."""
    failures: dict[str, str]
    """Reasons of the runs that failed, by key."""


@terminable()
def execute(
    study: Study,
    store: RunStore,
    backend: Backend,
    watcher: Watcher,
    *,
    on_finished: Callable[[Run], None] = lambda run: None,
    timeout_s: float | None = None,
) -> Execution:
    """Carry out the runs of a study that are not complete.

    A run that fails is repeated once, after all others have begun. Its second failure is on record
    in the study's folder, and the other runs go on. A run that takes longer than `timeout_s` of
    host time in one attempt is ended, and has failed; what it has saved is kept, as are all
    complete runs after an interrupt.
    """
    with store.locked(study.settings.name):
        study.save(store.study_folder(study.settings.name))
        store.save_cells(study.settings.name, stored_cells(study))
        failures: dict[str, str] = {}
        try:
            runs = {planned.key: planned for planned in study.runs}
            aside = _set_aside(list(runs.values()), store, watcher, failures)
            missing = [
                planned
                for planned in runs.values()
                if planned.key in failures or store.status(planned) != "done"
            ]
            watcher.begin(num_done=len(runs) - len(missing), missing=missing)
            for key, renamed in aside.items():
                watcher.set_aside(runs[key], renamed)
            for key, reason in failures.items():
                watcher.failed(runs[key], reason, is_final=True)
            under_way = _UnderWay(store, backend, watcher, failures, on_finished, timeout_s)
            under_way.carry_out([planned for planned in missing if planned.key not in failures])
        except KeyboardInterrupt:
            if backend.shares_disk:
                watcher.ending()
            raise
        finally:
            try:
                backend.close()
            finally:
                store.save_failures(study.settings.name, failures)
    num_taken = under_way.num_taken
    num_made = len(missing) - len(failures) - num_taken
    return Execution(len(runs) - len(missing), num_made, num_taken, failures)


def _set_aside(
    runs: Sequence[PlannedRun], store: RunStore, watcher: Watcher, failures: dict[str, str]
) -> dict[str, SetAside]:
    """Rename the folders of damaged runs; those that cannot be renamed are failures."""
    aside = {}
    present = [planned for planned in runs if store.status(planned) != "missing"]
    for number, planned in enumerate(present, start=1):
        try:
            renamed = store.set_damaged_aside(planned)
        except DataError as fault:
            failures[planned.key] = for_study(one_line(str(fault)))
        else:
            if renamed is not None:
                aside[planned.key] = renamed
        watcher.checking(number, len(present))
    return aside


class _UnderWay:
    """Runs that wait, that the backend carries out, and that other processes write."""

    def __init__(
        self,
        store: RunStore,
        backend: Backend,
        watcher: Watcher,
        failures: dict[str, str],
        on_finished: Callable[[Run], None],
        timeout_s: float | None,
    ) -> None:
        self._store, self._backend, self._watcher = store, backend, watcher
        self._failures, self._on_finished = failures, on_finished
        self._waiting: deque[PlannedRun] = deque()
        self._running: dict[Future[Files | None], PlannedRun] = {}
        self._elsewhere: list[PlannedRun] = []
        self._attempts: Counter[str] = Counter()
        self._timeout_s = timeout_s
        self._begun_s: dict[Future[Files | None], float] = {}
        """Host time at which a run under way was first seen to have begun."""
        self._last_s = time.monotonic()
        """Host time at which a run last began or ended."""
        self._loses_places = False
        """True once a run was given up that still has its place."""
        self.num_taken = 0

    def carry_out(self, missing: Sequence[PlannedRun]) -> None:
        """Carry out runs until each is complete or has failed for good."""
        self._waiting.extend(missing)
        while self._waiting or self._running or self._elsewhere:
            while self._waiting and self._backend.has_room:
                self._begin(self._waiting.popleft())
            if self._running:
                ended, _ = wait(self._running, timeout=_LOOK_PERIOD_S, return_when=FIRST_COMPLETED)
            else:
                ended = set()
                if self._elsewhere:
                    time.sleep(_LOOK_PERIOD_S)
            self._watcher.progress(self._backend.progress())
            for future in ended:
                self._end(future)
            if self._timeout_s is not None:
                self._end_overdue(self._timeout_s)
            left = [planned for planned in self._elsewhere if not self._store.is_busy(planned)]
            self._elsewhere = [planned for planned in self._elsewhere if planned not in left]
            self._waiting.extendleft(left)

    def _begin(self, planned: PlannedRun) -> None:
        if self._store.is_busy(planned):
            self._leave(planned)
        elif self._store.status(planned) == "done":
            self.num_taken += 1
            self._finish(planned)
        else:
            self._attempts[planned.key] += 1
            self._watcher.started(planned)
            self._running[_submitted(planned, self._store, self._backend)] = planned

    def _end_overdue(self, timeout_s: float) -> None:
        """Give up the runs that take too long, and those for which no place is left."""
        now_s = time.monotonic()
        for future, planned in list(self._running.items()):
            if future.done():
                continue
            if future not in self._begun_s and self._backend.has_begun(future):
                self._begun_s[future] = self._last_s = now_s
            begun_s = self._begun_s.get(future)
            if begun_s is not None and now_s - begun_s > timeout_s:
                reason = f"took longer than --timeout-s {timeout_s:g} s, and was ended"
            elif begun_s is None and self._loses_places and now_s - self._last_s > timeout_s:
                reason = "did not begin: its executor still has the runs that took too long"
            else:
                continue
            self._loses_places |= not self._backend.give_up(future)
            del self._running[future]
            self._fail(planned, reason)

    def _fail(self, planned: PlannedRun, reason: str) -> None:
        path = output_of(self._store.folder(planned))
        if path.is_file() and path.stat().st_size:
            reason = f"{reason}; what it printed is in {path}"
        self._watcher.failed(planned, reason, is_final=True)
        self._failures[planned.key] = reason

    def _leave(self, planned: PlannedRun) -> None:
        self._elsewhere.append(planned)
        self._watcher.waiting(planned)

    def _end(self, future: Future[Files | None]) -> None:
        planned = self._running.pop(future)
        self._last_s = time.monotonic()
        try:
            reason = _failure(future, planned, self._store)
        except RunIsBusyError:
            # It was begun there a moment before.
            self._attempts[planned.key] -= 1
            self._leave(planned)
            return
        if reason is None:
            self._finish(planned)
            return
        if self._attempts[planned.key] >= MOST_ATTEMPTS:
            self._fail(planned, reason)
        else:
            self._watcher.failed(planned, reason, is_final=False)
            self._waiting.append(planned)

    def _finish(self, planned: PlannedRun) -> None:
        done = self._store.open(planned)
        assert done is not None
        self._on_finished(done)
        self._watcher.finished(planned)


def _submitted(planned: PlannedRun, store: RunStore, backend: Backend) -> Future[Files | None]:
    """Give a run to the backend; an order that cannot be written is a failed run."""
    try:
        order = order_of(
            planned, travels=not backend.shares_disk, results_cache=store.results_cache
        )
    except FleetsimError as fault:
        failed: Future[Files | None] = Future()
        failed.set_exception(fault)
        return failed
    return backend.submit(order, store.folder(planned))


def _failure(future: Future[Files | None], planned: PlannedRun, store: RunStore) -> str | None:
    """Return why a run failed, in one line; None if it is complete."""
    try:
        files = future.result()
        if files is not None:
            receive(files, planned, store.folder(planned))
        if store.status(planned) == "done":
            return None
    except BrokenProcessPool:
        or_plugin = " or was ended by its plug-in" if planned.scenario.plugins else ""
        return (
            f"its process was killed, as the system does when memory is short{or_plugin}; run fewer"
            " at a time with --workers, or lower the fleet, the model or the data set"
        )
    except (RunIsBusyError, KeyboardInterrupt):
        raise
    except CancelledError:
        return "its executor has cancelled it"
    except BaseException as fault:  # whatever a run raised is its reason; the others go on
        name = "" if isinstance(fault, FleetsimError) else f"{type(fault).__name__}: "
        return for_study(one_line(f"{name}{fault}"))
    return "its process was ended before the run was complete"
