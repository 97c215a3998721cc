"""Calls of trackers during a run, behind its recorder.

A tracker hears of a round after the recorder has it and the state after it, so that a tracker that
fails costs nothing: the run stops and is saved, and can be continued.
"""

from __future__ import annotations

import traceback
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
from fleetsim.errors import TrackerError


class Following:
    """Recorder that passes everything on to another one, and rounds to trackers."""

    def __init__(self, recorder: Recorder, trackers: Sequence[Tracker]) -> None:
        self._recorder = recorder
        self._trackers = tuple(trackers)
        self._row: RoundRow | None = None
        """Round that trackers have not heard of."""

    def begin(self, run: TrackedRun) -> None:
        """Tell the trackers that the run begins or continues.

        Raises:
            TrackerError: one of them failed.
        """
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
        """Pass on the state after a round, then tell the trackers of the round.

        Raises:
            TrackerError: one of them failed.
        """
        self._recorder.checkpoint(state, changed)
        row, self._row = self._row, None
        if row is None:
            return
        for tracker in self._trackers:
            _call(tracker, "round", partial(tracker.round, row))

    def end(self, run: EndedRun) -> None:
        """Tell the trackers that the run is done.

        Raises:
            TrackerError: one of them failed, after all have been told.
        """
        failed = self._end_all(run)
        if failed:
            raise TrackerError(f"{failed[0]}; the run is complete in {run.folder}")

    def cut_short(self, run: EndedRun, because: BaseException) -> None:
        """Tell the trackers that the run was interrupted or failed; their faults become notes."""
        for says in self._end_all(run):
            because.add_note(says)

    def _end_all(self, run: EndedRun) -> list[str]:
        failed = []
        for tracker in self._trackers:
            try:
                _call(tracker, "end", partial(tracker.end, run))
            except TrackerError as fault:
                failed.append(str(fault).partition("; the run")[0])
        return failed


def _call(tracker: Tracker, method: str, call: Callable[[], None]) -> None:
    """Call a tracker's method.

    Raises:
        TrackerError: it failed.
    """
    try:
        call()
    except Exception as fault:
        frames = traceback.extract_tb(fault.__traceback__)
        where = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
        text = " ".join(f"{type(fault).__name__}: {fault}".split())
        raise TrackerError(
            f"tracker {type(tracker).__name__}.{method} failed: {text}{where}; the run is saved:"
            " continue it, without this tracker if you like"
        ) from fault
