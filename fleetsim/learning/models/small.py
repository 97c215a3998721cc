"""Small networks of the federated papers, layer by layer, and the hinge losses of one of them.

Layers and sources: docs/models/models.md. Where several scores are the maximum, or a margin is met
exactly, the gradient of a hinge loss is that of one side.
"""

import math
from collections import OrderedDict

from torch import Tensor, nn
from torch.nn.functional import relu

from fleetsim.contracts import SampleForm
from fleetsim.learning.models.dropout import Dropout
from fleetsim.learning.models.model_kind import Hinge
from fleetsim.learning.models.vision import Layers


class LinearSvm(nn.Sequential):
    """One linear layer with a hinge loss."""

    def __init__(self, layers: Layers, hinge: Hinge) -> None:
        super().__init__(layers)
        self.hinge: Hinge = hinge

    def losses(self, scores: Tensor, labels: Tensor) -> Tensor:
        """Return the hinge loss of each sample [n], from scores [n, C] and labels [n] int64."""
        right = labels.unsqueeze(1)
        right_scores = scores.gather(1, right)
        match self.hinge:
            case "crammer-singer":
                # The right class itself, without the margin, gives the 0 of the maximum.
                margins = (scores + 1).scatter(1, right, right_scores)
                return margins.max(dim=1).values - right_scores.squeeze(1)
            case "weston-watkins":
                return relu(scores - right_scores + 1).scatter(1, right, 0.0).sum(dim=1)
            case "one-vs-rest":
                return relu((scores + 1).scatter(1, right, 1 - right_scores)).sum(dim=1)


_KERNEL = 5
_SAME = _KERNEL // 2
"""Padding that keeps the image's size."""
_GPFL_KERNEL = 3


def logistic(samples: SampleForm) -> nn.Sequential:
    """Return one linear layer."""
    return nn.Sequential(_linear_layer(samples))


def svm(samples: SampleForm, hinge: Hinge) -> LinearSvm:
    """Return one linear layer with a hinge loss."""
    return LinearSvm(_linear_layer(samples), hinge)


def _linear_layer(samples: SampleForm) -> Layers:
    linear = nn.Linear(math.prod(samples.input_shape), samples.num_classes)
    return OrderedDict(flatten=nn.Flatten(), fc1=linear)


def two_nn(samples: SampleForm, hidden: tuple[int, int], dropout: float) -> nn.Sequential:
    """Return two hidden layers with ReLU, and dropout before it if there is any."""
    first, second = hidden
    layers: dict[str, nn.Module] = {
        "flatten": nn.Flatten(),
        "fc1": nn.Linear(math.prod(samples.input_shape), first),
        "dropout1": Dropout(dropout),
        "relu1": nn.ReLU(),
        "fc2": nn.Linear(first, second),
        "dropout2": Dropout(dropout),
        "relu2": nn.ReLU(),
        "fc3": nn.Linear(second, samples.num_classes),
    }
    kept = [(name, each) for name, each in layers.items() if dropout or type(each) is not Dropout]
    return nn.Sequential(OrderedDict(kept))


def fedgra_cnn(samples: SampleForm) -> nn.Sequential:
    """Return two 5x5 convolutions that keep the size, each pooled, and two linear layers.

    The first activation is a sigmoid, the others are ReLU.
    """
    channels, height, width = samples.image_shape
    layers: Layers = OrderedDict(
        conv1=nn.Conv2d(channels, 32, _KERNEL, padding=_SAME),
        sigmoid1=nn.Sigmoid(),
        pool1=nn.MaxPool2d(2),
        conv2=nn.Conv2d(32, 64, _KERNEL, padding=_SAME),
        relu2=nn.ReLU(),
        pool2=nn.MaxPool2d(2),
        flatten=nn.Flatten(),
        fc1=nn.Linear(64 * (height // 4) * (width // 4), 512),
        relu3=nn.ReLU(),
        fc2=nn.Linear(512, samples.num_classes),
    )
    return nn.Sequential(layers)


def gpfl_cnn(samples: SampleForm) -> nn.Sequential:
    """Return three 3x3 convolutions without padding, of which two are pooled; two linear layers."""
    channels, height, width = samples.image_shape
    lost = _GPFL_KERNEL - 1
    rows, columns = (((side - lost) // 2 - lost) // 2 - lost for side in (height, width))
    layers: Layers = OrderedDict(
        conv1=nn.Conv2d(channels, 32, _GPFL_KERNEL),
        pool1=nn.MaxPool2d(2),
        relu1=nn.ReLU(),
        conv2=nn.Conv2d(32, 64, _GPFL_KERNEL),
        pool2=nn.MaxPool2d(2),
        relu2=nn.ReLU(),
        conv3=nn.Conv2d(64, 64, _GPFL_KERNEL),
        relu3=nn.ReLU(),
        flatten=nn.Flatten(),
        fc1=nn.Linear(64 * rows * columns, 64),
        relu4=nn.ReLU(),
        fc2=nn.Linear(64, samples.num_classes),
    )
    return nn.Sequential(layers)


def lenet5(samples: SampleForm) -> nn.Sequential:
    """Return two pooled 5x5 convolutions, the first with padding, and three linear layers."""
    channels, height, width = samples.image_shape
    rows, columns = ((side // 2 - (_KERNEL - 1)) // 2 for side in (height, width))
    layers: Layers = OrderedDict(
        conv1=nn.Conv2d(channels, 6, _KERNEL, padding=_SAME),
        relu1=nn.ReLU(),
        pool1=nn.MaxPool2d(2),
        conv2=nn.Conv2d(6, 16, _KERNEL),
        relu2=nn.ReLU(),
        pool2=nn.MaxPool2d(2),
        flatten=nn.Flatten(),
        fc1=nn.Linear(16 * rows * columns, 120),
        relu3=nn.ReLU(),
        fc2=nn.Linear(120, 84),
        relu4=nn.ReLU(),
        fc3=nn.Linear(84, samples.num_classes),
    )
    return nn.Sequential(layers)
