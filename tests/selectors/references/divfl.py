"""DivFL: the greedy sum of least distances, exactly, in loops over clients."""

import math

from tests.selectors.references.referee import Reference, clients_of


class DivFl(Reference):
    def __init__(self, *, ideal=False, updates=False, power=1, weighs=False) -> None:
        self.ideal, self.updates, self.power, self.weighs = ideal, updates, power, weighs

    def setup(self, fleet):
        self.g: dict[int, list[float]] = {}
        self.planned: list[int] | None = None

    def asked(self, view, requests):
        if view.stage == 0:
            self.planned = None
        for report in view.reports:
            if report.is_delivered:
                start = view.parameters if self.updates else 0.0 * view.parameters
                self.g[report.client] = (report.vector - start).tolist()
        heard = {report.client for report in view.reports}
        silent = [k for k in view.candidates.tolist() if k not in heard]
        strangers = [k for k in silent if k not in self.g]
        expected: list[int] = []
        if self.ideal:
            expected = silent
        elif strangers or self.updates:
            expected = strangers
        elif self.planned is None:
            self.planned = self.greedy(view)
            expected = [k for k in self.planned if k in silent]
        return expected, clients_of(requests)

    def apart(self, i, k):
        return math.dist(self.g[i], self.g[k]) ** self.power

    def work(self, view, cohort):
        if not self.weighs:
            return None, cohort.weights
        gamma = dict.fromkeys(cohort.clients.tolist(), 0)
        representatives = [k for k in gamma if k in self.known]
        for i in self.known if representatives else []:
            near = i if i in gamma else min(representatives, key=lambda k: self.before(i, k))
            gamma[near] += 1
        expected = [float(max(num, 1)) for num in gamma.values()]
        return expected, [] if cohort.weights is None else cohort.weights.tolist()

    def before(self, i, k):
        return math.dist(self.known[i], self.known[k]) ** self.power

    def greedy(self, view):
        self.known = dict(self.g)
        there = view.candidates.tolist()
        taken: list[int] = []
        left = [k for k in there if k in self.g]
        while left and len(taken) < view.wanted:
            cost = {
                k: math.fsum(min(self.apart(i, j) for j in [*taken, k]) for i in self.g)
                for k in left
            }
            taken.append(min(left, key=lambda k: cost[k]))
            left.remove(taken[-1])
        return (taken + [k for k in there if k not in self.g])[: view.wanted]

    def choice(self, view, chosen):
        planned = [k for k in self.planned or [] if k in view.candidates][: view.wanted]
        return planned or self.greedy(view), chosen

    def observe(self, outcome):
        for report in outcome.reports:
            if self.updates and report.is_delivered:
                self.g[report.client] = (report.vector - report.base).tolist()
