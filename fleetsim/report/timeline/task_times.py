"""Moments of tasks in nanoseconds.

A moment is its virtual seconds times 1e9, rounded to the nearest integer; a float64 holds seconds
of a month to .5 ns. The table has the total time of a task's pauses, not the time of each: they are
put together before the upload, as in the figure of stragglers. What a task waits, enlisted, after
its end is its joules of waiting divided by the idle power of the same task.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from fleetsim.contracts import BoolArray, FloatArray, IntArray
from fleetsim.errors import DataError

PHASES: Final = ("download", "compute", "paused", "upload")
"""Phases of a task, and its pauses, in the order in which they are shown."""
WAITING: Final = "waiting"
"""Time after a task in which its client is enlisted."""
NEVER: Final = np.iinfo(np.int64).max
"""Moment after all others, in nanoseconds."""
_NS_PER_S = 1e9
_ROUNDING_NS = 1000


@dataclass(frozen=True, slots=True)
class TaskTimes:
    """Moments of N tasks, in nanoseconds."""

    begin_ns: IntArray
    """Dispatch [N]."""
    end_ns: IntArray
    """End of the task [N]."""
    bounds_ns: IntArray
    """Begin of each phase, and the end of the last [N, 5]."""
    released_ns: IntArray
    """End of the waiting after the task; the end of the task if it did not wait [N]."""

    def phase(self, name: str) -> tuple[IntArray, IntArray]:
        """Return begin and end of a phase of every task; equal where it has none."""
        index = PHASES.index(name)
        return self.bounds_ns[:, index], self.bounds_ns[:, index + 1]

    def only(self, rows: BoolArray) -> TaskTimes:
        """Return the moments of some of the tasks."""
        return TaskTimes(
            self.begin_ns[rows], self.end_ns[rows], self.bounds_ns[rows], self.released_ns[rows]
        )


def nanoseconds(seconds: FloatArray) -> IntArray:
    """Return moments in nanoseconds.

    >>> nanoseconds(np.array([0.25])).tolist()
    [250000000]
    """
    return np.rint(seconds * _NS_PER_S).astype(np.int64)


def task_times(tasks: pd.DataFrame) -> TaskTimes:
    """Return the moments of tasks."""

    def column(name: str) -> FloatArray:
        return tasks[name].to_numpy(dtype=np.float64)

    dispatched_s, finished_s = column("dispatched_at_s"), column("finished_at_s")
    lengths_s = np.stack([column(f"{phase}_s") for phase in PHASES], axis=1)
    begin_ns, end_ns = nanoseconds(dispatched_s), nanoseconds(finished_s)
    sums_s = dispatched_s[:, None] + lengths_s.cumsum(axis=1)
    bounds_ns = np.minimum(nanoseconds(sums_s), end_ns[:, None])
    # The last phase ends with its task, whatever the sum of the phases was rounded to.
    is_last = lengths_s[:, ::-1].cumsum(axis=1)[:, ::-1] - lengths_s <= 0.0
    is_near = end_ns[:, None] - bounds_ns <= _ROUNDING_NS
    bounds_ns = np.where(is_last & is_near, end_ns[:, None], bounds_ns)
    bounds_ns = np.maximum.accumulate(np.column_stack([begin_ns, bounds_ns]), axis=1)
    released_ns = end_ns
    if "energy_enlisted_idle_j" in tasks.columns:
        active_s, idle_j = finished_s - dispatched_s - column("paused_s"), column("energy_idle_j")
        waiting_s = np.zeros(len(tasks))
        np.divide(active_s, idle_j, out=waiting_s, where=idle_j > 0.0)
        waiting_s *= np.nan_to_num(column("energy_enlisted_idle_j"))
        released_ns = np.maximum(nanoseconds(finished_s + waiting_s), end_ns)
    return TaskTimes(begin_ns, end_ns, bounds_ns, released_ns)


def next_dispatches(tasks: pd.DataFrame, *, source: str) -> IntArray:
    """Return when the client of each task gets its next one, in nanoseconds; `NEVER` if not [N]."""
    clients = tasks["client"].to_numpy()
    begin_ns = nanoseconds(tasks["dispatched_at_s"].to_numpy(dtype=np.float64))
    end_ns = nanoseconds(tasks["finished_at_s"].to_numpy(dtype=np.float64))
    order = np.lexsort((tasks["task"], end_ns, begin_ns, clients))
    earlier, later = order[:-1], order[1:]
    is_same = clients[earlier] == clients[later]
    is_overlap = is_same & (begin_ns[later] < end_ns[earlier])
    if is_overlap.any():
        row = earlier[int(is_overlap.argmax())]
        raise DataError(
            f"{source}: task {tasks['task'].iloc[row]} of client {clients[row]} ends after the next"
            " task of this client begins; run the scenario again into a new folder"
        )
    next_ns = np.full(len(tasks), NEVER)
    next_ns[earlier[is_same]] = begin_ns[later[is_same]]
    return next_ns
