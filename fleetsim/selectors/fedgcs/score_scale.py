"""Scores of records on the scale of a fit: its budgets and ranges.

The medians and ranges of the records change as records are added. Networks keep the scale of the
fit, on which a later round must be scored to be compared with their estimates.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fleetsim.contracts import FloatArray
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
        """Return the scale of a fit to these records, at least one.

        A budget that is not given is the median of the records, and at least the smallest positive
        number, so that records without costs have their performance as the score.
        """

        def budget(given: float | None, costs: FloatArray) -> float:
            tiny = float(np.finfo(np.float64).tiny)
            return max(float(np.median(costs)), tiny) if given is None else given

        scale = cls(
            budget(rules.budget_s, records.latency_s),
            budget(rules.budget_j, records.energy_j),
            float(records.performance.min()),
            float(records.performance.max()),
            worst_score=0.0,
            best_score=0.0,
        )
        found = scale.scores(records, rules)
        return scale._replace(worst_score=float(found.min()), best_score=float(found.max()))

    def scores(self, records: Records, rules: FedGCSKeys) -> FloatArray:
        """Return (1) of each record [R], with the budgets of this scale and the rules' exponents.

        A score needs a performance of 0 or more. Scaled, that of a record that is worse than all of
        the fit is less; it counts as the worst of the fit.
        """
        performance = records.performance
        if rules.performance_scale == "min_max":
            performance = scaled(performance, self.worst_performance, self.best_performance)
        return scores(
            np.maximum(performance, 0.0),
            records.latency_s,
            records.energy_j,
            budget_s=self.budget_s,
            budget_j=self.budget_j,
            latency_exponent=rules.latency_exponent,
            energy_exponent=rules.energy_exponent,
        )

    def targets(self, records: Records, rules: FedGCSKeys) -> FloatArray:
        """Return the scores as the evaluator learns them; beyond [0, 1] outside of the fit [R]."""
        found = self.scores(records, rules)
        if rules.target == "min_max":
            found = scaled(found, self.worst_score, self.best_score)
        return found
