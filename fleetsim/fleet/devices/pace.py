"""Steps of speed and power of computations, before background load."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fleetsim.contracts import FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Paces:
    """Steps of n computations of unknown length; step j of a row begins where j - 1 ends.

    Every row has a step that never ends; values after it have no meaning.
    """

    until_s: FloatArray
    """Absolute times at which the steps end [n, m], ascending along a row."""
    speed: FloatArray
    """Progress in each step divided by that at full speed, in (0, 1] [n, m]."""
    power: FloatArray
    """Power in each step divided by that at full speed, in (0, 1] [n, m]."""

    def at(self, rows: IntArray, t_s: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return speed and power of rows [k] at times [k], and until when they hold, after t."""
        step = (self.until_s[rows] <= t_s[:, np.newaxis]).sum(axis=1)
        return self.speed[rows, step], self.power[rows, step], self.until_s[rows, step]
