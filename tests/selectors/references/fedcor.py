"""FedCor: conditional covariances by matrix inverses, fits by automatic differentiation."""

import math

import numpy as np
import torch

from fleetsim import rng
from fleetsim.contracts import WorkKind
from tests.selectors.references.referee import Reference


class FedCor(Reference):
    def begin(self):
        self.size = len(self.n)
        self.p = self.fleet.num_samples / sum(self.n)
        normals = rng.stream(self.seed, "select/fedcor/points")
        d = self.s.dimensions
        self.x = normals.standard_normal((d, self.size)) / math.sqrt(d)
        self.alpha = [1.0] * self.size
        self.changes: list[tuple[int, dict[int, float]]] = []
        self.before: dict[int, float] = {}
        self.is_new = False

    def asked(self, view):
        done = view.round - 1
        is_warm_up = done <= self.s.warm_up_rounds
        there = view.candidates.tolist()
        if view.stage == 0:
            self.num_read = 0
            is_due = is_warm_up or done % self.s.interval_rounds == 0
            self.step = "losses" if is_due and there else None
            return there if is_due else []
        reports = [r for r in view.reports[self.num_read :] if r.is_delivered]
        self.num_read = len(view.reports)
        expected: list[int] = []
        loss = {r.client: r.loss for r in reports if r.loss and math.isfinite(r.loss)}
        if self.step == "losses" and is_warm_up:
            self.step = None
            if self.is_new:
                self.note(done, loss)
            self.before, self.is_new = loss, False
            if done == self.s.warm_up_rounds:
                for round_, _ in list(self.changes):
                    self.fit(round_, self.s.warm_up_fit_steps)
        elif self.step == "losses":
            self.step, self.before = "models", loss
            arrives = self.race(view, "select/fedcor/shadow")
            answered = [k for k in there if k in loss]
            expected = sorted(answered, key=lambda k: arrives[k])[: self.fleet.cohort]
        elif self.step == "models":
            self.step = "shadow" if reports else None
            if reports:
                total = sum(r.num_samples for r in reports)
                mean = sum(r.num_samples / total * r.vector.astype(float) for r in reports)
                expected = [k for k in there if k in self.before]
                self.shadow_model = mean
        elif self.step == "shadow":
            self.step = None
            self.note(done, loss)
            self.fit(done, self.s.fit_steps)
        return expected

    def made(self, requests):
        if self.step == "models":
            assert all(request.work.kind is WorkKind.TRAIN for request in requests)
        if self.step == "shadow":
            assert all(np.allclose(r.parameters, self.shadow_model, atol=1e-6) for r in requests)
        return super().made(requests)

    def note(self, round_, loss):
        change = {k: value - self.before[k] for k, value in loss.items() if k in self.before}
        if change:
            self.changes.append((round_, change))

    def fit(self, now, num_steps):
        self.alpha = [1.0] * self.size
        kept = [c for c in self.changes if now - self.s.history_rounds <= c[0] <= now]
        if not kept:
            return
        x = torch.tensor(self.x, requires_grad=True)
        adam = torch.optim.Adam([x], lr=self.s.learning_rate, maximize=True)
        for _ in range(num_steps):
            total = torch.zeros((), dtype=torch.float64)
            for round_, change in kept:
                points = x[:, list(change)]
                noise = self.s.noise**2 * torch.eye(len(change), dtype=torch.float64)
                zero = torch.zeros(len(change), dtype=torch.float64)
                law = torch.distributions.MultivariateNormal(
                    zero, points.T @ points + noise, validate_args=False
                )
                observed = torch.tensor(list(change.values()), dtype=torch.float64)
                total = total + self.s.discount ** (now - round_) * law.log_prob(observed)
            adam.zero_grad()
            total.backward()
            adam.step()
        self.x = x.detach().numpy()

    def choice(self, view):
        there = view.candidates.tolist()
        if view.round <= self.s.warm_up_rounds:
            arrives = self.race(view, "select/fedcor")
            return sorted(there, key=lambda k: arrives[k])[: view.wanted]
        prior = self.x.T @ self.x + self.s.noise**2 * np.eye(self.size)
        taken: list[int] = []
        while len(taken) < min(view.wanted, len(there)):
            known = prior[:, taken] @ np.linalg.inv(prior[np.ix_(taken, taken)]) @ prior[taken]
            sigma = prior - known
            left = [k for k in there if k not in taken]
            counted = left if self.s.sum_over == "remaining" else range(self.size)
            score = {
                k: self.alpha[k]
                / math.sqrt(sigma[k, k])
                * sum(self.p[i] * sigma[i, k] for i in counted)
                for k in left
            }
            taken.append(max(left, key=lambda k: score[k]))
        return taken

    def observe(self, outcome):
        self.is_new = self.is_new or outcome.aggregated
        if outcome.round > self.s.warm_up_rounds:
            for k in outcome.selected.tolist():
                self.alpha[k] *= self.s.annealing
