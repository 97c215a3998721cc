"""FedCor: clients whose losses correlate with those of all others.

- `selector`: settings, warm-up, shadow rounds and the choice.
- `equations`: covariance, scores and the choice.
- `correlation_fit`: fit of the covariance to observed changes of losses.
"""

from fleetsim.selectors.fedcor.correlation_fit import (
    fitted,
    initial_points,
    log_likelihood,
    mean_changes,
    remembered,
)
from fleetsim.selectors.fedcor.equations import (
    annealed,
    choose,
    conditioned,
    covariance,
    noise_variance,
    scores,
)
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
    "noise_variance",
    "remembered",
    "scores",
]
