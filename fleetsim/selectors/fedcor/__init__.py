"""Package."""

from fleetsim.selectors.fedcor.correlation_fit import (
    fitted,
    initial_points,
    log_likelihood,
    mean_changes,
    remembered,
)
from fleetsim.selectors.fedcor.equations import annealed, choose, conditioned, covariance, scores
from fleetsim.selectors.fedcor.selector import FedCorSelector, FedCorSettings

__all__ = [
    "FedCorSelector",
    "FedCorSettings",
    "annealed",
    "choose",
    "conditioned",
    "covariance",
    "fitted",
    "initial_points",
    "log_likelihood",
    "mean_changes",
    "remembered",
    "scores",
]
