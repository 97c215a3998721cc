"""Oort, its profiles, and what PyramidFL adds: dictionaries over clients, one formula a line."""

import math
from statistics import fmean, median

from tests.selectors.references.referee import Reference


class Oort(Reference):
    def begin(self):
        self.u: dict[int, float] = {}
        self.t: dict[int, float] = {}
        self.last: dict[int, int] = {}
        self.times: dict[int, int] = {}
        self.gathered: list[float] = []
        self.preferred = self.step = self.s.preferred_duration_s
        if self.s.pacer_step_s is not None:
            self.step = self.s.pacer_step_s
        self.percentile = self.s.preferred_percentile

    def penalty(self, k):
        t = self.t.get(k)
        if t is None or self.preferred is None or t <= self.preferred:
            return 1.0
        return (self.preferred / t) ** self.s.penalty_exponent

    def choice(self, view):
        s, r, there = self.s, view.round, view.candidates.tolist()
        race = self.race(view, "select/oort")
        barred = self.barred(race)
        explored = [k for k in there if k in self.u and k not in barred]
        unexplored = [k for k in there if k not in self.u]
        epsilon = s.exploration_fraction * s.exploration_decay ** (r - 1)
        epsilon = max(epsilon, s.exploration_min_fraction)
        quota = math.floor(round((1 - epsilon) * view.wanted, 9))
        quota = min(max(quota, view.wanted - len(unexplored)), len(explored))
        score = self.scores(explored, r)
        exploited: list[int] = []
        if quota:
            cut_off = s.cut_off_fraction * sorted(score.values(), reverse=True)[quota - 1]
            pool = [k for k in explored if score[k] >= cut_off]
            exploited = sorted(pool, key=lambda k: race[k] / score[k])[:quota]
        num = view.wanted - len(exploited)
        weight = {k: self.n[k] * self.penalty(k) for k in unexplored}
        if s.exploration_weights == "uniform":
            weight = dict.fromkeys(unexplored, 1.0)
        if s.exploration_window is not None:
            largest = sorted(unexplored, key=lambda k: (-weight[k], race[k]))
            unexplored = largest[: int(s.exploration_window * num)]
        explorers = sorted(unexplored, key=lambda k: race[k] / weight[k])[:num]
        return exploited + explorers

    def barred(self, race):
        if self.s.max_selections is None:
            return set()
        often = [k for k, times in self.times.items() if times >= self.s.max_selections]
        most = sorted(often, key=lambda k: (-self.times[k], race[k]))
        return set(most[: int(self.s.max_blacklist_fraction * len(self.n))])

    def scores(self, explored, r):
        if not explored:
            return {}
        s, values = self.s, sorted(self.u[k] for k in explored)
        clip = values[min(int(len(values) * s.clip_fraction), len(values) - 1)]
        result = {}
        for k in explored:
            statistical = min(self.u[k], clip)
            if s.scale_utilities:
                low = 0.999 * values[0]
                statistical = (statistical - low) / max(values[-1] - low, 1e-4)
            bonus = math.sqrt(0.1 * math.log(r) / self.last[k])
            result[k] = (statistical + bonus) * self.penalty(k)
        return result

    def observe(self, outcome):
        if not outcome.reports:
            return
        new, known = {}, set(self.u)
        for report in outcome.reports:
            k = report.client
            self.times[k] = self.times.get(k, 0) + 1
            self.last[k] = outcome.round
            if report.is_delivered:
                self.t[k] = report.duration_s
                if math.isfinite(report.loss_rms):
                    new[k] = report.num_samples * report.loss_rms
            else:
                self.t[k] = max(self.t.get(k, 0.0), report.duration_s)
        self.u |= new
        if new:
            for report in outcome.reports:
                if not report.is_delivered:
                    self.u[report.client] = fmean(new.values())
        self.pace(outcome, new, known)

    def pace(self, outcome, new, known):
        w = self.s.pacer_window_rounds
        delivered_s = [r.duration_s for r in outcome.reports if r.is_delivered]
        if self.percentile is None:
            if self.preferred is None and delivered_s:
                self.preferred = median(delivered_s)
                self.step = self.step or self.preferred
            self.gathered.append(sum(new.values()))
        else:
            of_exploited = [value for k, value in new.items() if k in known]
            self.gathered.append(fmean(of_exploited) if of_exploited else 0.0)
        rounds = len(self.gathered)
        before, after = sum(self.gathered[-2 * w : -w]), sum(self.gathered[-w:])
        is_due = rounds >= 2 * w and (self.s.pacer_every == "round" or rounds % w == 0)
        if self.percentile is None:
            if is_due and before > after:
                self.preferred += self.step
            return
        if is_due and abs(after - before) <= 0.1 * before:
            self.percentile = min(100.0, self.percentile + self.s.pacer_step_percent)
        elif is_due and abs(after - before) >= 5 * before:
            step = self.s.pacer_step_percent
            self.percentile = max(step, self.percentile - step)
        durations = sorted(self.t.values())
        at = min(int(len(durations) * self.percentile / 100), len(durations) - 1)
        self.preferred = math.inf if self.percentile >= 100 else durations[at]


class PyramidFl(Oort):
    """Ranks by the norm of the last update; epochs and shares of the update follow."""

    def begin(self):
        super().begin()
        self.g = {k: float(n) for k, n in enumerate(self.n)}
        self.phases: dict[int, tuple[float, float, float]] = {}
        self.work_of: dict[int, tuple[int, float]] = {}

    def work(self, view, cohort):
        clients, e = cohort.clients.tolist(), self.fleet.epochs
        dropout, end_s = {}, {}
        for k in clients:
            rank = sum(self.g[j] > self.g[k] for j in clients)
            low, high = self.s.lowest_dropout, self.s.highest_dropout
            dropout[k] = low + rank * (high - low) / len(clients)
            if k in self.phases:
                down_s, epoch_s, up_s = self.phases[k]
                end_s[k] = down_s + e * epoch_s + (1 - dropout[k]) * up_s
        epochs = []
        for k in clients:
            extra = 0.0
            if k in end_s:
                idle = (max(end_s.values()) - end_s[k]) // self.phases[k][1]
                extra = min(10 * e, self.s.idle_share * idle)
            epochs.append(e + math.floor(extra))
            self.work_of[k] = epochs[-1], 1 - dropout[k]
        actual = cohort.epochs.tolist(), [round(float(x), 12) for x in cohort.upload_fraction]
        return (epochs, [round(1 - dropout[k], 12) for k in clients]), actual

    def observe(self, outcome):
        super().observe(outcome)
        for report in outcome.reports:
            if report.is_delivered:
                epochs, fraction = self.work_of[report.client]
                times = report.download_s, report.compute_s / epochs, report.upload_s / fraction
                self.phases[report.client] = times
                moved = math.dist(report.vector.tolist(), report.base.tolist())
                self.g[report.client] = moved * self.n[report.client] / 100
