"""Execution of a study: the runs that are missing are carried out, and repeated if they fail."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from concurrent.futures.process import BrokenProcessPool
from typing import NamedTuple, Protocol

from fleetsim.errors import FleetsimError
from fleetsim.host.termination import terminable
from fleetsim.quoting import one_line
from fleetsim.record.saved_run import Run
from fleetsim.studies.backends import Backend, Files, RunProgress
from fleetsim.studies.run_order import order_of, receive
from fleetsim.studies.run_store import RunStore
from fleetsim.studies.study import PlannedRun, Study

MOST_ATTEMPTS = 2
"""Number of times that a run is carried out before it counts as failed."""
_LOOK_PERIOD_S = 0.25


class Watcher(Protocol):
    """Display of the progress of a study."""

    def begin(self, *, num_done: int, missing: Sequence[PlannedRun]) -> None:
        """Begin with these runs complete and missing."""

    def started(self, planned: PlannedRun) -> None:
        """Show that a run was given to the backend."""

    def progress(self, found: Sequence[RunProgress]) -> None:
        """Show progress; called several times a second."""

    def finished(self, planned: PlannedRun) -> None:
        """Show that a run is complete."""

    def failed(self, planned: PlannedRun, reason: str, *, is_final: bool) -> None:
        """Show that a run failed; it is repeated unless that is final."""

    def ending(self) -> None:
        """Show that the execution was interrupted, and waits for the runs under way to end."""


class Execution(NamedTuple):
    """Result of an execution."""

    num_found: int
    """Number of runs that were complete before."""
    num_made: int
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
) -> Execution:
    """Carry out the runs of a study that are not complete.

    A run that fails is repeated once, after all others have begun. Its second failure is on record
    in the study's folder, and the other runs go on. A run whose folder is damaged counts as failed.

    Raises:
        DataError: another process executes the study, its folder cannot be written, or a cluster
            has gone.
        KeyboardInterrupt: interrupted; complete runs are kept.
        Terminated: the same by SIGTERM, in the main thread of a program that does not handle it.
    """
    with store.locked(study.settings.name):
        missing = {
            planned.key: planned for planned in study.runs if store.status(planned) != "done"
        }
        num_found = len({planned.key for planned in study.runs}) - len(missing)
        watcher.begin(num_done=num_found, missing=list(missing.values()))
        failures: dict[str, str] = {}
        try:
            _carry_out(
                _usable(missing, store, watcher, failures),
                store,
                backend,
                watcher,
                failures,
                on_finished,
            )
        except KeyboardInterrupt:
            if backend.shares_disk:
                watcher.ending()
            raise
        finally:
            try:
                backend.close()
            finally:
                store.save_failures(study.settings.name, failures)
    return Execution(num_found, len(missing) - len(failures), failures)


def _usable(
    missing: dict[str, PlannedRun], store: RunStore, watcher: Watcher, failures: dict[str, str]
) -> list[PlannedRun]:
    """Return the runs whose folders are not damaged; the others are failures."""
    found = []
    for planned in missing.values():
        reason = store.damage(planned)
        if reason is None:
            found.append(planned)
        else:
            failures[planned.key] = reason
            watcher.failed(planned, reason, is_final=True)
    return found


def _carry_out(
    missing: Sequence[PlannedRun],
    store: RunStore,
    backend: Backend,
    watcher: Watcher,
    failures: dict[str, str],
    on_finished: Callable[[Run], None],
) -> None:
    waiting = deque(missing)
    attempts: Counter[str] = Counter()
    running: dict[Future[Files | None], PlannedRun] = {}
    while waiting or running:
        while waiting and backend.has_room:
            planned = waiting.popleft()
            attempts[planned.key] += 1
            watcher.started(planned)
            running[_submitted(planned, store, backend)] = planned
        ended, _ = wait(running, timeout=_LOOK_PERIOD_S, return_when=FIRST_COMPLETED)
        watcher.progress(backend.progress())
        for future in ended:
            planned = running.pop(future)
            reason = _failure(future, planned, store)
            if reason is None:
                done = store.open(planned)
                assert done is not None
                on_finished(done)
                watcher.finished(planned)
                continue
            is_final = attempts[planned.key] >= MOST_ATTEMPTS
            watcher.failed(planned, reason, is_final=is_final)
            if is_final:
                failures[planned.key] = reason
            else:
                waiting.append(planned)


def _submitted(planned: PlannedRun, store: RunStore, backend: Backend) -> Future[Files | None]:
    """Give a run to the backend; an order that cannot be written is a failed run."""
    try:
        order = order_of(planned, travels=not backend.shares_disk)
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
        return (
            "its process was killed, as the system does when memory is short; run fewer at a time"
            " with --jobs, or lower the fleet, the model or the data set"
        )
    except CancelledError:
        return "its executor has cancelled it"
    except Exception as fault:  # whatever a run raised is its reason; the others go on
        name = "" if isinstance(fault, FleetsimError) else f"{type(fault).__name__}: "
        return one_line(f"{name}{fault}")
    return "its process was ended before the run was complete"
