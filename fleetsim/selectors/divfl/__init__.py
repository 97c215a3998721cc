"""DivFL: diverse clients by the facility location of their gradients.

- `selector`: settings, and the gradients that it keeps.
- `equations`: distances of gradients, and greedy choices.
"""

from fleetsim.selectors.divfl.equations import (
    cluster_sizes,
    cost,
    dissimilarities,
    greedy,
    refreshed,
    sample_size,
    stochastic_greedy,
)
from fleetsim.selectors.divfl.selector import DivFlSelector, DivFlSettings

__all__ = [
    "DivFlSelector",
    "DivFlSettings",
    "cluster_sizes",
    "cost",
    "dissimilarities",
    "greedy",
    "refreshed",
    "sample_size",
    "stochastic_greedy",
]
