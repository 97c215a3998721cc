"""FedDyn: dynamic regularisation of the clients' objectives.

Acar et al., "Federated learning based on dynamic regularization", ICLR 2021, algorithm 1. Client k
keeps a gradient g_k, 0 at first, starts from the model w that the server sent and minimises

    F_k(theta) - <g_k, theta> + (alpha/2) |theta - w|^2;    then    g_k <- g_k - alpha (theta - w).

With theta_k the models of the clients P that are aggregated, and m the size of the fleet, the
server computes, with h = 0 at first,

    h <- h - alpha (1/m) sum_P (theta_k - w);    w <- (1/|P|) sum_P theta_k - h / alpha.

The mean is that of the aggregator `fedavg`; with weights `samples` it is weighted. g_k and h are of
the trained parameters [T]; buffers of the model are averaged. Nothing travels beside the model.
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


class FedDyn:
    """Algorithm of FedDyn; clients keep `gradient` [T], the server `h` [T]."""

    num_copies = 2
    """g_k, and the model that was sent."""

    def __init__(self, alpha: float) -> None:
        """Build it; `alpha` is the weight of the regulariser, above 0."""
        self._alpha = alpha

    @np.errstate(over="ignore", invalid="ignore")  # the server refuses what is not finite
    def train_client(
        self,
        model: nn.Module,
        data: ClientData,
        generator: np.random.Generator,
        settings: StepSettings,
    ) -> ClientUpdate:
        """Minimise the regularised objective by the scenario's optimizer."""
        weights = trained(model)
        start = vector_of(weights)
        gradient = data.state.get("gradient", np.zeros_like(start))
        linear = parts_of(-gradient, weights)
        _, by_epoch = take_steps(
            model, data, generator, settings, added=linear, proximal_mu=self._alpha
        )
        moved = gradient - self._alpha * (vector_of(weights) - start)
        return update_of(by_epoch, state={"gradient": moved.astype(gradient.dtype)})

    def wire(self, num_parameters: int) -> Wire:
        """Return no bytes: the server computes h from the models."""
        return Wire()

    def start_server(self, start: ServerStart) -> Arrays:
        """Return h = 0."""
        return {"h": np.zeros_like(start.parameters[~start.buffers])}

    def broadcast(self, server: Arrays) -> Arrays:
        """Return nothing."""
        return {}

    @np.errstate(over="ignore", invalid="ignore")  # likewise
    def server_step(self, server: Arrays, step: ServerStep) -> tuple[Parameters, Arrays]:
        """Return the mean model less h / alpha, and the next h."""
        is_trained = ~step.start.buffers
        h = server["h"].astype(np.float64)
        for report in step.reports:
            assert report.vector is not None
            base = step.before if report.base is None else report.base
            change = np.subtract(report.vector, base, dtype=np.float64)[is_trained]
            h -= self._alpha / step.start.num_clients * change
        model = step.after.astype(np.float64)
        model[is_trained] -= h / self._alpha
        return model.astype(step.after.dtype), {"h": h.astype(server["h"].dtype)}
