"""How far a phase of a task has got at any moment, and what it has cost: piecewise linear.

A phase (a transfer, a computation) is laid out ahead as segments in which its rate of progress
and its power are constant. Energy is then exact: E(t) = sum of P_i * dt_i up to t, and nobody
samples power. Laying a phase out changes nothing in the world; it may be cut off anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fleetsim.contracts import FloatArray


@dataclass(frozen=True, slots=True)
class Timeline:
    """One phase, laid out from start to end.

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
    """False for a transfer that the channel gives up on at the last edge."""

    @property
    def start_s(self) -> float:
        """Virtual time at which the phase begins."""
        return float(self.edges_s[0])

    @property
    def end_s(self) -> float:
        """Virtual time at which the phase ends if nothing cuts it off."""
        return float(self.edges_s[-1])

    def energy_until(self, t_s: float) -> float:
        """Joules from the start to t: the exact integral of power."""
        if self.power_w.size == 1:
            width_s = min(max(t_s, self.start_s), self.end_s) - self.start_s
            return float(self.power_w[0]) * width_s
        edges_s = self.edges_s if t_s >= self.edges_s[-1] else np.minimum(self.edges_s, t_s)
        return float(np.dot(self.power_w, edges_s[1:] - edges_s[:-1]))

    def progress_until(self, t_s: float) -> float:
        """Work done from the start to t."""
        if t_s >= self.edges_s[-1]:
            return float(self.progress[-1])
        return float(np.interp(t_s, self.edges_s, self.progress))


def empty(at_s: float) -> Timeline:
    """A phase with nothing to do."""
    return Timeline(np.array([at_s]), np.zeros(1), np.empty(0), is_complete=True)
