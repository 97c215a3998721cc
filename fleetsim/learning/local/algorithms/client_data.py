"""Samples, batches and arrays of one task, as an algorithm of clients sees them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from fleetsim.contracts import Arrays, ClientUpdate, Loss
from fleetsim.learning.local import local_sgd
from fleetsim.learning.local.augmentation import SampleBatch, StepStream
from fleetsim.learning.local.step_settings import StepSettings
from fleetsim.learning.models.flat_vector import flatten


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


@dataclass(slots=True)
class LossTally:
    """Losses of a task by epoch, from which a client's report is made."""

    by_epoch: list[list[Tensor]] = field(default_factory=list)

    def add(self, epoch: int, losses: Tensor) -> None:
        """Add the losses of a batch [n] of an epoch, from 0."""
        while len(self.by_epoch) <= epoch:
            self.by_epoch.append([])
        self.by_epoch[epoch].append(losses.detach())

    def update(
        self,
        *,
        state: Arrays | None = None,
        sent: Arrays | None = None,
        metrics: Mapping[str, float] | None = None,
    ) -> ClientUpdate:
        """Return the client's update, with the losses of its last epoch as the built-in's are."""
        epochs: Sequence[Tensor] = [torch.cat(losses).double() for losses in self.by_epoch]
        return ClientUpdate(
            loss=float(epochs[-1].mean()),
            loss_rms=float(epochs[-1].square().mean()) ** 0.5,
            state=state,
            sent=sent,
            metrics=metrics,
            epoch_losses=tuple(float(losses.mean()) for losses in epochs),
        )
