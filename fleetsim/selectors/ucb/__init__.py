"""UCB over sets: a bandit whose arms are all sets of K clients.

- `selector`: settings, and the means and plays that it keeps.
"""

from fleetsim.selectors.bandits.equations import (
    arms,
    average_opinion,
    index,
    is_playable,
    require_arms,
    rewarded,
)
from fleetsim.selectors.ucb.selector import SetBanditOptions, UcbSelector, UcbSettings

__all__ = [
    "SetBanditOptions",
    "UcbSelector",
    "UcbSettings",
    "arms",
    "average_opinion",
    "index",
    "is_playable",
    "require_arms",
    "rewarded",
]
