"""CPU credits of burstable instances: full speed while they last, then the baseline.

A balance is counted in seconds of all v vCPUs at 100 % (60 / v of them a credit). With the baseline
b, launch credits L and earned credits E, from use u in [0, 1],

    dL/dt = -u and dE/dt = b while L > 0;  dE/dt = b - u afterwards;  0 <= E <= maximum,

so that full use spends them in L + (E + b L) / (1 - b) seconds if the maximum is not met. Rules and
sources: docs/device-speeds.md (CPU credits).
"""

from dataclasses import dataclass

import numpy as np

from fleetsim.contracts import FloatArray
from fleetsim.fleet.columns import Columns
from fleetsim.units import S_PER_HOUR, S_PER_MINUTE


@dataclass(frozen=True, slots=True)
class CreditProfile:
    """Credits of one type of instance."""

    num_vcpus: int
    per_hour: float
    """Credits earned in an hour."""
    maximum: float
    """Limit of the earned credits."""
    launch: float
    """Credits at launch, in addition to earned ones."""

    @property
    def baseline_fraction(self) -> float:
        """Use of each vCPU at which credits are spent as fast as they are earned."""
        return self.per_hour * S_PER_MINUTE / (self.num_vcpus * S_PER_HOUR)


@dataclass(frozen=True, slots=True, eq=False)
class Credits(Columns):
    """Rules of n instances, in seconds of all their vCPUs; NaN where an instance has no credits."""

    baseline: FloatArray
    """Use that the earnings pay for [n]."""
    maximum_s: FloatArray
    """Limit of the earned seconds [n]."""
    initial_s: FloatArray
    """Seconds at launch [n]."""

    def full_use_s(self, launch_s: FloatArray, earned_s: FloatArray) -> FloatArray:
        """Return the seconds that balances [n] last at full use [n]; inf if earnings pay for it."""
        held_s = np.minimum(earned_s + self.baseline * launch_s, self.maximum_s)
        spending = 1.0 - self.baseline
        lasts_s = np.full(launch_s.size, np.inf)
        np.divide(held_s, spending, out=lasts_s, where=spending > 0.0)
        lasts_s += launch_s
        return lasts_s

    def after(
        self, launch_s: FloatArray, earned_s: FloatArray, use: FloatArray, seconds: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return balances [n] after seconds [n] of demand for the share `use` [n] of all vCPUs."""
        lasts = use * seconds < launch_s
        first_s = seconds.copy()
        np.divide(launch_s, use, out=first_s, where=~lasts & (use > 0.0))
        first_s = np.minimum(first_s, seconds)
        left_s = np.where(lasts, launch_s - use * seconds, 0.0)
        earned_s = np.minimum(earned_s + self.baseline * first_s, self.maximum_s)
        earned_s = earned_s + (self.baseline - use) * (seconds - first_s)
        return left_s, np.clip(earned_s, 0.0, self.maximum_s)


def credits_of(profiles: list[CreditProfile | None]) -> Credits | None:
    """Return the credit rules of several types of device; None if none of them has credits."""
    if not any(profiles):
        return None
    rows = [
        (np.nan, np.nan, np.nan)
        if profile is None
        else (
            profile.baseline_fraction,
            profile.maximum * S_PER_MINUTE / profile.num_vcpus,
            profile.launch * S_PER_MINUTE / profile.num_vcpus,
        )
        for profile in profiles
    ]
    baseline, maximum_s, initial_s = np.array(rows).T.copy()
    return Credits(baseline, maximum_s, initial_s)
