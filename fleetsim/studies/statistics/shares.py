"""Share of wins with its interval, and its sentence: how often a ranking survives.

Wilson's score interval (JASA 22:209-212, 1927; recommended for few trials by Brown, Cai and
DasGupta, Statistical Science 16:101-133, 2001, equation 4):

    (k + z^2 / 2) / (n + z^2) +- z / (n + z^2) sqrt(k (n - k) / n + z^2 / 4)
"""

import math
from dataclasses import dataclass

from scipy import special


@dataclass(frozen=True, slots=True)
class Share:
    """Share of n fleets in which one arm wins over another."""

    num: int
    share: float
    low: float
    high: float


def survival_share(num_wins: int, num: int, level: float = 0.95) -> Share:
    """Return the share of wins in one or more trials, with its interval; a tie is no win."""
    z = float(special.ndtri((1.0 + level) / 2.0))
    middle = (num_wins + z**2 / 2.0) / (num + z**2)
    half = z / (num + z**2) * math.sqrt(num_wins * (num - num_wins) / num + z**2 / 4.0)
    # At the ends the interval reaches 0 or 1 exactly, but for rounding.
    low = 0.0 if num_wins == 0 else middle - half
    high = 1.0 if num_wins == num else middle + half
    return Share(num, num_wins / num, low, high)


def survival_sentence(arm: str, other: str, share: Share) -> str:
    """Return how often a ranking survives.

    >>> survival_sentence("oort", "random", Share(24, 17 / 24, 0.508, 0.851))
    'oort before random in 71 % [51, 85] of 24 plausible fleets.'
    """
    low, middle, high = (f"{part * 100:.0f}" for part in (share.low, share.share, share.high))
    return f"{arm} before {other} in {middle} % [{low}, {high}] of {share.num} plausible fleets."
