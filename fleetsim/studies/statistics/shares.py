"""Share of wins with its interval, and its sentence: how often a ranking survives.

Wilson's score interval (JASA 22:209-212, 1927; recommended for few trials by Brown, Cai and
DasGupta, Statistical Science 16:101-133, 2001, equation 4).
"""

from dataclasses import dataclass

from scipy import stats


@dataclass(frozen=True, slots=True)
class Share:
    """Share of n fleets in which one arm wins over another."""

    num: int
    share: float
    """Share of the pairs in which the arm cost less: with doubt about devices, of fleets."""
    low: float
    """Lower end of its 95 % interval by Wilson's score."""
    high: float
    """Upper end of the same interval."""


def survival_share(num_wins: int, num: int, level: float = 0.95) -> Share:
    """Return the share of wins in one or more trials, with its interval; a tie is no win."""
    ends = stats.binomtest(num_wins, num).proportion_ci(level, method="wilson")
    return Share(num, num_wins / num, float(ends.low), float(ends.high))


def survival_sentence(arm: str, other: str, share: Share) -> str:
    """Return how often a ranking survives.

    >>> survival_sentence("oort", "random", Share(24, 17 / 24, 0.508, 0.851))
    'oort before random in 71 % [51, 85] of 24 plausible fleets.'
    """
    low, middle, high = (f"{part * 100:.0f}" for part in (share.low, share.share, share.high))
    return f"{arm} before {other} in {middle} % [{low}, {high}] of {share.num} plausible fleets."
