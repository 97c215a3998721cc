"""Power of all tasks over time, by component, from their joules.

The joules of a component are spread evenly over the time in which they were spent: those of
compute, receive and transmit over computation, download and upload, those of tails, of which the
table has no time, and idle over the task without its pauses, and those of enlisted_idle over the
waiting after it. If that is less than a microsecond, they are spread over the task without its
pauses, and if that is shorter too, over a microsecond.

Powers are whole nanowatts, so that their sum has no rounding of its own and is 0 when no client
works. The integral of the power is the joules of the table to .5 nW times the lengths of the tasks.
"""

from collections.abc import Sequence

import numpy as np

from fleetsim.contracts import FloatArray, IntArray
from fleetsim.report.timeline import packets
from fleetsim.report.timeline.task_times import TaskTimes

W_PER_NW = 1e-9
_NW_PER_J_NS = 1e18
_SHORTEST_NS = 1000
_PHASES = {"compute": "compute", "receive": "download", "transmit": "upload"}

Steps = tuple[IntArray, IntArray]
"""Moments in nanoseconds, in order and each once, and changes of power in nanowatts."""


class PowerCounter:
    """The counter of a sum of powers, from changes that arrive in the order of dispatch.

    It holds the changes that later tasks may still add to.
    """

    def __init__(self, track: int) -> None:
        self._track = track
        self._level_nw = 0
        self._open: Steps = (np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))

    def add(self, *steps: Steps) -> None:
        """Add changes of power."""
        self._open = together([self._open, *steps])

    def take(self, before_ns: int) -> bytes:
        """Return the values up to a moment before which no further change will come, in watts."""
        at_ns, changes_nw = self._open
        num = int(np.searchsorted(at_ns, before_ns))
        self._open = at_ns[num:], changes_nw[num:]
        levels_nw = self._level_nw + changes_nw[:num].cumsum()
        self._level_nw = int(levels_nw[-1]) if num else self._level_nw
        return packets.counters(at_ns[:num], self._track, levels_nw * W_PER_NW).tobytes()


def together(parts: Sequence[Steps]) -> Steps:
    """Return the changes of the sum of powers."""
    at_ns = np.concatenate([moments for moments, _ in parts])
    changes_nw = np.concatenate([changes for _, changes in parts])
    if not at_ns.size:
        return at_ns, changes_nw
    order = np.argsort(at_ns, kind="stable")
    at_ns, changes_nw = at_ns[order], changes_nw[order]
    firsts = np.flatnonzero(np.diff(at_ns, prepend=at_ns[0] - 1))
    sums_nw = np.add.reduceat(changes_nw, firsts)
    is_change = sums_nw != 0
    return at_ns[firsts][is_change], sums_nw[is_change]


def power_steps(component: str, energy_j: FloatArray, times: TaskTimes) -> Steps:
    """Return the changes of the power of a component, of which each task spent `energy_j` [N]."""
    begin_ns, paused_ns = times.begin_ns, times.phase("paused")
    before = (begin_ns, paused_ns[0])
    after = (paused_ns[1], times.bounds_ns[:, -1])
    steps: list[Steps] = []
    is_left = energy_j > 0.0
    if component == "enlisted_idle":
        span = (times.end_ns, times.released_ns)
    elif component in _PHASES:
        span = times.phase(_PHASES[component])
    else:
        span = (begin_ns, begin_ns)
    short = (begin_ns, begin_ns + _SHORTEST_NS)
    for parts in ((span,), (before, after), (short,)):
        over_ns = np.sum([last_ns - first_ns for first_ns, last_ns in parts], axis=0)
        is_spread = is_left & (over_ns >= _SHORTEST_NS)
        energy, length_ns = energy_j[is_spread], over_ns[is_spread]
        power_nw = np.rint(energy / length_ns * _NW_PER_J_NS).astype(np.int64)
        for first_ns, last_ns in parts:
            steps.append((first_ns[is_spread], power_nw))
            steps.append((last_ns[is_spread], -power_nw))
        is_left &= ~is_spread
    return together(steps)
