"""GPFL: clients whose gradients point along the global direction.

- `selector`: settings, and the projections and rewards that it keeps.
- `equations`: projections, rewards and confidence bounds.
"""

from fleetsim.selectors.gpfl.equations import (
    client_vector,
    confidence_bound,
    direction,
    exploration_weight,
    first_scores,
    gradient_projection,
    normalised,
    num_plays,
    reward_factor,
    rewards,
    with_rewards,
)
from fleetsim.selectors.gpfl.selector import GPFLSelector, GPFLSettings

__all__ = [
    "GPFLSelector",
    "GPFLSettings",
    "client_vector",
    "confidence_bound",
    "direction",
    "exploration_weight",
    "first_scores",
    "gradient_projection",
    "normalised",
    "num_plays",
    "reward_factor",
    "rewards",
    "with_rewards",
]
