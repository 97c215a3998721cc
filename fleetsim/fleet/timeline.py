"""Timelines of phases: progress and energy at any moment, piecewise linear.

A phase (a transfer, a computation) is computed in advance as segments of constant rate of progress
and constant power. So its energy is exact, without sampling: E(t) = sum of P_i * dt_i up to t. A
timeline changes nothing in the world, and may be cut off anywhere.
"""

from dataclasses import dataclass

import numpy as np

from fleetsim.contracts import BoolArray, FloatArray, IntArray
from fleetsim.fleet.columns import Columns


@dataclass(frozen=True, slots=True, eq=False)
class Timelines(Columns):
    """Phases of n tasks, side by side; a batch costs little more than one.

    Row i uses its first `num_segments[i]` segments, none if the phase is empty; their edges
    strictly increase. In the rest no time passes: the edges repeat the last one, progress stays,
    power is 0. Progress starts at 0 and never falls. A row never depends on the other rows.
    """

    edges_s: FloatArray
    """Absolute times of the segment borders [n, m+1]."""
    progress: FloatArray
    """Work done at each edge [n, m+1]: bits of a transfer, unloaded seconds of a computation."""
    power_w: FloatArray
    """Power of each segment above what the device draws idle [n, m]."""
    num_segments: IntArray
    """Segments that each row uses [n]."""
    is_complete: BoolArray
    """False for a transfer that is given up or lost at the last edge [n]."""

    @property
    def start_s(self) -> FloatArray:
        """Virtual time at which each phase begins [n]."""
        return self.edges_s[:, 0]

    @property
    def end_s(self) -> FloatArray:
        """Virtual time at which each phase ends unless it is cut off [n]."""
        return self.edges_s[:, -1]

    def energy_until(self, t_s: FloatArray) -> FloatArray:
        """Return the joules from the start to t [n]: integrals of power, added in time order."""
        if self.power_w.shape[1] == 0:
            return np.zeros(len(t_s))
        edges_s = np.minimum(self.edges_s, t_s[:, np.newaxis])
        # Not by BLAS: its order of addition depends on the shape, so on the other rows.
        joules = np.cumsum(self.power_w * (edges_s[:, 1:] - edges_s[:, :-1]), axis=1)
        until_t: FloatArray = joules[:, -1]
        return until_t

    def progress_until(self, t_s: FloatArray) -> FloatArray:
        """Return the work done from the start to t [n], t not before the start."""
        done = self.progress[:, -1].copy()
        rows = np.flatnonzero(t_s < self.end_s)
        if rows.size:
            edges_s, progress, at_s = self.edges_s[rows], self.progress[rows], t_s[rows]
            here = np.arange(rows.size)
            left = (edges_s <= at_s[:, np.newaxis]).sum(axis=1) - 1
            width_s = edges_s[here, left + 1] - edges_s[here, left]
            rate = (progress[here, left + 1] - progress[here, left]) / width_s
            done[rows] = rate * (at_s - edges_s[here, left]) + progress[here, left]
        return done


TimelineGroups = list[tuple[IntArray, Timelines]]
"""(rows of some n phases, their timelines), rows with similar numbers of segments together."""


def blank(from_s: FloatArray, until_s: FloatArray) -> Timelines:
    """Return intervals [n] without progress and power; each ends after it begins."""
    nothing = np.zeros((from_s.size, 2))
    return Timelines(
        edges_s=np.stack([from_s, until_s], axis=1),
        progress=nothing,
        power_w=nothing[:, 1:],
        num_segments=np.ones(from_s.size, dtype=np.int64),
        is_complete=np.ones(from_s.size, dtype=np.bool_),
    )
