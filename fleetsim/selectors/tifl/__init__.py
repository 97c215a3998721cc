"""TiFL: tiers of clients of similar latency.

- `selector`: settings, profiling and the choice of a tier.
- `equations`: latencies, tiers, credits, probabilities and the choice.
"""

from fleetsim.selectors.tifl.equations import (
    DROPPED,
    changed_probabilities,
    choose,
    draw_tier,
    initial_credits,
    is_change_due,
    is_measured,
    latency_s,
    open_tiers,
    tier_accuracies,
    tiers,
    with_payment,
)
from fleetsim.selectors.tifl.selector import TiFLSelector, TiFLSettings

__all__ = [
    "DROPPED",
    "TiFLSelector",
    "TiFLSettings",
    "changed_probabilities",
    "choose",
    "draw_tier",
    "initial_credits",
    "is_change_due",
    "is_measured",
    "latency_s",
    "open_tiers",
    "tier_accuracies",
    "tiers",
    "with_payment",
]
