"""Power-of-choice: d in proportion to samples, then the largest losses."""

import math

from fleetsim import rng
from tests.selectors.references.referee import Reference, clients_of, told_loss


class PowerOfChoice(Reference):
    def __init__(self, variant: str, d: int | None = None, loss: str = "last_epoch") -> None:
        self.variant, self.d, self.loss = variant, d, loss

    def setup(self, fleet):
        self.seed = fleet.seed
        self.n = fleet.num_samples.tolist()
        self.last: dict[int, float] = {}

    def drawn(self, view):
        stream = rng.stream(self.seed, "select/power-of-choice", view.round)
        arrives = stream.standard_exponential(len(self.n))
        d = 2 * view.wanted if self.d is None else max(self.d, view.wanted)
        return sorted(view.candidates.tolist(), key=lambda k: arrives[k] / self.n[k])[:d]

    def asked(self, view, requests):
        if self.variant == "rpow-d" or view.stage > 0:
            return [], clients_of(requests)
        self.a = self.drawn(view)
        work = [None if self.variant == "pow-d" else min(64, self.n[k]) for k in self.a]
        return (self.a, work), (clients_of(requests), [r.work.num_samples for r in requests])

    def choice(self, view, chosen):
        if self.variant == "rpow-d":
            loss = {k: self.last.get(k, math.inf) for k in self.drawn(view)}
        else:
            there = [k for k in self.a if k in view.candidates] or self.drawn(view)
            told = {r.client: r.loss for r in view.reports if r.is_delivered}
            loss = {k: told[k] for k in there if k in told}
            loss = {k: -math.inf if math.isnan(v) else v for k, v in loss.items()}
            if not loss:
                return there[: view.wanted], chosen
        return sorted(loss, key=lambda k: (-loss[k], k))[: view.wanted], chosen

    def observe(self, outcome):
        for report in outcome.reports:
            loss = told_loss(report, self.loss)
            if loss is not None:
                self.last[report.client] = loss
