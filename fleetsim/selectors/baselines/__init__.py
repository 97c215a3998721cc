"""Selectors to compare with: random, round-robin and fixed.

- `uniform`: random clients, in equal or in sample-weighted shares.
- `round_robin`: all clients in turn.
- `fixed`: always the same clients.
- `client_sets`: draw and order of predefined sets of clients.
"""

from fleetsim.selectors.baselines.client_sets import drawn_set, sets_in_line
from fleetsim.selectors.baselines.fixed import FixedSelector, FixedSettings
from fleetsim.selectors.baselines.round_robin import (
    RoundRobinSelector,
    RoundRobinSettings,
    SetRotationSelector,
    take_turn,
    top_up,
)
from fleetsim.selectors.baselines.uniform import (
    RandomSelector,
    RandomSetSelector,
    RandomSettings,
    draw,
)

__all__ = [
    "FixedSelector",
    "FixedSettings",
    "RandomSelector",
    "RandomSetSelector",
    "RandomSettings",
    "RoundRobinSelector",
    "RoundRobinSettings",
    "SetRotationSelector",
    "draw",
    "drawn_set",
    "sets_in_line",
    "take_turn",
    "top_up",
]
