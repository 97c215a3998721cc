"""RBCS-F: ridge regression written out, and every set of the wanted size tried."""

from itertools import combinations

import numpy as np

from tests.selectors.references.referee import Reference, clients_of


class RbcsF(Reference):
    def __init__(self, beta=0.15, v=10.0, alpha=0.1, ridge=1.0) -> None:
        self.beta, self.v, self.alpha, self.ridge = beta, v, alpha, ridge

    def setup(self, fleet):
        size = fleet.num_samples.size
        self.payload_bit = 8 * fleet.payload_byte
        self.queue = [0.0] * size
        self.seen: list[list[tuple[np.ndarray, float]]] = [[] for _ in range(size)]
        self.last: set[int] = set()
        self.context: dict[int, np.ndarray] = {}

    def asked(self, view, requests):
        all_clients = view.candidates.tolist() if view.stage == 0 else []
        return all_clients, clients_of(requests)

    def expected_s(self, k):
        h, b = self.ridge * np.eye(3), np.zeros(3)
        for c, time_s in self.seen[k]:
            h = h + np.outer(c, c)
            b = b + time_s * c
        inverse, c = np.linalg.inv(h), self.context[k]
        return max(0.0, c @ inverse @ b - self.alpha * np.sqrt(c @ inverse @ c))

    def choice(self, view, chosen):
        self.context = {}
        for report in view.reports:
            told, k = report.resources, report.client
            if told is not None and told.up_bit_per_s > 0:
                s = float(k in self.last)
                transfer_s = self.payload_bit / told.up_bit_per_s
                self.context[k] = np.array([1 / (1 - told.load_fraction), s, transfer_s])
        there = [k for k in view.candidates.tolist() if k in self.context]
        time_s = {k: self.expected_s(k) for k in there}
        if not there:
            there = view.candidates.tolist()
            time_s = dict.fromkeys(there, 0.0)
        costs = {
            frozenset(s): self.v * max(time_s[k] for k in s) - sum(self.queue[k] for k in s)
            for s in combinations(there, min(view.wanted, len(there)))
            if s
        }
        if not costs:
            return [], chosen
        # Sets of equal cost are equally good.
        found = costs.get(frozenset(chosen), np.inf) <= min(costs.values()) + 1e-9
        order = sorted(chosen, key=lambda k: -self.queue[k])
        return (True, [self.queue[k] for k in order]), (found, [self.queue[k] for k in chosen])

    def observe(self, outcome):
        for report in outcome.reports:
            if report.is_delivered and report.client in self.context:
                k = report.client
                self.seen[k].append((self.context[k], report.duration_s))
        self.last = set(outcome.selected.tolist())
        for k, queue in enumerate(self.queue):
            self.queue[k] = max(0.0, queue + self.beta - (k in self.last))
