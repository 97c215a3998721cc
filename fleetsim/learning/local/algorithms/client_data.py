"""One task of an algorithm of clients: its data, its steps, and its checked result."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fleetsim.contracts import Arrays, ClientTraining, ClientUpdate, JobResult, Loss, Parameters
from fleetsim.errors import PluginError
from fleetsim.host.user_code import user_code
from fleetsim.learning.local import local_sgd
from fleetsim.learning.local.local_sgd import SampleBatch, StepStream, trained
from fleetsim.learning.local.optimizers import Descent
from fleetsim.learning.local.step_settings import StepSettings
from fleetsim.learning.models.dropout import dropping_out
from fleetsim.learning.models.flat_vector import FrozenWeights, flatten, load_flat
from fleetsim.quoting import type_name


@dataclass(frozen=True, slots=True, eq=False)
class ClientData:
    """Data of one client and one task; nothing of it may be changed in place."""

    client: int
    """Number of the client."""
    inputs: Tensor
    """Training samples of the client [n, ...]."""
    labels: Tensor
    """Labels of these samples [n] int64, or [n, t] of sequences."""
    state: Arrays
    """Arrays that the client kept from its last aggregated task, by name; empty before."""
    received: Arrays
    """Arrays that the server sent beside the model, by name."""
    losses: Callable[[Tensor, Tensor], Tensor]
    """Loss of each sample [n] from the network's outputs and labels: that of the scenario, with its
    label smoothing."""
    settings: StepSettings
    epochs: int
    """Passes over the samples in this task."""
    most_steps: int | None = None
    """Steps after which the task ends; None: all epochs."""
    step_stream: StepStream | None = None
    """Random streams of the steps' augmentation; None: samples stay as they are."""
    evaluation: Callable[[], tuple[Tensor, Tensor]] | None = None
    """Function that returns the samples on which the client evaluates; None: the training ones."""
    scenario_loss: Loss | None = None
    """Loss that the scenario names; None: the network's or the cross-entropy."""

    @property
    def num_steps(self) -> int:
        """Steps of this task."""
        batching = self.settings.batching
        return local_sgd.num_steps(len(self.labels), self.epochs, batching, self.most_steps)

    @property
    def scheduled_steps(self) -> int:
        """Steps over which a schedule within the task is laid out."""
        return self.settings.scheduled_steps(len(self.labels))

    def batches(self, generator: np.random.Generator) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield inputs and labels of each step, in the order of the built-in training.

        ValueError: samples are mixed, so that a batch has two sets of labels.
        """
        if self.settings.augmentation.mixup_alpha:
            raise ValueError("batches with mixup_alpha have two sets of labels; use steps")
        for _, batch in self.steps(generator):
            yield batch.inputs, batch.labels

    def steps(self, generator: np.random.Generator) -> Iterator[tuple[int, SampleBatch]]:
        """Yield the epoch, from 0, and the augmented batch of each step."""
        passes = local_sgd.Passes(
            epochs=self.epochs,
            stream=generator,
            most_steps=self.most_steps,
            step_stream=self.step_stream,
        )
        return local_sgd.batches(self.inputs, self.labels, self.settings, passes)

    def evaluated(self, model: nn.Module) -> tuple[float, float]:
        """Return mean loss and accuracy of a network on the client's evaluation samples.

        The host computes it without virtual time, as it does the global model's accuracy.
        """
        samples = (self.inputs, self.labels) if self.evaluation is None else self.evaluation()
        result = local_sgd.evaluate(
            model, flatten(model), *samples, scenario_loss=self.scenario_loss
        )
        model.train()
        assert result.loss is not None
        assert result.accuracy is not None
        return result.loss, result.accuracy


def update_of(
    by_epoch: Sequence[Tensor],
    *,
    state: Arrays | None = None,
    sent: Arrays | None = None,
    metrics: Mapping[str, float] | None = None,
) -> ClientUpdate:
    """Return a client's update, with the losses of its last epoch as the built-in's are."""
    epochs = [losses.double() for losses in by_epoch]
    return ClientUpdate(
        loss=float(epochs[-1].mean()),
        loss_rms=float(epochs[-1].square().mean()) ** 0.5,
        state=state,
        sent=sent,
        metrics=metrics,
        epoch_losses=tuple(float(losses.mean()) for losses in epochs),
    )


def take_steps(
    model: nn.Module,
    data: ClientData,
    generator: np.random.Generator,
    settings: StepSettings,
    *,
    added: Sequence[Tensor] | None = None,
    proximal_mu: float | None = None,
    anchors: Sequence[Tensor] | None = None,
) -> tuple[Descent, list[Tensor]]:
    """Take the steps of a task on a network, in place; return the descent, and losses by epoch.

    The network has the weights that the task begins with. `added` is added to every gradient, by
    parameter; `proximal_mu` replaces the scenario's weight of the proximal term, which holds near
    the `anchors`, or near the weights of the beginning.
    """
    if proximal_mu is not None:
        settings = settings.model_copy(update={"proximal_mu": proximal_mu})
    descent = Descent(trained(model), settings, num_steps=data.scheduled_steps, anchors=anchors)
    return descent, local_sgd.take(data.steps(generator), model, descent, data.losses, added=added)


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


def run_algorithm(
    algorithm: ClientTraining,
    model: nn.Module,
    base: Parameters,
    data: ClientData,
    generator: np.random.Generator,
    frozen: FrozenWeights | None = None,
) -> JobResult:
    """Return the result of a client's own training from `base` [P]; the model holds it, too.

    The frozen weights must stay as they are; None: as they are now.
    """
    load_flat(model, base)
    frozen = frozen or FrozenWeights(model)
    model.train()
    name = f"{type(algorithm).__name__}.train_client"
    where = f"{name} of client {data.client}"
    with user_code(where), dropping_out(model, generator):
        update: Any = algorithm.train_client(model, data, generator, data.settings)
    if (changed := frozen.fault(model)) is not None:
        raise PluginError(f"{where} {changed}")
    if (message := _wrong_with(update)) is not None:
        file = getattr(sys.modules.get(type(algorithm).__module__), "__file__", None)
        place = "" if file is None else f" ({file})"
        raise PluginError(f"{name} must return a ClientUpdate {message}{place}")
    losses, metrics = update.epoch_losses, update.metrics
    return JobResult(
        num_samples=len(data.labels),
        loss=float(update.loss),
        loss_rms=abs(float(update.loss if update.loss_rms is None else update.loss_rms)),
        vector=flatten(model),
        epoch_losses=None if losses is None else tuple(map(float, losses)),
        state=update.state,
        sent=update.sent,
        metrics=None if metrics is None else {key: _plain(metrics[key]) for key in metrics},
    )


def _plain(number: float | np.floating[Any]) -> float:
    return float(number) if isinstance(number, np.floating) else number


def _wrong_with(update: Any) -> str | None:
    """Return what an update must be instead; None if it is right."""
    if not isinstance(update, ClientUpdate):
        return f"(from fleetsim.contracts), got {type_name(update)}"
    metrics: Any = update.metrics or {}
    losses: Any = update.epoch_losses or ()
    if not isinstance(metrics, Mapping) or not all(isinstance(key, str) for key in metrics):
        return f"whose metrics are numbers by name, got {type_name(metrics)}"
    if not isinstance(losses, tuple | list):
        return f"whose epoch_losses are a tuple of numbers, got {type_name(losses)}"
    rms = () if update.loss_rms is None else (update.loss_rms,)
    numbers = [("loss", update.loss), *metrics.items(), *(("loss_rms", loss) for loss in rms)]
    for key, number in [*numbers, *(("epoch_losses", loss) for loss in losses)]:
        if not isinstance(number, int | float | np.floating):
            return f"with a number as {key}, got {type_name(number)}"
    for name, arrays in (("state", update.state), ("sent", update.sent)):
        if (message := _wrong_arrays(arrays)) is not None:
            return f"whose {name} is a dict of numpy arrays of numbers by name, got {message}"
    return None


def _wrong_arrays(arrays: Any) -> str | None:
    if arrays is None:
        return None
    if not isinstance(arrays, dict):
        return type_name(arrays)
    for key, array in arrays.items():
        is_numbers = isinstance(array, np.ndarray) and array.dtype.kind in "fiub"
        if not isinstance(key, str) or not is_numbers:
            return f"{type_name(array)} as {key!r}"
    return None
