"""PyramidFL: Oort's clients, with individual work and uploads.

- `selector`: settings, and the times and updates that it keeps.
- `equations`: ranks, shares of updates, and extra work.
"""

from fleetsim.selectors.pyramidfl.equations import (
    dropout_fractions,
    durations_s,
    gradient_utilities,
    num_local_steps,
    ranks,
    step_ratios,
)
from fleetsim.selectors.pyramidfl.selector import PyramidFlSelector, PyramidFlSettings

__all__ = [
    "PyramidFlSelector",
    "PyramidFlSettings",
    "dropout_fractions",
    "durations_s",
    "gradient_utilities",
    "num_local_steps",
    "ranks",
    "step_ratios",
]
