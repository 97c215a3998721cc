"""Parts of a run as users write them, for runs that are killed: all keep or draw something."""

import numpy as np
import torch
from torch import nn

from fleetsim.contracts import ClientUpdate
from tests.user.broken_selectors import LeastAsked

__all__ = ["Drift", "LeastAsked", "Momentum", "Net", "brier"]


class Momentum:
    """Aggregator that keeps the change before."""

    def __init__(self):
        self.change = np.zeros(1)

    def aggregate(self, base, reports):
        mean = np.mean([report.vector for report in reports], axis=0)
        self.change = 0.5 * self.change + (mean - base)
        return base + self.change

    def state(self):
        return {"change": self.change}

    def restore(self, state):
        self.change = state["change"]


class Net(nn.Module):
    """Network with random numbers in training and a buffer, the moving mean of what is hidden."""

    mean: torch.Tensor

    def __init__(self, samples):
        super().__init__()
        self.first = nn.Linear(int(np.prod(samples.input_shape)), 16)
        self.last = nn.Linear(16, samples.num_classes)
        self.drop = nn.Dropout(0.2)
        self.register_buffer("mean", torch.zeros(16))

    def forward(self, inputs):
        hidden = self.first(inputs.flatten(1)).relu()
        if self.training:
            self.mean.lerp_(hidden.detach().mean(dim=0), 0.1)
        return self.last(self.drop(hidden - self.mean))


def brier(logits, labels):
    """Squared distance of the probabilities from the right ones."""
    right = nn.functional.one_hot(labels, logits.shape[-1])
    return (logits.softmax(dim=-1) - right).square().sum(dim=-1)


class Drift:
    """Training by SGD that draws, and keeps the mean of a client's weights."""

    def train_client(self, model, data, generator, settings):
        weights = [weight for weight in model.parameters() if weight.requires_grad]
        for inputs, labels in data.batches(generator):
            losses = data.losses(model(inputs), labels)
            gradients = torch.autograd.grad(losses.mean(), weights)
            with torch.no_grad():
                for weight, gradient in zip(weights, gradients, strict=True):
                    weight.sub_(settings.optimizer.learning_rate * gradient)
        mean = np.array([float(weight.detach().mean()) for weight in weights])
        noise = generator.normal(scale=0.01, size=mean.size)
        before = data.state.get("mean", np.zeros(mean.size))
        return ClientUpdate(loss=losses.mean().item(), state={"mean": 0.5 * before + mean + noise})
