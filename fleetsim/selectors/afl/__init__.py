"""AFL: active federated learning.

- `selector`: settings, and the valuations that it keeps.
- `equations`: valuations, probabilities and the draw.
"""

from fleetsim.selectors.afl.equations import (
    choose,
    num_active,
    num_left_out,
    valuations,
)
from fleetsim.selectors.afl.selector import AflSelector, AflSettings

__all__ = [
    "AflSelector",
    "AflSettings",
    "choose",
    "num_active",
    "num_left_out",
    "valuations",
]
