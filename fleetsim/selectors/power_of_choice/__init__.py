"""Power-of-choice: the largest losses among random candidates.

- `selector`: settings, its probed and its reported variant.
"""

from fleetsim.selectors.baselines.uniform import draw
from fleetsim.selectors.power_of_choice.selector import (
    PowerOfChoiceSettings,
    ProbedPowerOfChoice,
    ReportedPowerOfChoice,
    losses_of,
    num_asked,
)
from fleetsim.selectors.tie_breaking import best, tie_keys

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
