"""Published algorithms of clients: SCAFFOLD, FedDyn and Ditto.

SCAFFOLD: steps corrected by control variates of the client and of the server.
Karimireddy et al., "SCAFFOLD: stochastic controlled averaging for federated learning", ICML 2020,
algorithm 1 with option II. Client i starts from the model x that the server sent and takes K steps

    y <- y - h (g(y) - c_i + c);    then    c_i+ = c_i - c + (x - y) / (K h),

and sends y and c_i+ - c_i. The server aggregates the models as the scenario's aggregator does
(fedavg with equal weights and its mean is the paper's step at a global rate of 1), and

    c <- c + (1/N) sum_i (c_i+ - c_i)    over the aggregated clients, N the size of the fleet.

All control variates are 0 at first. They are of the trained parameters [T]; a client receives c and
sends its change, 4 T byte each.

FedDyn: dynamic regularisation of the clients' objectives.
Acar et al., "Federated learning based on dynamic regularization", ICLR 2021, algorithm 1. Client k
keeps a gradient g_k, 0 at first, starts from the model w that the server sent and minimises

    F_k(theta) - <g_k, theta> + (alpha/2) |theta - w|^2;    then    g_k <- g_k - alpha (theta - w).

With theta_k the models of the clients P that are aggregated, and m the size of the fleet, the
server computes, with h = 0 at first,

    h <- h - alpha (1/m) sum_P (theta_k - w);    w <- (1/|P|) sum_P theta_k - h / alpha.

The mean is that of the aggregator `fedavg`; with weights `samples` it is weighted. g_k and h are of
the trained parameters [T]; buffers of the model are averaged. Nothing travels beside the model.

Ditto: a personal model of each client, held near the global one.
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
from fleetsim.learning.models.flat_vector import flatten, load_flat

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
