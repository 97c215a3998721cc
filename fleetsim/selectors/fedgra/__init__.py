"""FedGRA: grey relational analysis of four metrics.

- `selector`: settings, and selections in every fifth round.
- `equations`: metrics, grades, fairness and the choice.
"""

from fleetsim.selectors.fedgra.equations import (
    choose,
    entropies,
    entropy_weights,
    fairness_after,
    free_capacity,
    grades,
    grey_relational_grades,
    is_selection_round,
    loss_metric,
    mapped,
    mean_normalised,
    relational_coefficients,
    smoothed,
    weight_divergence,
)
from fleetsim.selectors.fedgra.selector import FedGRASelector, FedGRASettings

__all__ = [
    "FedGRASelector",
    "FedGRASettings",
    "choose",
    "entropies",
    "entropy_weights",
    "fairness_after",
    "free_capacity",
    "grades",
    "grey_relational_grades",
    "is_selection_round",
    "loss_metric",
    "mapped",
    "mean_normalised",
    "relational_coefficients",
    "smoothed",
    "weight_divergence",
]
