"""FedMarl with frozen agents: states, values and choices client by client, in plain Python."""

import math
import statistics

from fleetsim import rng
from tests.selectors.references.referee import Reference, clients_of


class FedMarl(Reference):
    def __init__(self, settings, network) -> None:
        self.candidates = settings.candidates
        self.network = {name: array.tolist() for name, array in network.items()}

    def setup(self, fleet):
        self.fleet = fleet
        self.rounds = 0
        self.last_upload: dict[int, float] = {}
        self.uploads: dict[int, int] = {}
        self.drawn: list[int] = []

    def draw(self, view):
        stream = rng.stream(self.fleet.seed, "select/fedmarl", view.round)
        race = stream.standard_exponential(self.fleet.num_samples.size)
        num = max(self.candidates or 2 * self.fleet.cohort, view.wanted)
        return sorted(view.candidates.tolist(), key=lambda k: race[k])[:num]

    def asked(self, view, requests):
        if view.stage > 0:
            return [], clients_of(requests)
        self.drawn = self.draw(view)
        return self.drawn, clients_of(requests)

    def choice(self, view, chosen):
        there = set(view.candidates.tolist())
        self.delivered = {r.client: r for r in view.reports if r.is_delivered}
        told = {k: r for k, r in self.delivered.items() if k in there and math.isfinite(r.loss)}
        if not told:
            left = [k for k in self.drawn if k in there] or self.draw(view)
            return left[: view.wanted], chosen
        gain = self.gains(told, view)
        order = sorted(gain, key=lambda k: (-gain[k], k))
        willing = [k for k in order if gain[k] >= 0]
        return (willing or order[:1])[: view.wanted], chosen

    def work(self, view, cohort):
        return [k in self.delivered for k in cohort.clients.tolist()], cohort.continues.tolist()

    def gains(self, told, view):
        clients = sorted(told)
        columns = [
            self.relative([told[k].loss for k in clients]),
            self.relative([told[k].finished_at_s - told[k].dispatched_at_s for k in clients]),
            self.relative([self.last_upload.get(k) for k in clients]),
            [self.uploads.get(k, 0) / max(1, view.round - 1) for k in clients],
            self.relative([float(self.fleet.num_samples[k]) for k in clients]),
            [min(1.0, view.round / self.fleet.planned_rounds) for _ in clients],
        ]
        values = [self.values(state) for state in zip(*columns, strict=True)]
        return {k: go - stop for k, (stop, go) in zip(clients, values, strict=True)}

    def values(self, state):
        hidden = [
            max(0.0, sum(w * s for w, s in zip(row, state, strict=True)) + bias)
            for row, bias in zip(
                self.network["hidden/weight"], self.network["hidden/bias"], strict=True
            )
        ]
        return [
            sum(w * h for w, h in zip(row, hidden, strict=True)) + bias
            for row, bias in zip(
                self.network["output/weight"], self.network["output/bias"], strict=True
            )
        ]

    @staticmethod
    def relative(values):
        known = [value for value in values if value is not None]
        if not known:
            return [0.0] * len(values)
        middle = statistics.median(math.log(value) for value in known)
        return [
            0.0 if value is None else max(-3.0, min(3.0, math.log(value) - middle))
            for value in values
        ]

    def observe(self, outcome):
        for report in outcome.reports:
            if report.is_delivered:
                self.last_upload[report.client] = report.upload_s
                self.uploads[report.client] = self.uploads.get(report.client, 0) + 1
