"""Quick-Init UCB: the bandit over sets with a cold start in groups.

- `selector`: settings, and the groups of the cold start.
"""

from fleetsim.selectors.bandits.equations import (
    arm_of,
    arms,
    average_opinion,
    index,
    initial_means,
    is_playable,
    require_arms,
    rewarded,
)
from fleetsim.selectors.quick_init_ucb.selector import QuickInitUcbSelector, QuickInitUcbSettings

__all__ = [
    "QuickInitUcbSelector",
    "QuickInitUcbSettings",
    "arm_of",
    "arms",
    "average_opinion",
    "index",
    "initial_means",
    "is_playable",
    "require_arms",
    "rewarded",
]
