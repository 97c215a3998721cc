"""Own training of clients that breaks its contract, and some that keeps it."""

import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from fleetsim.contracts import ClientUpdate, Wire
from fleetsim.learning.local.algorithms.published import Ditto, Scaffold
from tests.user.variants import fails, variants

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


class ChangesServer(Scaffold):
    def server_step(self, server: Any, step: Any) -> Any:
        server["control"] += 1
        return step.after, server


def trains(change: Callable[[Any, Any], Any], before: Any = None) -> dict[str, Any]:
    """Return a training whose update is changed, after something was done to the data."""

    def train_client(self: Any, model: Any, data: Any, generator: Any, settings: Any) -> Any:
        if before is not None:
            before(data)
        return change(Plain.train_client(self, model, data, generator, settings), data)

    return {"train_client": train_client}


_NUMBERS = itertools.count()
GOOD = [Plain, Personal, Counts, Scaffold]
BROKEN = (
    {
        ChangesState: "train_client changes data.state; work on a copy",
        Remembers: "a new object gives another result; keep nothing between calls",
        ChangesServer: "server_step changes server; work on a copy",
    }
    | variants(
        Plain,
        {
            "ReturnsNothing": (
                "train_client must return a ClientUpdate (from fleetsim.contracts), got None",
                trains(lambda *_: None),
            ),
            "Fails": ("train_client of client 0 fails: KeyError: 'weights'",
                {"train_client": fails(KeyError("weights"))}),
            "DrawsFromTorch": ("train_client draws from or seeds the global generator of torch",
                trains(lambda update, _: update, before=lambda _: torch.rand(3))),
            "ChangesSamples": ("train_client changes data.inputs; work on a copy",
                trains(lambda update, _: update, before=lambda data: data.inputs.mul_(0.5))),
            "LooksAtTheClock": ("train_client gives two results from equal arguments",
                trains(lambda update, _: update._replace(metrics={"s": time.perf_counter()}))),
            "LeavesNumbers": ("train_client gives two results from equal arguments",
                trains(lambda update, _: update._replace(loss=float(next(_NUMBERS))))),
            "KeepsOtherShapes": ("names and shapes must be those of all clients",
                trains(lambda update, data: update._replace(
                    state={"own": np.zeros(1 + data.client)}))),
            "SendsUndeclared": ("ClientUpdate.sent has 24 bytes, and wire says at most 0",
                trains(lambda update, _: update._replace(sent={"more": np.zeros(3)}))),
            "SaysAWord": ("train_factor must be a number from 0 to 1e6, not '2'",
                {"train_factor": "2"}),
            "HalfAPart": ("is no local, it lacks start_server, broadcast, server_step",
                {"wire": lambda self, num_parameters: Wire()}),
        },
    )
    | variants(
        Scaffold,
        {
            "BroadcastsTooMuch": ("broadcast has 60 bytes, and wire says at most 0",
                {"wire": lambda self, num_parameters: Wire(upload_byte=4 * num_parameters)}),
            "WireIsANumber": ("wire returned int, not a Wire",
                {"wire": lambda self, num_parameters: num_parameters}),
            "ForgetsTheModel": ("server_step returned dict, not (model, arrays of the server)",
                {"server_step": lambda self, server, step: server}),
        },
    )
)  # fmt: skip
