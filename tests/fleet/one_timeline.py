"""One phase of a task: what `Timelines` says of a row, by plain sums."""

from dataclasses import dataclass

import numpy as np

from fleetsim.contracts import FloatArray
from fleetsim.fleet.timeline import Timelines


@dataclass(frozen=True, slots=True)
class Timeline:
    """One phase from start to end.

    Invariant: edges strictly increase unless the phase is empty (one edge, no segment);
    `progress` starts at 0 and never falls.
    """

    edges_s: FloatArray
    """Absolute times of the segment borders [n+1]."""
    progress: FloatArray
    """Work done at each edge [n+1]: bits of a transfer, unloaded seconds of a computation."""
    power_w: FloatArray
    """Power of this phase's component in each segment, above what the device draws idle [n]."""
    is_complete: bool
    """False for a transfer that is given up or lost at the last edge."""

    @property
    def start_s(self) -> float:
        """Virtual time at which the phase begins."""
        return float(self.edges_s[0])

    @property
    def end_s(self) -> float:
        """Virtual time at which the phase ends unless it is cut off."""
        return float(self.edges_s[-1])

    def energy_until(self, t_s: float) -> float:
        """Return the joules from the start to t: the integral of power, added in time order."""
        if self.power_w.size == 0:
            return 0.0
        edges_s = np.minimum(self.edges_s, t_s)
        return float(np.cumsum(self.power_w * (edges_s[1:] - edges_s[:-1]))[-1])

    def progress_until(self, t_s: float) -> float:
        """Return the work done from the start to t."""
        if t_s >= self.edges_s[-1]:
            return float(self.progress[-1])
        return float(np.interp(t_s, self.edges_s, self.progress))


def row_of(timelines: Timelines, index: int) -> Timeline:
    """The phase of one row."""
    num = int(timelines.num_segments[index])
    return Timeline(
        timelines.edges_s[index, : num + 1],
        timelines.progress[index, : num + 1],
        timelines.power_w[index, :num],
        bool(timelines.is_complete[index]),
    )
