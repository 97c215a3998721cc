"""Calls of trackers during a run, behind its recorder.

A tracker hears of a round after the recorder has it and the state after it, so that a tracker that
fails costs nothing: the run stops and is saved, and can be continued.
"""

from collections.abc import Callable, Sequence
from functools import partial

from fleetsim.contracts import (
    ClientRows,
    EndedRun,
    Recorder,
    RoundRow,
    State,
    TaskRow,
    TrackedRun,
    Tracker,
)
from fleetsim.errors import FleetsimError, PluginError, TrackerError
from fleetsim.host.user_code import one_line, user_code


class Following:
    """Recorder that passes everything on to another one, and rounds to trackers."""

    def __init__(self, recorder: Recorder, trackers: Sequence[Tracker]) -> None:
        self._recorder = recorder
        self._trackers = tuple(trackers)
        self._row: RoundRow | None = None
        """Round that trackers have not heard of."""

    def begin(self, run: TrackedRun) -> None:
        """Tell the trackers that the run begins or continues."""
        for tracker in self._trackers:
            _call(tracker, "begin", partial(tracker.begin, run))

    def task(self, row: TaskRow) -> None:
        """Pass on the row of a finished task."""
        self._recorder.task(row)

    def round(self, row: RoundRow) -> None:
        """Pass on the row of a finished round."""
        self._recorder.round(row)
        self._row = row

    def checkpoint(self, state: State, changed: ClientRows) -> None:
        """Pass on the state after a round, then tell the trackers of the round."""
        self._recorder.checkpoint(state, changed)
        row, self._row = self._row, None
        if row is None:
            return
        for tracker in self._trackers:
            _call(tracker, "round", partial(tracker.round, row))

    def end(self, run: EndedRun) -> None:
        """Tell the trackers that the run is done."""
        for fault in self._end_all(run):
            raise type(fault)(f"{_reason(fault)}; the run is complete in {run.folder}")

    def cut_short(self, run: EndedRun, because: BaseException) -> None:
        """Tell the trackers that the run was interrupted or failed; their faults become notes."""
        for fault in self._end_all(run):
            because.add_note(_reason(fault))

    def _end_all(self, run: EndedRun) -> list[TrackerError | PluginError]:
        failed: list[TrackerError | PluginError] = []
        for tracker in self._trackers:
            try:
                _call(tracker, "end", partial(tracker.end, run))
            except (TrackerError, PluginError) as fault:
                failed.append(fault)
        return failed


def _reason(fault: Exception) -> str:
    """Return the fault of a tracker without what follows for the run."""
    return str(fault).partition("; the run")[0]


def _call(tracker: Tracker, method: str, call: Callable[[], None]) -> None:
    """Call a tracker's method."""
    is_users = not type(tracker).__module__.startswith("fleetsim.")
    error = PluginError if is_users else TrackerError
    what = f"tracker {type(tracker).__name__}.{method}"
    try:
        with user_code(what, error):
            call()
    except FleetsimError as fault:
        message = str(fault) if fault.__cause__ is not None else f"{what} fails: {one_line(fault)}"
        raise error(
            f"{message}; the run is saved: continue it, without this tracker if you like"
        ) from fault
