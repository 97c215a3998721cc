"""AutoFL: a dictionary of values for each client or kind of device, and bins as chains of ifs."""

import math

from fleetsim import rng
from tests.selectors.references.referee import Reference, clients_of


def bin_of(value, *bounds):
    for number, bound in enumerate(bounds):
        if value < bound:
            return number
    return len(bounds)


def in_use(percent):
    return 0 if percent == 0 else 1 + bin_of(percent, 25, 75)


class AutoFl(Reference):
    def __init__(
        self,
        *,
        epsilon=0.1,
        alpha=1.0,
        beta=10.0,
        unit_j=1.0,
        shared=False,
        waits=True,
        best=False,
        adds_up=False,
        learns=True,
    ) -> None:
        self.epsilon, self.alpha, self.beta, self.unit_j = epsilon, alpha, beta, unit_j
        self.shared, self.waits, self.best, self.adds_up = shared, waits, best, adds_up
        self.learns = learns
        self.levels = [1.0, 0.8, 0.6, 0.4, 0.2]

    def setup(self, fleet):
        self.fleet = fleet
        self.q: dict[tuple[int, ...], list[float]] = {}
        self.accuracy = fleet.validation.accuracy
        self.state: dict[int, tuple[int, ...]] = {}
        self.level: dict[int, int] = {}
        self.waiting: list[tuple[int, tuple[int, ...], int, float]] = []

    def asked(self, view, requests):
        all_clients = view.candidates.tolist() if view.stage == 0 else []
        return all_clients, clients_of(requests)

    def values(self, state):
        return self.q.get(state, [0.0] * 5)

    def state_of(self, k, told):
        layers = self.fleet.layer_counts
        used = 0.0 if told.free_ram_byte is None else 1 - told.free_ram_byte / told.ram_byte
        bit_per_s = min(told.up_bit_per_s, told.down_bit_per_s)
        coverage = self.fleet.label_coverage
        return (
            math.floor(math.log2(told.flop_per_s)) if self.shared else k,
            bin_of(layers.get("conv", 0) + layers.get("depthwise", 0), 10, 20, 30),
            bin_of(layers.get("gemm", 0), 10),
            bin_of(layers.get("rnn", 0), 5, 10),
            bin_of(self.fleet.batch_size, 8, 32),
            bin_of(self.fleet.epochs, 5, 10),
            bin_of(self.fleet.cohort, 10, 50),
            in_use(100 * told.load_fraction),
            in_use(100 * max(used, 0.0)),
            bin_of(bit_per_s / 1e6, 40),
            2 if coverage is None else bin_of(100 * coverage[k], 25, 100),
        )

    def learn(self, old, level, reward, new):
        row = list(self.values(old))
        row[level] += 0.9 * (reward + 0.1 * max(self.values(new)) - row[level])
        self.q[old] = row

    def choice(self, view, chosen):
        told = {r.client: r.resources for r in view.reports if r.resources is not None}
        self.state = {k: self.state_of(k, told[k]) for k in told}
        for k, old, level, reward in [one for one in self.waiting if one[0] in told]:
            self.learn(old, level, reward, self.state[k])
        self.waiting = [one for one in self.waiting if one[0] not in told]
        dice = rng.stream(self.fleet.seed, "select/autofl", view.round)
        explores = dice.random() < self.epsilon
        race = dice.standard_exponential(self.fleet.num_samples.size)
        present = [k for k in view.candidates.tolist() if k in told]
        if explores or not present:
            order = sorted(present or view.candidates.tolist(), key=lambda k: race[k])
        else:
            order = sorted(present, key=lambda k: -max(self.values(self.state[k])))
        return order[: view.wanted], chosen

    def work(self, view, cohort):
        dice = rng.stream(self.fleet.seed, "select/autofl/levels", view.round)
        uniforms = dice.random(self.fleet.num_samples.size)
        drawn = dice.integers(5, size=self.fleet.num_samples.size)
        self.level = {}
        for k in cohort.clients.tolist():
            row = self.values(self.state.get(k))
            best = min(a for a in range(5) if row[a] == max(row))
            self.level[k] = int(drawn[k]) if uniforms[k] < self.epsilon else best
        return [self.levels[a] for a in self.level.values()], cohort.clock_fraction.tolist()

    def observe(self, outcome):
        if not self.learns:
            return
        before, now = self.accuracy, outcome.validation.accuracy
        self.accuracy = max(before, now) if self.best else now
        there = [r for r in outcome.reports if r.is_delivered and r.client in self.state]
        global_j = sum(r.energy_j for r in there)
        if not self.adds_up:
            global_j /= max(len(outcome.reports), 1)
        for r in there:
            if now < before:
                reward = 100 * now - 100
            else:
                cost = (global_j + r.energy_j) / self.unit_j
                reward = self.alpha * 100 * now + self.beta * 100 * (now - before) - cost
            old, level = self.state[r.client], self.level[r.client]
            if self.waits:
                self.waiting.append((r.client, old, level, reward))
            else:
                self.learn(old, level, reward, old)
