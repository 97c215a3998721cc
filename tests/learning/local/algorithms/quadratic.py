"""A network with one weight w and the loss (w - a)^2 / 2 of a sample a, to compute by hand."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fleetsim.contracts import ClientTraining, JobResult
from fleetsim.learning.local.algorithms.client_data import ClientData
from fleetsim.learning.local.algorithms.run_algorithm import run_algorithm
from fleetsim.learning.local.optimizer_settings import SgdSettings
from fleetsim.learning.local.settings import LocalSettings

Array = NDArray[Any]


class Quadratic(nn.Module):
    """Scores w - a and their half square as loss."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1, dtype=torch.float64))

    def forward(self, inputs: Tensor) -> Tensor:
        return self.weight - inputs

    def losses(self, scores: Tensor, labels: Tensor) -> Tensor:
        return scores.squeeze(1).square() / 2


LOCAL = LocalSettings(epochs=2, batch_size=1, optimizer=SgdSettings(learning_rate=0.1))


def number(value: float) -> Array:
    return np.array([value])


def task(
    algorithm: ClientTraining,
    *,
    start: float,
    sample: float,
    settings: LocalSettings = LOCAL,
    **more: Any,
) -> JobResult:
    """Two steps of rate .1 of a client with one sample."""
    model = Quadratic()
    inputs = torch.tensor([[sample]], dtype=torch.float64)
    kept: Any = {"state": {}, "received": {}, "most_steps": None, **more}
    kept |= {"losses": model.losses, "settings": settings, "epochs": 2}
    data = ClientData(client=3, inputs=inputs, labels=torch.tensor([0]), **kept)
    return run_algorithm(algorithm, model, number(start), data, np.random.default_rng(1))


def weight_of(result: JobResult) -> float:
    assert result.vector is not None
    return float(result.vector[0])
