"""The survey's policies, equations (1) and (2): sums in dictionaries, sorted lists."""

import math

from fleetsim import rng
from tests.selectors.references.referee import Reference, told_loss


class Survey(Reference):
    def __init__(self, policy: int, loss: str = "last_epoch", *, is_printed=False) -> None:
        self.policy, self.loss, self.is_printed = policy, loss, is_printed

    def setup(self, fleet):
        self.seed = fleet.seed
        self.n = fleet.num_samples.tolist()
        self.told: dict[int, list[float]] = {}
        self.last: set[int] = set()

    def choice(self, view, chosen):
        there = view.candidates.tolist()
        if self.policy == 3:
            lots = rng.stream(self.seed, "select/survey", view.round).random(len(self.n))
            order = sorted(there, key=lambda k: (k in self.last, lots[k]))
        else:
            order = sorted(there, key=lambda k: (-self.score(k, view.round), k))
        return order[: view.wanted], chosen

    def work(self, view, cohort):
        if not self.is_printed or cohort.clients.size == 0:
            return None, cohort.weights
        k = len(cohort.clients)
        expected = [round(self.n[c] / sum(self.n) / k, 12) for c in cohort.clients.tolist()]
        return (expected, True), ([round(float(w), 12) for w in cohort.weights], cohort.are_shares)

    def score(self, k, t):
        if k not in self.told:
            return math.inf
        cumulative, times = sum(self.told[k]), len(self.told[k])
        bonus = math.sqrt(2 * math.log(t) / times) if self.policy == 2 else 0.0
        return self.n[k] / sum(self.n) * (cumulative / times + bonus)

    def observe(self, outcome):
        for report in outcome.reports:
            loss = told_loss(report, self.loss)
            if loss is not None:
                self.told.setdefault(report.client, []).append(loss)
        if outcome.reports:
            self.last = set(outcome.selected.tolist())
