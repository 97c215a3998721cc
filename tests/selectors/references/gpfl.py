"""GPFL: projections, rewards and bounds client by client, every reward kept in a list."""

import math

from fleetsim.contracts import WorkKind
from tests.selectors.references.referee import Reference, clients_of


def length(vector):
    return math.sqrt(sum(x * x for x in vector))


def mean_of(vectors):
    return [sum(column) / len(vectors) for column in zip(*vectors, strict=True)]


class Gpfl(Reference):
    def __init__(self, settings) -> None:
        self.s = settings

    def setup(self, fleet):
        self.total_rounds, self.rate = fleet.planned_rounds, fleet.learning_rate
        self.before = (fleet.validation.accuracy, fleet.validation.loss)
        self.was_asked: set[int] = set()
        self.c: dict[int, float] = {}
        self.mu: dict[int, list[float]] = {}
        self.num: dict[int, int] = {}
        self.g: list[float] = []
        self.num_rounds = 0
        self.waiting: tuple[list[int], float, bool] | None = None

    def asked(self, view, requests):
        if view.stage > 0:
            return [], clients_of(requests)
        there = view.candidates.tolist()
        expected = [k for k in there if k not in self.was_asked]
        self.was_asked.update(there)
        if self.waiting is not None:
            expected += [k for k in self.waiting[0] if k in there]
        assert all(request.work.kind is WorkKind.GRADIENT for request in requests)
        return expected, clients_of(requests)

    def choice(self, view, chosen):
        self.rate = view.learning_rate
        scale = self.rate if self.s.vector == "delta" else 1.0
        told = {
            report.client: [scale * x for x in report.vector.astype(float).tolist()]
            for report in view.reports
            if report.is_delivered
        }
        if self.waiting is not None:
            who, factor, is_aggregated = self.waiting
            self.waiting = None
            self.learn({k: told.pop(k) for k in who if k in told}, factor, is_aggregated)
        new = {k: vector for k, vector in told.items() if k not in self.c}
        if new and not self.g:
            self.g = mean_of(list(new.values()))
        for k, vector in new.items():
            self.project(k, vector)
        if self.num_rounds or self.s.mean == "per_pull":
            for k in new:
                self.mu[k].append(self.share(k))
        score = {k: self.score(k, view.round - 1) for k in view.candidates.tolist()}
        return sorted(score, key=lambda k: (-score[k], k))[: view.wanted], chosen

    def score(self, k, rounds_gone):
        if k not in self.c:
            return math.inf
        if self.num_rounds == 0:
            return self.c[k]
        alpha = self.s.exploration * rounds_gone / self.total_rounds
        plays = sum(self.num.values()) if self.s.plays == "pulls" else rounds_gone + 1
        bonus = math.sqrt(2 * math.log(plays) / self.num[k])
        return sum(self.mu[k]) / len(self.mu[k]) + alpha * bonus if self.mu[k] else math.inf

    def project(self, k, vector):
        dot = sum(a * b for a, b in zip(vector, self.g, strict=True))
        self.c[k] = dot / length(self.g)
        self.num[k] = self.num.get(k, 0) + 1
        self.mu.setdefault(k, [])

    def share(self, k):
        most = max(self.c.values())
        return math.exp(self.c[k] - most) / sum(math.exp(c - most) for c in self.c.values())

    def learn(self, vectors, factor, is_aggregated):
        if vectors and not self.g:
            self.g = mean_of(list(vectors.values()))
        for k, vector in vectors.items():
            self.project(k, vector)
        for k in self.c:
            if k in vectors:
                self.mu[k].append(factor * self.share(k))
            elif self.s.mean == "per_round":
                self.mu[k].append(self.share(k))
        if is_aggregated and vectors:
            self.g = mean_of(list(vectors.values()))

    def factor(self, now):
        accuracy, loss = now.accuracy, now.loss
        accuracy_before, loss_before = self.before
        self.before = accuracy, loss
        if self.s.adjustment == "corrected":
            rise = accuracy - accuracy_before
            return math.exp(rise if rise else loss_before - loss)
        if accuracy == accuracy_before:
            return math.exp(loss - loss_before)
        return 2 * math.exp(accuracy - accuracy_before)

    def observe(self, outcome):
        if not outcome.selected.size:
            return
        self.num_rounds += 1
        factor = self.factor(outcome.validation)
        delivered = [report for report in outcome.reports if report.is_delivered]
        if self.s.vector == "last_gradient":
            self.waiting = [report.client for report in delivered], factor, outcome.aggregated
            return
        rate = self.rate if self.s.vector == "gradient" else 1.0
        vectors = {
            report.client: ((report.base.astype(float) - report.vector) / rate).tolist()
            for report in delivered
        }
        self.learn(vectors, factor, outcome.aggregated)
