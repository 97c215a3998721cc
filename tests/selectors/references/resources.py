"""FedCS, RBCS-F and AutoFL, which ask clients for their resources: dictionaries over clients."""

import math
from itertools import combinations

import numpy as np

from fleetsim import rng
from tests.selectors.references.referee import Reference


class FedCS(Reference):
    """Algorithm 3 as printed: the largest inverse of the increase, to the last client."""

    def asked_first(self, view):
        return self.lots(view)[: math.ceil(self.s.asked_fraction * len(self.n))]

    def lots(self, view):
        race = self.race(view, "select/fedcs")
        return sorted(view.candidates.tolist(), key=lambda k: race[k])

    def choice(self, view):
        model_bit = 8 * self.fleet.payload_byte
        down, work, up = {}, {}, {}
        for report in view.reports:
            of_k, k = report.resources, report.client
            if of_k is not None and of_k.down_bit_per_s > 0 and k in view.candidates:
                down[k] = model_bit / of_k.down_bit_per_s
                work[k] = self.fleet.epochs * self.n[k] / of_k.samples_per_s
                up[k] = model_bit / of_k.up_bit_per_s
        if not down:
            return self.lots(view)[: view.wanted]

        def spread(clients):
            return max((down[k] for k in clients), default=0.0)

        def end(k, theta):
            return theta + up[k] + max(0.0, work[k] - theta)

        taken: list[int] = []
        theta, left = 0.0, sorted(down)
        while left and len(taken) < view.wanted:
            inverse = {
                k: 1 / (spread([*taken, k]) - spread(taken) + end(k, theta) - theta) for k in left
            }
            k = max(left, key=lambda k: inverse[k])
            left.remove(k)
            if spread([*taken, k]) + end(k, theta) < self.s.round_s:
                theta = end(k, theta)
                taken.append(k)
        return taken or [min(sorted(down), key=lambda k: spread([k]) + end(k, 0.0))]


class RbcsF(Reference):
    """Ridge regression written out, and every set of the requested size tried."""

    def begin(self):
        self.queue = [0.0] * len(self.n)
        self.seen: list[list[tuple[np.ndarray, float]]] = [[] for _ in self.n]
        self.last: set[int] = set()
        self.context: dict[int, np.ndarray] = {}

    def asked_first(self, view):
        return view.candidates.tolist()

    def expected_s(self, k):
        h, b = self.s.ridge * np.eye(3), np.zeros(3)
        for c, time_s in self.seen[k]:
            h = h + np.outer(c, c)
            b = b + time_s * c
        inverse, c = np.linalg.inv(h), self.context[k]
        return max(0.0, c @ inverse @ b - self.s.confidence * np.sqrt(c @ inverse @ c))

    def choice_like(self, view, chosen):
        self.context = {}
        for report in view.reports:
            of_k, k = report.resources, report.client
            if of_k is not None and of_k.up_bit_per_s > 0:
                transfer_s = 8 * self.fleet.payload_byte / of_k.up_bit_per_s
                idle = 1 - of_k.load_fraction
                self.context[k] = np.array([1 / idle, float(k in self.last), transfer_s])
        there = [k for k in view.candidates.tolist() if k in self.context]
        time_s = {k: self.expected_s(k) for k in there}
        if not there:
            there = view.candidates.tolist()
            time_s = dict.fromkeys(there, 0.0)
        costs = {
            frozenset(s): self.s.penalty * max(time_s[k] for k in s) - sum(self.queue[k] for k in s)
            for s in combinations(there, min(view.wanted, len(there)))
            if s
        }
        if not costs:
            return []
        best = min(costs, key=lambda members: costs[members])
        # Sets of equal cost are equally good, and so are clients of equal queues.
        is_best = costs.get(frozenset(chosen), np.inf) <= costs[best] + 1e-9
        return sorted(chosen if is_best else best, key=lambda k: -self.queue[k])

    def observe(self, outcome):
        for report in outcome.reports:
            if report.is_delivered and report.client in self.context:
                k = report.client
                self.seen[k].append((self.context[k], report.duration_s))
        self.last = set(outcome.selected.tolist())
        for k, queue in enumerate(self.queue):
            self.queue[k] = max(0.0, queue + self.s.guaranteed_fraction - (k in self.last))


