"""AutoFL: Q-tables of clients choose the cohort and the clock of each.

- `selector`: settings, requests for resources, and what is learned after a round.
- `equations`: states, the reward, the update, and the choice of a clock level.
- `q_tables`: values of the states that were visited, for all tables together.
"""

from fleetsim.selectors.autofl.equations import (
    NUM_STATES,
    category,
    chosen_levels,
    rewards,
    state_number,
    updated,
)
from fleetsim.selectors.autofl.selector import AutoFLSelector, AutoFLSettings

__all__ = [
    "NUM_STATES",
    "AutoFLSelector",
    "AutoFLSettings",
    "category",
    "chosen_levels",
    "rewards",
    "state_number",
    "updated",
]
