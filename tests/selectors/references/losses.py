"""Active federated learning, power-of-choice and the survey: sorted lists and dictionaries."""

import math

from fleetsim import rng
from tests.selectors.references.referee import Reference


class Afl(Reference):
    """Steps 1 to 3 with shares in whole percent."""

    def begin(self):
        self.v: dict[int, float] = {}
        self.dropped, self.uniform = round(100 * self.s.alpha_1), round(100 * self.s.alpha_3)

    def asked(self, view):
        self.learn(view.reports)
        heard = {report.client for report in view.reports}
        new = [k for k in view.candidates.tolist() if k not in self.v and k not in heard]
        return new if self.s.cold_start != "none" else []

    def choice(self, view):
        self.learn(view.reports)
        there = view.candidates.tolist()
        stream = rng.stream(self.seed, "select/afl", view.round)
        race, lots = stream.standard_exponential(len(self.n)), stream.random(len(self.n))
        smallest_last = sorted(there, key=lambda k: (-self.v.get(k, -math.inf), k))
        kept = smallest_last[: len(there) - self.dropped * len(there) // 100]
        num = (100 - self.uniform) * view.wanted // 100
        if self.s.rounding == "random":
            num = view.wanted - self.uniform * view.wanted // 100
        likely = [k for k in kept if k in self.v]
        active = sorted(likely, key=lambda k: race[k] / math.exp(self.s.alpha_2 * self.v[k]))[:num]
        others = sorted((k for k in there if k not in active), key=lambda k: lots[k])
        return active + others[: view.wanted - len(active)]

    def learn(self, reports):
        for report in reports:
            if report.is_delivered:
                is_training = report.epoch_losses is not None
                loss = report.epoch_losses[0] if is_training else report.loss
                if loss is not None and math.isfinite(loss):
                    num = self.n[report.client]
                    self.v[report.client] = sum([loss] * num) / math.sqrt(num)

    def observe(self, outcome):
        assert all(report.epoch_losses for report in outcome.reports if report.is_delivered)
        self.learn(outcome.reports)


def reported_losses(outcome, epochs):
    """Mean losses of the last, the first or all local epochs, where they are known and finite."""
    for report in outcome.reports:
        if report.is_delivered and report.loss is not None:
            of_epochs = report.epoch_losses or (report.loss,)
            first, last = of_epochs[:1], of_epochs[-1:]
            losses = {"first_epoch": first, "last_epoch": last, "all_epochs": of_epochs}[epochs]
            loss = sum(losses) / len(losses)
            if math.isfinite(loss):
                yield report.client, loss


class PowerOfChoice(Reference):
    """Draws d in proportion to samples, then takes the largest losses."""

    def begin(self):
        self.last: dict[int, float] = {}

    def drawn(self, view):
        arrives = self.race(view, "select/power-of-choice")
        d = 2 * view.wanted if self.s.d is None else max(self.s.d, view.wanted)
        return sorted(view.candidates.tolist(), key=lambda k: arrives[k] / self.n[k])[:d]

    def asked_first(self, view):
        if self.s.variant == "rpow-d":
            return []
        self.a = self.drawn(view)
        is_whole = self.s.variant == "pow-d"
        return [(k, None if is_whole else min(64, self.n[k])) for k in self.a]

    def made(self, requests):
        return [(request.client, request.work.num_samples) for request in requests]

    def choice(self, view):
        if self.s.variant == "rpow-d":
            loss = {k: self.last.get(k, math.inf) for k in self.drawn(view)}
        else:
            there = [k for k in self.a if k in view.candidates] or self.drawn(view)
            answers = {r.client: r.loss for r in view.reports if r.is_delivered}
            loss = {k: answers[k] for k in there if k in answers}
            loss = {k: -math.inf if math.isnan(v) else v for k, v in loss.items()}
            if not loss:
                return there[: view.wanted]
        return sorted(loss, key=lambda k: (-loss[k], k))[: view.wanted]

    def observe(self, outcome):
        self.last |= dict(reported_losses(outcome, self.s.loss))


class Survey(Reference):
    """Equations (1) and (2), and no repeats."""

    def begin(self):
        self.losses: dict[int, list[float]] = {}
        self.last: set[int] = set()

    def choice(self, view):
        there = view.candidates.tolist()
        if self.s.policy == 3:
            lots = rng.stream(self.seed, "select/survey", view.round).random(len(self.n))
            order = sorted(there, key=lambda k: (k in self.last, lots[k]))
        else:
            order = sorted(there, key=lambda k: (-self.score(k, view.round), k))
        return order[: view.wanted]

    def work(self, view, cohort):
        if self.s.weights != "printed" or cohort.clients.size == 0:
            return None, cohort.weights
        k = len(cohort.clients)
        expected = [round(self.n[c] / sum(self.n) / k, 12) for c in cohort.clients.tolist()]
        return (expected, True), ([round(float(w), 12) for w in cohort.weights], cohort.are_shares)

    def score(self, k, t):
        if k not in self.losses:
            return math.inf
        cumulative, times = sum(self.losses[k]), len(self.losses[k])
        bonus = math.sqrt(2 * math.log(t) / times) if self.s.policy == 2 else 0.0
        return self.n[k] / sum(self.n) * (cumulative / times + bonus)

    def observe(self, outcome):
        for client, loss in reported_losses(outcome, self.s.loss):
            self.losses.setdefault(client, []).append(loss)
        if outcome.reports:
            self.last = set(outcome.selected.tolist())
