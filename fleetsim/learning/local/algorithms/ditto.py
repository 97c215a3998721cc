"""Ditto: a personal model of each client, held near the global one.

Li, Hu, Beirami, Smith, "Ditto: fair and robust federated learning through personalization", ICML
2021, algorithm 1. In a task client k trains the global model w as the scenario says, and then its
personal model v_k, which begins as the first w that it received, by as many steps on

    F_k(v) + (lambda/2) |v - w|^2.

The server sees the global part alone. So a step costs twice the work of a plain one, nothing more
travels, and a client keeps its model, `personal` [P]. The metrics of a task are loss and accuracy
of the personal model on the client's evaluation samples.
"""

import numpy as np
from torch import nn

from fleetsim.contracts import ClientUpdate
from fleetsim.learning.local.algorithms.client_data import ClientData, take_steps, update_of
from fleetsim.learning.local.local_sgd import trained
from fleetsim.learning.local.step_settings import StepSettings
from fleetsim.learning.models.flat_vector import flatten, load_flat


class Ditto:
    """Algorithm of Ditto; clients keep `personal` [P], their own model."""

    train_factor = 2.0
    """Steps of the global model, and as many of the personal one."""
    num_copies = 2
    """The model that was sent, and the one of the two that does not train."""

    def __init__(self, personal_weight: float) -> None:
        """Build it; `personal_weight` is lambda, at least 0."""
        self._weight = personal_weight

    def train_client(
        self,
        model: nn.Module,
        data: ClientData,
        generator: np.random.Generator,
        settings: StepSettings,
    ) -> ClientUpdate:
        """Train the global model, then the personal one."""
        sent = flatten(model)
        _, by_epoch = take_steps(model, data, generator, settings)
        common = flatten(model)

        load_flat(model, sent)
        anchors = [weight.detach().clone() for weight in trained(model)]
        load_flat(model, data.state.get("personal", sent))
        take_steps(model, data, generator, settings, proximal_mu=self._weight, anchors=anchors)
        loss, accuracy = data.evaluated(model)
        personal = flatten(model)
        load_flat(model, common)
        return update_of(
            by_epoch,
            state={"personal": personal},
            metrics={"personal_loss": loss, "personal_accuracy": accuracy},
        )
