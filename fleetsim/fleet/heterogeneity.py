"""Spread of clients' speeds and bandwidths: multipliers whose mean stays 1.

At severity s a client's rate is that of its device (of its link) times

    m = exp(sigma Z - sigma^2 / 2),   Z ~ N(0, 1),   sigma = s * MOST_SIGMA.

The distribution is cut into hundredths, and the mean of m in each is one value. Client i gets value
i of an endless row of shuffled copies of these 100 values. Effects: docs/models/heterogeneity.md.
"""

from statistics import NormalDist

import numpy as np

from fleetsim import rng
from fleetsim.contracts import FloatArray
from fleetsim.schema.ranges import Severity
from fleetsim.settings import Settings

MOST_SIGMA = 1.0
"""Spread of the logarithm at severity 1: the fastest tenth is 13 times the slowest tenth."""
NUM_VALUES = 100


class HeterogeneitySettings(Settings):
    """Spread of clients beyond their devices and places, from none (0) to severe (1)."""

    speed: Severity = 0.0
    """Spread of the clients' computing rates; their arithmetic mean is kept."""
    bandwidth: Severity = 0.0
    """Spread of the clients' rates on their links, both ways; their arithmetic mean is kept."""

    def speed_multiples(self, *, seed: int, size: int) -> FloatArray:
        """Return every client's computing rate over that of its device [N]."""
        return multipliers(self.speed, "heterogeneity/speed", seed=seed, size=size)

    def bandwidth_multiples(self, *, seed: int, size: int) -> FloatArray | None:
        """Return every client's rates over those of its link [N]; None: 1 for all clients."""
        if self.bandwidth == 0.0:
            return None
        return multipliers(self.bandwidth, "heterogeneity/bandwidth", seed=seed, size=size)


def multipliers(severity: float, purpose: str, *, seed: int, size: int) -> FloatArray:
    """Draw multipliers [N]; each depends on (seed, purpose, client) and the severity in [0, 1]."""
    if severity == 0.0:
        return np.broadcast_to(np.float64(1.0), (size,))
    num_copies = -(-size // NUM_VALUES)
    order = rng.stream(seed, purpose).random((num_copies, NUM_VALUES)).argsort(axis=1)
    drawn: FloatArray = quantile_means(severity * MOST_SIGMA)[order].ravel()[:size]
    drawn.flags.writeable = False
    return drawn


def quantile_means(sigma: float) -> FloatArray:
    """Return the mean of m = exp(sigma Z - sigma^2 / 2) in each hundredth, ascending [100].

    Between the quantiles z_0 and z_1 it is 100 (Phi(z_1 - sigma) - Phi(z_0 - sigma)).
    """
    normal = NormalDist()
    inner = [normal.inv_cdf(k / NUM_VALUES) for k in range(1, NUM_VALUES)]
    below = [0.0, *(normal.cdf(z - sigma) for z in inner), 1.0]
    return np.diff(below) * NUM_VALUES
