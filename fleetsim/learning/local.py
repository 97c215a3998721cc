"""What a client computes: local SGD, a gradient, or the losses of a model on its samples.

Every function is pure in its arguments: the module is only the workbench, its weights are
overwritten with `base` before anything is computed.

Client k minimises from the model w_0 that it was sent

    F_k(w) + mu/2 |w - w_0|^2,    F_k(w) = (1/n_k) sum_i loss_i(w),

with the cross-entropy as loss: McMahan et al., "Communication-efficient learning of deep networks
from decentralized data", AISTATS 2017 (mu = 0), and Li et al., "Federated optimization in
heterogeneous networks", MLSys 2020 (FedProx). One step on a batch B, with weight decay l, momentum
m, velocity v (0 at the start of every task) and learning rate h, as in `torch.optim.SGD`:

    g = (1/|B|) sum_B grad loss_i(w) + mu (w - w_0) + l w;    v <- m v + g;    w <- w - h v.

The update is written out because constructing a torch optimizer imports torch's compiler.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from fleetsim.contracts import Evaluation, JobResult, Parameters
from fleetsim.learning.models import flatten, join, load_flat
from fleetsim.learning.settings import LocalSettings

CHUNK = 500
"""Samples of one pass where only sums over all samples matter: bounds memory, fits the caches."""


def train(
    module: nn.Module,
    base: Parameters,
    inputs: Tensor,
    labels: Tensor,
    settings: LocalSettings,
    *,
    epochs: int,
    stream: np.random.Generator,
) -> JobResult:
    """Local epochs of SGD from `base` over all samples, reshuffled in every epoch.

    The losses are those of the last epoch as training sees them: of each sample, just before the
    step that its batch takes. A diverging run is returned as it is.

    Args:
        module: workbench; after the call it holds the result.
        base: weights to start from [P].
        inputs: samples [n, ...], n >= 1.
        labels: classes [n] int64.
        settings: batch size, optimizer and proximal term.
        epochs: passes over the samples, >= 1; `settings.epochs` is only the usual number.
        stream: draws one permutation of the samples per epoch and nothing else.

    Returns:
        New weights, mean and root mean square of the losses, and n.
    """
    load_flat(module, base)
    module.train()
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    anchors = [parameter.detach().clone() for parameter in parameters]
    velocities = [torch.zeros_like(anchor) for anchor in anchors]
    losses: list[Tensor] = []
    for _ in range(epochs):
        order = torch.from_numpy(stream.permutation(len(labels))).to(labels.device)
        losses = []
        for batch in torch.split(order, settings.batch_size):
            batch_losses = _losses(module(inputs[batch]), labels[batch])
            gradients = torch.autograd.grad(batch_losses.mean(), parameters)
            _step(parameters, gradients, anchors, velocities, settings)
            losses.append(batch_losses.detach())
    return _result(torch.cat(losses), flatten(module))


def num_steps(num_samples: int, epochs: int, batch_size: int) -> int:
    """Steps of SGD in a client's training.

    >>> num_steps(101, 2, 50)
    6
    """
    return epochs * -(-num_samples // batch_size)


def _step(
    parameters: Sequence[Tensor],
    gradients: Sequence[Tensor],
    anchors: Sequence[Tensor],
    velocities: Sequence[Tensor],
    settings: LocalSettings,
) -> None:
    """One update of parameters and velocities, in place."""
    sgd = settings.optimizer
    with torch.no_grad():
        for parameter, gradient, anchor, velocity in zip(
            parameters, gradients, anchors, velocities, strict=True
        ):
            direction = gradient
            if settings.proximal_mu:
                direction = direction.add(parameter - anchor, alpha=settings.proximal_mu)
            if sgd.weight_decay:
                direction = direction.add(parameter, alpha=sgd.weight_decay)
            if sgd.momentum:
                direction = velocity.mul_(sgd.momentum).add_(direction)
            parameter.sub_(direction, alpha=sgd.learning_rate)


def gradient(module: nn.Module, base: Parameters, inputs: Tensor, labels: Tensor) -> JobResult:
    """Mean gradient of the loss over all samples at `base`, in the flat layout.

    It is the gradient of the data's loss alone, without weight decay or proximal term; buffers
    have gradient 0.

    Args:
        module: workbench.
        base: weights at which the gradient is taken [P].
        inputs: samples [n, ...], n >= 1.
        labels: classes [n] int64.

    Returns:
        The gradient, mean and root mean square of the losses, and n.
    """
    load_flat(module, base)
    module.train()
    named = {name: value for name, value in module.named_parameters() if value.requires_grad}
    sums = {name: torch.zeros_like(value) for name, value in named.items()}
    losses = []
    for some_inputs, some_labels in _chunks(inputs, labels):
        some_losses = _losses(module(some_inputs), some_labels)
        parts = torch.autograd.grad(some_losses.sum(), list(named.values()))
        for total, part in zip(sums.values(), parts, strict=True):
            total.add_(part)
        losses.append(some_losses.detach())
    means = {name: total / len(labels) for name, total in sums.items()}
    return _result(torch.cat(losses), join(module, means))


def evaluate(module: nn.Module, base: Parameters, inputs: Tensor, labels: Tensor) -> JobResult:
    """Accuracy of `base` on samples, mean and root mean square of their losses.

    Args:
        module: workbench.
        base: weights [P].
        inputs: samples [n, ...], n >= 1.
        labels: classes [n] int64.
    """
    logits = _logits(module, base, inputs, labels)
    hits = logits.argmax(dim=1) == labels
    result = _result(_losses(logits, labels), None)
    return dataclasses.replace(result, accuracy=int(hits.sum()) / len(labels))


def assess(module: nn.Module, base: Parameters, inputs: Tensor, labels: Tensor) -> Evaluation:
    """Accuracy (fraction) and mean loss of `base` on samples; arguments as of `evaluate`."""
    logits = _logits(module, base, inputs, labels)
    hits = logits.argmax(dim=1) == labels
    loss = _losses(logits, labels).double().mean()
    return Evaluation(accuracy=int(hits.sum()) / len(labels), loss=float(loss))


def _logits(module: nn.Module, base: Parameters, inputs: Tensor, labels: Tensor) -> Tensor:
    """Logits [n, classes] of `base`, without gradients and with running statistics."""
    load_flat(module, base)
    module.eval()
    with torch.no_grad():
        return torch.cat([module(part) for part, _ in _chunks(inputs, labels)])


def _chunks(inputs: Tensor, labels: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    return zip(torch.split(inputs, CHUNK), torch.split(labels, CHUNK), strict=True)


def _losses(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of each sample [n] in nats."""
    return cross_entropy(logits, labels, reduction="none")


def _result(losses: Tensor, vector: Parameters | None) -> JobResult:
    exact = losses.double()
    return JobResult(
        num_samples=len(exact),
        loss=float(exact.mean()),
        loss_rms=float(exact.square().mean().sqrt()),
        vector=vector,
    )
