"""Own training of clients that breaks its contract, and some that keeps it."""

from __future__ import annotations

import itertools
import time
from typing import Any

import numpy as np
import torch

from fleetsim.contracts import ClientUpdate, Wire
from fleetsim.learning.algorithms.ditto import Ditto
from fleetsim.learning.algorithms.scaffold import Scaffold

KIND = "local"


class Plain:
    """SGD."""

    def train_client(self, model: Any, data: Any, generator: Any, settings: Any) -> Any:
        weights = list(model.parameters())
        for inputs, labels in data.batches(generator):
            losses = data.losses(model(inputs), labels)
            gradients = torch.autograd.grad(losses.mean(), weights)
            with torch.no_grad():
                for weight, gradient in zip(weights, gradients, strict=True):
                    weight.sub_(settings.optimizer.learning_rate * gradient)
        return ClientUpdate(loss=losses.mean().item())


class Personal(Ditto):
    """Ditto, which keeps a model."""

    def __init__(self) -> None:
        super().__init__(0.1)


class Counts(Plain):
    def train_client(self, model: Any, data: Any, generator: Any, settings: Any) -> Any:
        found = super().train_client(model, data, generator, settings)
        return found._replace(state={"count": data.state.get("count", np.zeros(2)) + 1})


class ReturnsNothing(Plain):
    def train_client(self, model: Any, data: Any, generator: Any, settings: Any) -> Any:
        super().train_client(model, data, generator, settings)


class Fails(Plain):
    def train_client(self, model: Any, data: Any, generator: Any, settings: Any) -> Any:
        raise KeyError("weights")


class DrawsFromTorch(Plain):
    def train_client(self, model: Any, data: Any, generator: Any, settings: Any) -> Any:
        torch.rand(3)
        return super().train_client(model, data, generator, settings)


class ChangesSamples(Plain):
    def train_client(self, model: Any, data: Any, generator: Any, settings: Any) -> Any:
        data.inputs.mul_(0.5)
        return super().train_client(model, data, generator, settings)


class ChangesState(Counts):
    def train_client(self, model: Any, data: Any, generator: Any, settings: Any) -> Any:
        for array in data.state.values():
            np.add(array, 1, out=array)
        return super().train_client(model, data, generator, settings)


class Remembers(Plain):
    def __init__(self) -> None:
        self.factor = 1.0

    def train_client(self, model: Any, data: Any, generator: Any, settings: Any) -> Any:
        self.factor *= 0.5
        found = super().train_client(model, data, generator, settings)
        return found._replace(loss=found.loss * self.factor)


class LooksAtTheClock(Plain):
    def train_client(self, model: Any, data: Any, generator: Any, settings: Any) -> Any:
        found = super().train_client(model, data, generator, settings)
        return found._replace(metrics={"s": time.perf_counter()})


_NUMBERS = itertools.count()


class LeavesNumbers(Plain):
    def train_client(self, model: Any, data: Any, generator: Any, settings: Any) -> Any:
        found = super().train_client(model, data, generator, settings)
        return found._replace(loss=float(next(_NUMBERS)))


class KeepsOtherShapes(Plain):
    def train_client(self, model: Any, data: Any, generator: Any, settings: Any) -> Any:
        found = super().train_client(model, data, generator, settings)
        return found._replace(state={"own": np.zeros(1 + data.client)})


class SendsUndeclared(Plain):
    def train_client(self, model: Any, data: Any, generator: Any, settings: Any) -> Any:
        found = super().train_client(model, data, generator, settings)
        return found._replace(sent={"more": np.zeros(3)})


class BroadcastsTooMuch(Scaffold):
    def wire(self, num_parameters: int) -> Wire:
        return Wire(upload_byte=4 * num_parameters)


class WireIsANumber(Scaffold):
    def wire(self, num_parameters: int) -> Any:
        return num_parameters


class ChangesServer(Scaffold):
    def server_step(self, server: Any, step: Any) -> Any:
        server["control"] += 1
        return step.after, server


class ForgetsTheModel(Scaffold):
    def server_step(self, server: Any, step: Any) -> Any:
        return server


class HalfAPart(Plain):
    def wire(self, num_parameters: int) -> Wire:
        return Wire()


GOOD = [Plain, Personal, Counts, Scaffold]
BROKEN = {
    ReturnsNothing: "train_client must return a ClientUpdate (from fleetsim.contracts), got None",
    Fails: "train_client of client 0 fails: KeyError: 'weights'",
    DrawsFromTorch: "train_client draws from or seeds the global generator of torch",
    ChangesSamples: "train_client changes data.inputs; work on a copy",
    ChangesState: "train_client changes data.state; work on a copy",
    Remembers: "a new object gives another result; keep nothing between calls",
    LooksAtTheClock: "train_client gives two results from equal arguments",
    LeavesNumbers: "train_client gives two results from equal arguments",
    KeepsOtherShapes: "names and shapes must be those of all clients",
    SendsUndeclared: "ClientUpdate.sent has 24 bytes, and wire says at most 0",
    BroadcastsTooMuch: "broadcast has 60 bytes, and wire says at most 0",
    WireIsANumber: "wire returned int, not a Wire",
    ChangesServer: "server_step changes server; work on a copy",
    ForgetsTheModel: "server_step returned dict, not (model, arrays of the server)",
    HalfAPart: "is no local, it lacks start_server, broadcast, server_step",
}
