"""Oort: useful and fast clients, with a share of new ones.

- `selector`: settings, and the utilities and durations that it keeps.
- `equations`: utilities, penalties, pools and the pacer.
- `profiles`: figures and rules of the published implementations.
"""

from fleetsim.selectors.oort.equations import (
    clipped,
    cut_off_pool,
    duration_at,
    exploration_fraction,
    exploration_pool,
    is_declining,
    num_exploited,
    num_trained,
    paced_percentile,
    scaled,
    statistical_utility,
    system_penalty,
    temporal_bonus,
    utility,
)
from fleetsim.selectors.oort.profiles import PROFILES
from fleetsim.selectors.oort.selector import OortOptions, OortSelector, OortSettings

__all__ = [
    "PROFILES",
    "OortOptions",
    "OortSelector",
    "OortSettings",
    "clipped",
    "cut_off_pool",
    "duration_at",
    "exploration_fraction",
    "exploration_pool",
    "is_declining",
    "num_exploited",
    "num_trained",
    "paced_percentile",
    "scaled",
    "statistical_utility",
    "system_penalty",
    "temporal_bonus",
    "utility",
]
