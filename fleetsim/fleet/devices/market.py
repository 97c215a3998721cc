"""Speeds of phones on the market, and the bundled phone that represents each.

A client of the market draws u, uniform in [0, 1), and

    ms(u) = exp(ln ms, linear between the quantiles below, at u)
    R     = 40.0 GFLOP/s * 104 ms / ms(u)

40.0 GFLOP/s is the rate of training fitted to a Snapdragon 855, whose latency is 104 ms. Sources
and limits: docs/device-speeds.md (A market of phones).
"""

from collections.abc import Sequence

import numpy as np

from fleetsim import rng
from fleetsim.contracts import FloatArray, IntArray
from fleetsim.units import FLOP_PER_GFLOP

PHONES = (
    *("galaxy-note-10", "galaxy-s20", "galaxy-s9", "nexus-6", "oneplus-10-pro", "pixel-3"),
    *("pixel-4", "pixel-6", "pixel-7", "pixel-8", "realme-q3s", "redmi-note-10", "redmi-note-8"),
)
"""Phones that represent others; a fixed list, so that a new device file changes no market."""

SHARES = (0.0, 0.01, 0.05, 0.10, 0.25, 0.50, 0.75, 0.90, 0.95, 0.99, 1.0)
LATENCIES_MS = (40.0, 49.0, 60.0, 69.0, 96.0, 170.0, 305.0, 464.0, 553.0, 1476.0, 1862.0)
"""Quantiles of ResNet latency at those shares, without five rows of 3.6 to 15 s."""

_REFERENCE_MS = 104.0
_REFERENCE_FLOP_PER_S = 40.0 * FLOP_PER_GFLOP


def draw_latencies_ms(seed: int, size: int) -> FloatArray:
    """Draw the ResNet latency of every client [N]; that of client i is the same for any N."""
    return latency_ms(rng.stream(seed, "market").random(size))


def latency_ms(share: FloatArray) -> FloatArray:
    """Return the latency below which this share of the models lies, elementwise."""
    return np.asarray(np.exp(np.interp(share, SHARES, np.log(LATENCIES_MS))), dtype=np.float64)


def conv_flop_per_s(resnet_ms: FloatArray) -> FloatArray:
    """Return the rate of convolutions in training of phones with these latencies, elementwise."""
    return _REFERENCE_FLOP_PER_S * _REFERENCE_MS / resnet_ms


def nearest(rates: FloatArray, among: Sequence[float]) -> IntArray:
    """Return the index into `among` of the rate nearest in ln R to each of `rates` [n].

    Of two equal rates, the earlier one is nearest to slower clients and the later one to faster.

    >>> nearest(np.array([1.0, 1.9, 2.1, 3.9, 4.1, 9.0]), [4.0, 1.0, 4.0]).tolist()
    [1, 1, 0, 0, 2, 2]
    """
    order = np.argsort(among, kind="stable")
    logs = np.log(np.asarray(among, dtype=np.float64)[order])
    middles = (logs[1:] + logs[:-1]) / 2.0
    return np.asarray(order[np.searchsorted(middles, np.log(rates))], dtype=np.int64)
