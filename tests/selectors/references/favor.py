"""Favor: whole models kept, axes by singular values, the network unit by unit."""

import math

import numpy as np
import torch

from fleetsim import rng
from fleetsim.contracts import WorkKind
from tests.selectors.references.referee import Reference, clients_of


class Favor(Reference):
    """Choices of a network that does not learn."""

    def __init__(self, settings) -> None:
        self.s = settings

    def setup(self, fleet):
        self.seed, self.num = fleet.seed, fleet.num_samples.size
        self.num_axes = min(self.s.components, self.num)
        self.was_asked: set[int] = set()
        self.models = {k: fleet.parameters.astype(float) for k in range(-1, self.num)}
        self.axes: np.ndarray | None = None
        self.layers = self.first_layers()

    def first_layers(self):
        inputs, hidden = (self.num + 1) * self.num_axes, self.s.hidden
        draw = torch.Generator().manual_seed(rng.torch_seed(self.seed, "select/favor/weights"))

        def uniform(bound, *shape):
            return (torch.rand(shape, generator=draw) * 2.0 * bound - bound).double().tolist()

        first, second = 1.0 / math.sqrt(inputs), 1.0 / math.sqrt(hidden)
        return (
            uniform(first, hidden, inputs),
            uniform(first, hidden),
            uniform(second, self.num, hidden),
            uniform(second, self.num),
        )

    def asked(self, view, requests):
        if view.stage > 0:
            return [], clients_of(requests)
        expected = [k for k in view.candidates.tolist() if k not in self.was_asked]
        self.was_asked.update(expected)
        assert all(request.work.kind is WorkKind.TRAIN for request in requests)
        return expected, clients_of(requests)

    def told(self, reports, global_model):
        told = {r.client: r.vector.astype(float) for r in reports if r.vector is not None}
        self.models[-1] = global_model.astype(float)
        if self.axes is None and told:
            points = np.stack([self.models[-1], *(told[k] for k in sorted(told))])
            self.fit(points)
        self.models |= told

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
        weights, biases, out_weights, out_biases = self.layers

        def unit(row, bias, inputs):
            return bias + sum(w * x for w, x in zip(row, inputs, strict=True))

        hidden = [max(0.0, unit(*pair, state)) for pair in zip(weights, biases, strict=True)]
        return [unit(*pair, hidden) for pair in zip(out_weights, out_biases, strict=True)]

    def choice(self, view, chosen):
        self.told(view.reports, view.parameters)
        q = self.values()
        return sorted(view.candidates.tolist(), key=lambda k: (-q[k], k))[: view.wanted], chosen

    def observe(self, outcome):
        if outcome.selected.size:
            self.told(outcome.reports, outcome.parameters)
