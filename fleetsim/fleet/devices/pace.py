"""Steps of speed and power of computations, before background load, and the law of their clock.

At the share theta of the full clock a computation that takes T at full clock takes

    T * (beta / theta + 1 - beta)

and draws theta^2 of the power above idle: the share beta of its time (`clock_share`) is bound by
the clock, the rest waits for memory, which keeps its own clock. docs/device-speeds.md (A lower
clock) has the measurements.
"""

from dataclasses import dataclass

import numpy as np

from fleetsim.contracts import FloatArray, IntArray


def speed_at(clock_fraction: FloatArray | float, clock_share: FloatArray) -> FloatArray:
    """Return speed over that at full clock, at this share of the full clock, elementwise.

    >>> speed_at(0.5, np.array([1.0, 0.0, 0.27])).round(4).tolist()
    [0.5, 1.0, 0.7874]
    """
    return np.asarray(clock_fraction / (clock_share + (1.0 - clock_share) * clock_fraction))


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
