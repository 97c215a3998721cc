"""DivFL, GPFL and FedGRA, which see the vectors of clients: in lists and loops over clients."""

import math

from fleetsim.contracts import WorkKind
from tests.selectors.references.referee import Reference


class DivFl(Reference):
    """The greedy sum of least distances, exactly."""

    def begin(self):
        self.g: dict[int, list[float]] = {}
        self.planned: list[int] | None = None
        self.updates = self.s.vectors == "update"

    def asked(self, view):
        if view.stage == 0:
            self.planned = None
        for report in view.reports:
            if report.is_delivered:
                start = view.parameters if self.updates else 0.0 * view.parameters
                self.g[report.client] = (report.vector - start).tolist()
        heard = {report.client for report in view.reports}
        silent = [k for k in view.candidates.tolist() if k not in heard]
        strangers = [k for k in silent if k not in self.g]
        if self.s.refresh == "ideal":
            return silent
        if strangers or self.updates:
            return strangers
        if self.planned is None:
            self.planned = self.greedy(view)
            return [k for k in self.planned if k in silent]
        return []

    def apart(self, vectors, i, k):
        return math.dist(vectors[i], vectors[k]) ** (2 if self.s.metric == "squared_l2" else 1)

    def work(self, view, cohort):
        if self.s.weights != "gamma":
            return None, cohort.weights
        gamma = dict.fromkeys(cohort.clients.tolist(), 0)
        representatives = [k for k in gamma if k in self.known]
        for i in self.known if representatives else []:
            near = min(representatives, key=lambda k: self.apart(self.known, i, k))
            gamma[i if i in gamma else near] += 1
        expected = [float(max(num, 1)) for num in gamma.values()]
        return expected, [] if cohort.weights is None else cohort.weights.tolist()

    def greedy(self, view):
        self.known = dict(self.g)
        there = view.candidates.tolist()
        taken: list[int] = []
        left = [k for k in there if k in self.g]
        while left and len(taken) < view.wanted:
            cost = {
                k: math.fsum(min(self.apart(self.g, i, j) for j in [*taken, k]) for i in self.g)
                for k in left
            }
            taken.append(min(left, key=lambda k: cost[k]))
            left.remove(taken[-1])
        return (taken + [k for k in there if k not in self.g])[: view.wanted]

    def choice(self, view):
        planned = [k for k in self.planned or [] if k in view.candidates][: view.wanted]
        return planned or self.greedy(view)

    def observe(self, outcome):
        for report in outcome.reports:
            if self.updates and report.is_delivered:
                self.g[report.client] = (report.vector - report.base).tolist()


def length(vector):
    return math.sqrt(sum(x * x for x in vector))


def mean_of(vectors):
    return [sum(column) / len(vectors) for column in zip(*vectors, strict=True)]


class Gpfl(Reference):
    """Projections, rewards and bounds, with every reward kept in a list."""

    probe_kind = WorkKind.GRADIENT

    def begin(self):
        fleet = self.fleet
        self.total_rounds, self.rate = fleet.planned_rounds, fleet.learning_rate
        self.before = (fleet.validation.accuracy, fleet.validation.loss)
        self.was_asked: set[int] = set()
        self.c: dict[int, float] = {}
        self.mu: dict[int, list[float]] = {}
        self.num: dict[int, int] = {}
        self.g: list[float] = []
        self.num_rounds = 0
        self.waiting: tuple[list[int], float, bool] | None = None

    def asked_first(self, view):
        there = view.candidates.tolist()
        expected = [k for k in there if k not in self.was_asked]
        self.was_asked.update(there)
        if self.waiting is not None:
            expected += [k for k in self.waiting[0] if k in there]
        return expected

    def choice(self, view):
        self.rate = view.learning_rate
        scale = self.rate if self.s.vector == "delta" else 1.0
        vectors = {
            report.client: [scale * x for x in report.vector.astype(float).tolist()]
            for report in view.reports
            if report.is_delivered
        }
        if self.waiting is not None:
            who, factor, is_aggregated = self.waiting
            self.waiting = None
            self.learn({k: vectors.pop(k) for k in who if k in vectors}, factor, is_aggregated)
        new = {k: vector for k, vector in vectors.items() if k not in self.c}
        if new and not self.g:
            self.g = mean_of(list(new.values()))
        for k, vector in new.items():
            self.project(k, vector)
        if self.num_rounds or self.s.mean == "per_pull":
            for k in new:
                self.mu[k].append(self.share(k))
        score = {k: self.score(k, view.round - 1) for k in view.candidates.tolist()}
        return sorted(score, key=lambda k: (-score[k], k))[: view.wanted]

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
        rise, fall = now.accuracy - self.before[0], self.before[1] - now.loss
        self.before = now.accuracy, now.loss
        if self.s.adjustment == "corrected":
            return math.exp(rise if rise else fall)
        return 2 * math.exp(rise) if rise else math.exp(-fall)

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


NUM_METRICS = 4
LOSS = 0


class FedGra(Reference):
    """Equations (1) to (17) and Algorithm 2."""

    def begin(self):
        self.f_of = dict.fromkeys(range(len(self.n)), 1.0)
        self.marked: set[int] = set()
        self.power: dict[int, float] = {}
        self.memory: dict[int, float] = {}
        self.chosen: list[int] = []
        self.holds_selection = False

    def asked_first(self, view):
        there = view.candidates.tolist()
        is_due = view.round % self.s.every_rounds == 1 % self.s.every_rounds
        self.holds_selection = is_due or not set(self.chosen) & set(there)
        return there if self.holds_selection else []

    def choice(self, view):
        there = view.candidates.tolist()
        if not self.holds_selection:
            return [k for k in self.chosen if k in there][: view.wanted]
        grade = {k: g for k, g in self.grades(self.metrics(view)).items() if k in there}
        grade = grade or dict.fromkeys(there, 0.0)
        forced = sorted(self.marked & set(grade), key=lambda k: (-self.f_of[k], -grade[k], k))
        others = sorted(set(grade) - self.marked, key=lambda k: (-grade[k], k))
        if self.s.overflow == "printed":
            others = others[: self.fleet.cohort - bool(forced)]
        expected = (forced + others)[: view.wanted]
        if expected:
            self.chosen = expected
            self.grow_fairness()
        return expected

    def metrics(self, view):
        rows = {}
        weights = view.parameters.astype(float).tolist()
        for report in sorted(view.reports, key=lambda report: report.client):
            if not report.is_delivered or not math.isfinite(report.loss):
                continue
            k, of_k = report.client, report.resources
            divergence = math.dist(weights, report.vector.astype(float).tolist())
            power = of_k.flop_per_s * (1.0 - of_k.load_fraction)
            memory = of_k.ram_byte if of_k.free_ram_byte is None else of_k.free_ram_byte
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