def bin_of(value, *bounds):
    return sum(value >= bound for bound in bounds)


def in_use(percent):
    return 0 if percent == 0 else 1 + bin_of(percent, 25, 75)


class AutoFl(Reference):
    """A dictionary of values for each client or kind of device."""

    def begin(self):
        self.epsilon = self.s.exploration if self.s.learning else 0.0
        self.levels = [1.0, 0.8, 0.6, 0.4, 0.2]
        self.q: dict[tuple[int, ...], list[float]] = {}
        self.accuracy = self.fleet.validation.accuracy
        self.state: dict[int, tuple[int, ...]] = {}
        self.level: dict[int, int] = {}
        self.waiting: list[tuple[int, tuple[int, ...], int, float]] = []

    def asked_first(self, view):
        return view.candidates.tolist()

    def values(self, state):
        return self.q.get(state, [0.0] * 5)

    def state_of(self, k, of_k):
        layers = self.fleet.layer_counts
        used = 0.0 if of_k.free_ram_byte is None else 1 - of_k.free_ram_byte / of_k.ram_byte
        bit_per_s = min(of_k.up_bit_per_s, of_k.down_bit_per_s)
        coverage = self.fleet.label_coverage
        return (
            math.floor(math.log2(of_k.flop_per_s)) if self.s.tables == "category" else k,
            bin_of(layers.get("conv", 0) + layers.get("depthwise", 0), 10, 20, 30),
            bin_of(layers.get("gemm", 0), 10),
            bin_of(layers.get("rnn", 0), 5, 10),
            bin_of(self.fleet.batch_size, 8, 32),
            bin_of(self.fleet.epochs, 5, 10),
            bin_of(self.fleet.cohort, 10, 50),
            in_use(100 * of_k.load_fraction),
            in_use(100 * max(used, 0.0)),
            bin_of(bit_per_s / 1e6, 40),
            2 if coverage is None else bin_of(100 * coverage[k], 25, 100),
        )

    def learn(self, old, level, reward, new):
        row = list(self.values(old))
        row[level] += 0.9 * (reward + 0.1 * max(self.values(new)) - row[level])
        self.q[old] = row

    def choice(self, view):
        known = {r.client: r.resources for r in view.reports if r.resources is not None}
        self.state = {k: self.state_of(k, known[k]) for k in known}
        for k, old, level, reward in [one for one in self.waiting if one[0] in known]:
            self.learn(old, level, reward, self.state[k])
        self.waiting = [one for one in self.waiting if one[0] not in known]
        dice = rng.stream(self.seed, "select/autofl", view.round)
        explores = dice.random() < self.epsilon
        race = dice.standard_exponential(len(self.n))
        present = [k for k in view.candidates.tolist() if k in known]
        if explores or not present:
            order = sorted(present or view.candidates.tolist(), key=lambda k: race[k])
        else:
            order = sorted(present, key=lambda k: -max(self.values(self.state[k])))
        return order[: view.wanted]

    def work(self, view, cohort):
        dice = rng.stream(self.seed, "select/autofl/levels", view.round)
        uniforms, drawn = dice.random(len(self.n)), dice.integers(5, size=len(self.n))
        self.level = {}
        for k in cohort.clients.tolist():
            row = self.values(self.state.get(k))
            self.level[k] = int(drawn[k]) if uniforms[k] < self.epsilon else row.index(max(row))
        return [self.levels[a] for a in self.level.values()], cohort.clock_fraction.tolist()

    def observe(self, outcome):
        if not self.s.learning:
            return
        before, now = self.accuracy, outcome.validation.accuracy
        self.accuracy = max(before, now) if self.s.previous == "best" else now
        there = [r for r in outcome.reports if r.is_delivered and r.client in self.state]
        global_j = sum(r.energy_j for r in there)
        if self.s.cohort_energy == "mean":
            global_j /= max(len(outcome.reports), 1)
        for r in there:
            cost = (global_j + r.energy_j) / self.s.unit_j
            gain = self.s.accuracy_weight * 100 * now + self.s.gain_weight * 100 * (now - before)
            reward = 100 * now - 100 if now < before else gain - cost
            old, level = self.state[r.client], self.level[r.client]
            if self.s.next_state == "observed":
                self.waiting.append((r.client, old, level, reward))
            else:
                self.learn(old, level, reward, old)
