"""Scale of the scores that networks of FedGCS estimate: budgets and ranges of a fit's records.

The medians and ranges of the records change as records are added. Networks keep the scale of the
fit, on which a later round must be scored to be compared with their estimates.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fleetsim.selectors.fedgcs.equations import scaled, scores
from fleetsim.selectors.fedgcs.records import Records
from fleetsim.selectors.fedgcs.settings import FedGCSKeys


class ScoreScale(NamedTuple):
    """Budgets, and ranges of performance and of scores, of the records of a fit."""

    budget_s: float
    budget_j: float
    worst_performance: float
    best_performance: float
    worst_score: float
    best_score: float

    @classmethod
    def of(cls, records: Records, rules: FedGCSKeys) -> ScoreScale:
        """Return the scale of a fit to these records, at least one."""
        performance, found = records.performance, records.scores(rules)
        return cls(
            *records.budgets(rules),
            worst_performance=float(performance.min()),
            best_performance=float(performance.max()),
            worst_score=float(found.min()),
            best_score=float(found.max()),
        )

    def score(self, record: Records, rules: FedGCSKeys) -> float:
        """Return the score of one record as the evaluator would have learned it.

        Scaled numbers leave [0, 1] where the record is better or worse than all of the fit. But a
        score needs a performance of 0 or more, so the worst of the fit is the least.

        Args:
            record: a single record.
            rules: rules of the score, but for the budgets, which are those of this scale.
        """
        performance = record.performance
        if rules.performance_scale == "min_max":
            performance = scaled(performance, self.worst_performance, self.best_performance)
        found = scores(
            np.maximum(performance, 0.0),
            record.latency_s,
            record.energy_j,
            budget_s=self.budget_s,
            budget_j=self.budget_j,
            latency_exponent=rules.latency_exponent,
            energy_exponent=rules.energy_exponent,
        )
        if rules.target == "min_max":
            found = scaled(found, self.worst_score, self.best_score)
        return float(found[0])
