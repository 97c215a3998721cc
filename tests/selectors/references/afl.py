"""Active federated learning, steps 1 to 3 with shares in whole percent."""

import math

from fleetsim import rng
from tests.selectors.references.referee import Reference, clients_of


class Afl(Reference):
    def __init__(
        self, *, dropped=75, sharpness=0.01, uniform=10, evaluates=True, floors_random=False
    ) -> None:
        self.dropped, self.sharpness, self.uniform = dropped, sharpness, uniform
        self.evaluates, self.floors_random = evaluates, floors_random

    def setup(self, fleet):
        self.seed = fleet.seed
        self.n = fleet.num_samples.tolist()
        self.v: dict[int, float] = {}

    def asked(self, view, requests):
        self.learn(view.reports)
        heard = {report.client for report in view.reports}
        new = [k for k in view.candidates.tolist() if k not in self.v and k not in heard]
        return new if self.evaluates else [], clients_of(requests)

    def choice(self, view, chosen):
        self.learn(view.reports)
        there = view.candidates.tolist()
        stream = rng.stream(self.seed, "select/afl", view.round)
        race, lots = stream.standard_exponential(len(self.n)), stream.random(len(self.n))
        smallest_last = sorted(there, key=lambda k: (-self.v.get(k, -math.inf), k))
        kept = smallest_last[: len(there) - self.dropped * len(there) // 100]
        num = (100 - self.uniform) * view.wanted // 100
        if self.floors_random:
            num = view.wanted - self.uniform * view.wanted // 100
        likely = [k for k in kept if k in self.v]
        active = sorted(likely, key=lambda k: race[k] / math.exp(self.sharpness * self.v[k]))[:num]
        others = sorted((k for k in there if k not in active), key=lambda k: lots[k])
        return active + others[: view.wanted - len(active)], chosen

    def learn(self, reports):
        for report in reports:
            if report.is_delivered:
                is_training = report.epoch_losses is not None
                self.value(report.client, report.epoch_losses[0] if is_training else report.loss)

    def value(self, k, loss):
        if loss is not None and math.isfinite(loss):
            self.v[k] = sum([loss] * self.n[k]) / math.sqrt(self.n[k])

    def observe(self, outcome):
        assert all(report.epoch_losses for report in outcome.reports if report.is_delivered)
        self.learn(outcome.reports)
