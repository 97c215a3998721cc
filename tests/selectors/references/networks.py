"""Favor and FedMarl with networks that do not learn, in plain Python."""

import math
import statistics

import numpy as np
import torch

from fleetsim import rng
from fleetsim.contracts import WorkKind
from tests.selectors.references.referee import Reference


def layer(weights, biases, inputs):
    """A linear layer, unit by unit."""
    return [
        bias + sum(w * x for w, x in zip(row, inputs, strict=True))
        for row, bias in zip(weights, biases, strict=True)
    ]


class Favor(Reference):
    """Whole models kept, axes by singular values."""

    probe_kind = WorkKind.TRAIN

    def begin(self):
        self.num = len(self.n)
        self.num_axes = min(self.s.components, self.num)
        self.was_asked: set[int] = set()
        self.models = {k: self.fleet.parameters.astype(float) for k in range(-1, self.num)}
        self.axes: np.ndarray | None = None
        inputs, hidden = (self.num + 1) * self.num_axes, self.s.hidden
        draw = torch.Generator().manual_seed(rng.torch_seed(self.seed, "select/favor/weights"))

        def uniform(num_inputs, *shape):
            bound = 1.0 / math.sqrt(num_inputs)
            return (torch.rand(shape, generator=draw) * 2.0 * bound - bound).double().tolist()

        self.hidden = uniform(inputs, hidden, inputs), uniform(inputs, hidden)
        self.output = uniform(hidden, self.num, hidden), uniform(hidden, self.num)

    def asked_first(self, view):
        expected = [k for k in view.candidates.tolist() if k not in self.was_asked]
        self.was_asked.update(expected)
        return expected

    def take_in(self, reports, global_model):
        new = {r.client: r.vector.astype(float) for r in reports if r.vector is not None}
        self.models[-1] = global_model.astype(float)
        if self.axes is None and new:
            self.fit(np.stack([self.models[-1], *(new[k] for k in sorted(new))]))
        self.models |= new

    def fit(self, points):
        self.mean = points.mean(axis=0)
        centred = points - self.mean
        deviation = np.ones(centred.shape[1])
        if self.s.scaling == "standard":
            # The weights of a pixel that is never lit are those of the initial model.
            deviation = np.array([spread or 1.0 for spread in points.std(axis=0).tolist()])
        left, lengths, right = np.linalg.svd(centred / deviation, full_matrices=False)
        num = min(self.num_axes, int((lengths > 1e-6 * lengths[0]).sum()))
        self.axes = np.zeros((self.num_axes, points.shape[1]))
        for axis in range(num):
            place = np.abs(left[:, axis]).argmax()
            sign = 1.0 if left[place, axis] > 0.0 else -1.0
            self.axes[axis] = sign * right[axis] / deviation
        self.axes /= lengths[0] / math.sqrt(len(points))

    def values(self):
        if self.axes is None:
            return [0.0] * self.num
        state = [
            float(axis @ (self.models[k] - self.mean))
            for k in range(-1, self.num)
            for axis in self.axes
        ]
        return layer(*self.output, [max(0.0, x) for x in layer(*self.hidden, state)])

    def choice(self, view):
        self.take_in(view.reports, view.parameters)
        q = self.values()
        return sorted(view.candidates.tolist(), key=lambda k: (-q[k], k))[: view.wanted]

    def observe(self, outcome):
        if outcome.selected.size:
            self.take_in(outcome.reports, outcome.parameters)


class FedMarl(Reference):
    """States, values and choices client by client."""

    def __init__(self, settings, network) -> None:
        super().__init__(settings)
        self.network = {name: array.tolist() for name, array in network.items()}

    def begin(self):
        self.last_upload: dict[int, float] = {}
        self.uploads: dict[int, int] = {}
        self.drawn: list[int] = []

    def draw(self, view):
        race = self.race(view, "select/fedmarl")
        num = max(self.s.candidates or 2 * self.fleet.cohort, view.wanted)
        return sorted(view.candidates.tolist(), key=lambda k: race[k])[:num]

    def asked_first(self, view):
        self.drawn = self.draw(view)
        return self.drawn

    def choice(self, view):
        there = set(view.candidates.tolist())
        self.delivered = {r.client: r for r in view.reports if r.is_delivered}
        known = {k: r for k, r in self.delivered.items() if k in there and math.isfinite(r.loss)}
        if not known:
            left = [k for k in self.drawn if k in there] or self.draw(view)
            return left[: view.wanted]
        gain = self.gains(known, view)
        order = sorted(gain, key=lambda k: (-gain[k], k))
        willing = [k for k in order if gain[k] >= 0]
        return (willing or order[:1])[: view.wanted]

    def work(self, view, cohort):
        return [k in self.delivered for k in cohort.clients.tolist()], cohort.continues.tolist()

    def gains(self, known, view):
        clients = sorted(known)
        columns = [
            self.relative([known[k].loss for k in clients]),
            self.relative([known[k].finished_at_s - known[k].dispatched_at_s for k in clients]),
            self.relative([self.last_upload.get(k) for k in clients]),
            [self.uploads.get(k, 0) / max(1, view.round - 1) for k in clients],
            self.relative([float(self.n[k]) for k in clients]),
            [min(1.0, view.round / self.fleet.planned_rounds) for _ in clients],
        ]
        values = [self.values(state) for state in zip(*columns, strict=True)]
        return {k: go - stop for k, (stop, go) in zip(clients, values, strict=True)}

    def values(self, state):
        net = self.network
        hidden = layer(net["hidden/weight"], net["hidden/bias"], state)
        return layer(net["output/weight"], net["output/bias"], [max(0.0, x) for x in hidden])

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
