"""Steps of one task by the scenario's optimizer, and the trained parameters that they move."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fleetsim.learning.local.algorithms.client_data import ClientData, LossTally
from fleetsim.learning.local.optimizers import Descent
from fleetsim.learning.local.step_settings import StepSettings


def take_steps(
    model: nn.Module,
    data: ClientData,
    generator: np.random.Generator,
    settings: StepSettings,
    *,
    added: Sequence[Tensor] | None = None,
    proximal_mu: float | None = None,
    anchors: Sequence[Tensor] | None = None,
) -> tuple[Descent, LossTally]:
    """Take the steps of a task on a network, in place; return the descent and the losses.

    The network has the weights that the task begins with. `added` is added to every gradient, by
    parameter; `proximal_mu` replaces the scenario's weight of the proximal term, which holds near
    the `anchors`, or near the weights of the beginning.
    """
    if proximal_mu is not None:
        settings = settings.model_copy(update={"proximal_mu": proximal_mu})
    weights, tally = trained(model), LossTally()
    descent = Descent(weights, settings, num_steps=data.scheduled_steps, anchors=anchors)
    for epoch, batch in data.steps(generator):
        losses = batch.losses(model(batch.inputs), data.losses)
        gradients: Sequence[Tensor] = torch.autograd.grad(losses.mean(), weights)
        if added is not None:
            gradients = [one + addend for one, addend in zip(gradients, added, strict=True)]
        descent.step(gradients)
        tally.add(epoch, losses)
    return descent, tally


def trained(model: nn.Module) -> list[nn.Parameter]:
    """Return the trained parameters of a network, each once, in their order."""
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def vector_of(parameters: Sequence[Tensor]) -> NDArray[np.float32]:
    """Return parameters as a vector [T], a copy in their number type."""
    with torch.no_grad():
        vector: NDArray[np.float32] = torch.cat([p.flatten() for p in parameters]).cpu().numpy()
    return vector


def parts_of(vector: NDArray[np.float32], parameters: Sequence[Tensor]) -> list[Tensor]:
    """Return a vector [T] as tensors of the parameters' shapes, on their device."""
    flat = torch.tensor(vector, device=parameters[0].device)
    split = torch.split(flat, [parameter.numel() for parameter in parameters])
    return [part.view_as(p) for part, p in zip(split, parameters, strict=True)]
