"""Package."""

from fleetsim.selectors.baselines.uniform import draw
from fleetsim.selectors.common.tie_breaking import best, tie_keys
from fleetsim.selectors.power_of_choice.selector import (
    PowerOfChoiceSettings,
    ProbedPowerOfChoice,
    ReportedPowerOfChoice,
    losses_of,
    num_asked,
)

__all__ = [
    "PowerOfChoiceSettings",
    "ProbedPowerOfChoice",
    "ReportedPowerOfChoice",
    "best",
    "draw",
    "losses_of",
    "num_asked",
    "tie_keys",
]
