"""RBCS-F: short exchange times, with a guaranteed share of rounds for all clients.

- `selector`: settings, and the queues and regressions that it keeps.
- `equations`: queues, estimates of exchange times, and the choice.
"""

from fleetsim.selectors.rbcs_f.equations import (
    choose,
    contexts,
    cost,
    estimated_exchange_s,
    initial_estimate,
    queues_after,
    require_guarantee,
    with_exchanges,
)
from fleetsim.selectors.rbcs_f.selector import RBCSFSelector, RBCSFSettings

__all__ = [
    "RBCSFSelector",
    "RBCSFSettings",
    "choose",
    "contexts",
    "cost",
    "estimated_exchange_s",
    "initial_estimate",
    "queues_after",
    "require_guarantee",
    "with_exchanges",
]
