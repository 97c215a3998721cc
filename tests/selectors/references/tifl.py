"""TiFL: profiles, tiers, draw of a tier by probability and credits, new probabilities."""

import math

from fleetsim import rng
from fleetsim.contracts import WorkKind
from tests.selectors.references.referee import Reference


class Tifl(Reference):
    """With `profile_rounds: 2`."""

    def begin(self):
        self.m = self.s.num_tiers
        self.times: list[list[float]] = [[] for _ in self.n]
        self.tiers: list[list[int]] = []
        is_endless = self.s.credits == "unlimited"
        share = math.inf if is_endless else math.ceil(self.fleet.planned_rounds / self.m)
        self.credits = [share] * self.m
        self.chance = [1 / self.m] * self.m
        self.accuracy: list[float | None] = [None] * self.m
        self.current: int | None = None

    def asked(self, view):
        if view.stage == 0:
            self.asking, self.num_read, self.has_measured = None, 0, False
        self.read(view)
        there = view.candidates.tolist()
        new = [k for k in there if len(self.times[k]) < 2]
        self.asking = None
        expected = []
        if new and view.stage < 2 and not self.has_measured:
            self.asking, expected = WorkKind.TRAIN, new
        elif not self.has_measured and view.round % self.s.interval_rounds == 0:
            self.has_measured = True
            tiered = {k for tier in self.tiers for k in tier}
            self.asking, expected = WorkKind.EVALUATE, [k for k in there if k in tiered]
        return [(k, self.asking) for k in expected]

    def made(self, requests):
        return [(request.client, request.work.kind) for request in requests]

    def read(self, view):
        reports = view.reports[self.num_read :]
        self.num_read = len(view.reports)
        if reports and self.asking is WorkKind.TRAIN:
            for report in reports:
                self.times[report.client].append(
                    report.duration_s if report.is_delivered else math.inf
                )
            self.cut()
        elif reports:
            self.adapt(view.round, [report for report in reports if report.is_delivered])

    def cut(self):
        latency = {
            k: sum(min(t, self.s.max_s) for t in times)
            for k, times in enumerate(self.times)
            if len(times) == 2 and min(times) < self.s.max_s
        }
        order = sorted(latency, key=lambda k: latency[k])
        self.tiers = []
        for i in range(self.m):
            size = len(order) // self.m + (i < len(order) % self.m)
            before = sum(len(tier) for tier in self.tiers)
            self.tiers.append(order[before : before + size])

    def adapt(self, round_, reports):
        measured: list[float | None] = []
        for tier in self.tiers:
            of_tier = [r for r in reports if r.client in tier]
            hits = sum(r.accuracy * r.num_samples for r in of_tier)
            num = sum(r.num_samples for r in of_tier)
            measured.append(hits / num if num else None)
        is_due = self.s.trigger == "every"
        if self.current is not None and not is_due:
            now, before = measured[self.current], self.accuracy[self.current]
            is_due = now is not None and before is not None and now <= before
        pairs = zip(measured, self.accuracy, strict=True)
        self.accuracy = [old if new is None else new for new, old in pairs]
        if not is_due:
            return
        paying = [i for i in range(self.m) if self.credits[i] > 0 and self.tiers[i]]
        worst_first = sorted(paying, key=lambda i: self.accuracy[i] or 0.0)
        n = len(paying)
        self.chance = [0.0] * self.m
        for rank, i in enumerate(worst_first):
            if self.s.rule == "rank":
                self.chance[i] = (n - rank) / (n * (n + 1) / 2)
            elif self.s.rule == "rank_to_zero":
                self.chance[i] = (n - 1 - rank) / (n * (n - 1) / 2) if n > 1 else 1.0
            else:
                errors = [1 - (self.accuracy[j] or 0.0) for j in paying]
                self.chance[i] = (1 - (self.accuracy[i] or 0.0)) / sum(errors)

    def choice(self, view):
        self.read(view)
        stream = rng.stream(self.seed, "select/tifl", view.round)
        there = set(view.candidates.tolist())
        is_there = [bool(there & set(tier)) for tier in self.tiers]
        if not any(is_there):
            return []
        open_ = [i for i in range(self.m) if is_there[i] and self.credits[i] > 0]
        open_ = open_ or [i for i in range(self.m) if is_there[i]]
        chance = {i: self.chance[i] for i in open_}
        if not sum(chance.values()):
            chance = dict.fromkeys(open_, 1.0)
        mark = stream.random() * sum(chance.values())
        drawn = open_[-1]
        for i in open_:
            mark -= chance[i]
            if mark < 0:
                drawn = i
                break
        self.current = drawn
        self.credits[drawn] = max(self.credits[drawn] - 1, 0)
        lots = stream.random(len(self.n))
        expected = []
        for tier in self.tiers[drawn:]:
            expected += sorted(there & set(tier), key=lambda k: lots[k])
        return expected[: view.wanted]
