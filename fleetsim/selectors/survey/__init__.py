"""Policies of a survey: average loss, its confidence bound, and no repeats.

- `selector`: settings and the three policies.
- `equations`: scores and choices of the policies.
"""

from fleetsim.selectors.survey.equations import (
    average_loss_scores,
    choose_others,
    confidence_bound_scores,
    sample_shares,
    with_losses,
)
from fleetsim.selectors.survey.selector import (
    AverageLossSelector,
    NoRepeatsSelector,
    SurveySettings,
)

__all__ = [
    "AverageLossSelector",
    "NoRepeatsSelector",
    "SurveySettings",
    "average_loss_scores",
    "choose_others",
    "confidence_bound_scores",
    "sample_shares",
    "with_losses",
]
