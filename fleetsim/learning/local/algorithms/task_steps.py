"""Steps of one task by the scenario's optimizer, which the bundled algorithms take."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from fleetsim.learning.local.algorithms.client_data import ClientData, LossTally
from fleetsim.learning.local.algorithms.trained_weights import trained
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

    Args:
        model: the network, at the weights that the task begins with.
        data: samples of the client.
        generator: random numbers of the task.
        settings: the scenario's local training, at the learning rate of the round.
        added: vector that is added to every gradient, by parameter; None: nothing.
        proximal_mu: weight of the proximal term, which replaces the scenario's; None: that.
        anchors: weights near which the proximal term holds; None: those of the beginning.
    """
    if proximal_mu is not None:
        settings = settings.model_copy(update={"proximal_mu": proximal_mu})
    weights, tally = trained(model), LossTally()
    descent = Descent(weights, settings, num_steps=data.scheduled_steps, anchors=anchors)
    for epoch, batch in data.steps(generator):
        losses = batch.losses(model(batch.inputs), data.losses)
        gradients: Sequence[Tensor] = torch.autograd.grad(losses.mean(), weights)
        if added is not None:
            gradients = [own + more for own, more in zip(gradients, added, strict=True)]
        descent.step(gradients)
        tally.add(epoch, losses)
    return descent, tally
