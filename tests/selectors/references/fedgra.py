"""FedGRA: equations (1) to (17) and Algorithm 2 client by client, in lists and dictionaries."""

import math

from tests.selectors.references.referee import Reference, clients_of

NUM_METRICS = 4
LOSS = 0


class FedGra(Reference):
    def __init__(self, settings) -> None:
        self.s = settings

    def setup(self, fleet):
        self.cohort = fleet.cohort
        self.f_of = dict.fromkeys(range(fleet.num_samples.size), 1.0)
        self.marked: set[int] = set()
        self.power: dict[int, float] = {}
        self.memory: dict[int, float] = {}
        self.chosen: list[int] = []
        self.holds_selection = False

    def asked(self, view, requests):
        there = view.candidates.tolist()
        if view.stage > 0:
            return [], clients_of(requests)
        is_due = view.round % self.s.every_rounds == 1 % self.s.every_rounds
        self.holds_selection = is_due or not set(self.chosen) & set(there)
        return there if self.holds_selection else [], clients_of(requests)

    def choice(self, view, chosen):
        there = view.candidates.tolist()
        if not self.holds_selection:
            return [k for k in self.chosen if k in there][: view.wanted], chosen
        grade = {k: g for k, g in self.grades(self.metrics(view)).items() if k in there}
        grade = grade or dict.fromkeys(there, 0.0)
        forced = sorted(self.marked & set(grade), key=lambda k: (-self.f_of[k], -grade[k], k))
        others = sorted(set(grade) - self.marked, key=lambda k: (-grade[k], k))
        if self.s.overflow == "printed":
            room = self.cohort - 1 if forced else self.cohort
            expected = (forced + others[:room])[: view.wanted]
        else:
            expected = (forced + others)[: view.wanted]
        if expected:
            self.chosen = expected
            self.grow_fairness()
        return expected, chosen

    def metrics(self, view):
        rows = {}
        weights = view.parameters.astype(float).tolist()
        for report in sorted(view.reports, key=lambda report: report.client):
            if not report.is_delivered or not math.isfinite(report.loss):
                continue
            k, told = report.client, report.resources
            pairs = zip(weights, report.vector.astype(float).tolist(), strict=True)
            divergence = math.sqrt(sum((a - b) ** 2 for a, b in pairs))
            power = told.flop_per_s * (1.0 - told.load_fraction)
            memory = told.ram_byte if told.free_ram_byte is None else told.free_ram_byte
            theta = self.s.smoothing
            self.power[k] = theta * power + (1 - theta) * self.power.get(k, power)
            self.memory[k] = theta * memory + (1 - theta) * self.memory.get(k, memory)
            rows[k] = [math.sqrt(report.loss**2), divergence, self.power[k], self.memory[k]]
        return rows

    def grades(self, rows):
        x: dict[int, list[float]] = {k: [] for k in rows}
        for column in range(NUM_METRICS):
            values = [row[column] for row in rows.values()]
            low, high = min(values, default=0.0), max(values, default=0.0)
            scale = high + low if self.s.mapping == "sum" else high - low
            gains = {
                k: (high - row[column] if column == LOSS else row[column] - low) / scale
                if high > low
                else 0.0
                for k, row in rows.items()
            }
            mean = sum(gains.values()) / max(len(gains), 1)
            for k, gain in gains.items():
                x[k].append(gain / mean if mean else 0.0)
        best = [max((x[k][m] for k in x), default=0.0) for m in range(NUM_METRICS)]
        gaps = {k: [best[m] - x[k][m] for m in range(NUM_METRICS)] for k in x}
        everything = [gap for row in gaps.values() for gap in row]
        if not any(everything):
            return dict.fromkeys(rows, 0.0)
        nearest, farthest = min(everything), self.s.distinguishing * max(everything)
        w = self.weights(x)
        if self.s.weighting == "inverse":
            w = [1.0 / each if each else 0.0 for each in w]
        return {
            k: sum(w[m] * (nearest + farthest) / (gaps[k][m] + farthest) for m in range(4))
            for k in x
        }

    def weights(self, x):
        information = []
        for m in range(NUM_METRICS):
            total = sum(row[m] for row in x.values())
            shares = [row[m] / total for row in x.values()] if total else []
            entropy = -sum(p * math.log(p) for p in shares if p)
            information.append(1.0 - entropy / math.log(len(x)) if shares else 0.0)
        return [each / sum(information) for each in information]

    def grow_fairness(self):
        self.marked = set()
        for k in self.f_of:
            if k in self.chosen:
                self.f_of[k] = 1.0
                continue
            self.f_of[k] += self.s.fairness_increment
            if self.f_of[k] >= self.s.fairness_bound:
                self.marked.add(k)
                if self.s.reset == "marking":
                    self.f_of[k] = 1.0
