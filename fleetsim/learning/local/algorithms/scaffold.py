"""SCAFFOLD: steps corrected by control variates of the client and of the server.

Karimireddy et al., "SCAFFOLD: stochastic controlled averaging for federated learning", ICML 2020,
algorithm 1 with option II. Client i starts from the model x that the server sent and takes K steps

    y <- y - h (g(y) - c_i + c);    then    c_i+ = c_i - c + (x - y) / (K h),

and sends y and c_i+ - c_i. The server aggregates the models as the scenario's aggregator does
(fedavg with equal weights and its mean is the paper's step at a global rate of 1), and

    c <- c + (1/N) sum_i (c_i+ - c_i)    over the aggregated clients, N the size of the fleet.

All control variates are 0 at first. They are of the trained parameters [T]; a client receives c and
sends its change, 4 T byte each.
"""

import numpy as np
from torch import nn

from fleetsim.contracts import Arrays, ClientUpdate, Parameters, ServerStart, ServerStep, Wire
from fleetsim.learning.local.algorithms.client_data import (
    ClientData,
    parts_of,
    take_steps,
    update_of,
    vector_of,
)
from fleetsim.learning.local.local_sgd import trained
from fleetsim.learning.local.step_settings import StepSettings

_FLOAT_BYTE = 4


class Scaffold:
    """Algorithm of SCAFFOLD; clients keep `control` [T], the server another."""

    num_copies = 2
    """Correction c - c_i, and the model that was sent."""

    @np.errstate(
        divide="ignore", over="ignore", invalid="ignore"
    )  # the server refuses such updates
    def train_client(
        self,
        model: nn.Module,
        data: ClientData,
        generator: np.random.Generator,
        settings: StepSettings,
    ) -> ClientUpdate:
        """Take corrected steps."""
        weights = trained(model)
        start, common = vector_of(weights), data.received["control"]
        control = data.state.get("control", np.zeros_like(common))
        correction = parts_of(common - control, weights)
        descent, by_epoch = take_steps(model, data, generator, settings, added=correction)
        taken = descent.num_taken * settings.optimizer.learning_rate
        # A schedule may end at rate 0: no step, so no new estimate of the gradient.
        moved = (start - vector_of(weights)) / taken if taken else common
        change = moved - common
        return update_of(
            by_epoch,
            state={"control": (control + change).astype(common.dtype)},
            sent={"control": change.astype(common.dtype)},
        )

    def wire(self, num_parameters: int) -> Wire:
        """Return the bytes of c, and of the change of c_i."""
        return Wire(_FLOAT_BYTE * num_parameters, _FLOAT_BYTE * num_parameters)

    def start_server(self, start: ServerStart) -> Arrays:
        """Return c = 0."""
        return {"control": np.zeros_like(start.parameters[~start.buffers])}

    def broadcast(self, server: Arrays) -> Arrays:
        """Return c."""
        return server

    @np.errstate(over="ignore", invalid="ignore")  # likewise
    def server_step(self, server: Arrays, step: ServerStep) -> tuple[Parameters, Arrays]:
        """Return the aggregated model, and c moved by the clients' changes."""
        control = server["control"].astype(np.float64)
        for report in step.reports:
            assert report.sent is not None
            control += report.sent["control"] / np.float64(step.start.num_clients)
        return step.after, {"control": control.astype(server["control"].dtype)}
