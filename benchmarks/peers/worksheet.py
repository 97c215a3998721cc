"""Input and output of the peers' adapters: data, model, work and a sheet of results.

An adapter runs in its peer's own environment, so this module imports torch, numpy and the standard
library only, never fleetsim. The driver writes the work as JSON and the data as plain arrays
(`benchmarks.export`). `Worksheet` reads them, and `Sheet` collects the measurements.

The networks are those of fleetsim, built from torch's own layers in the same order. So the exported
flat vector of initial weights fits, and all contestants start from one model.

Times are seconds of `time.monotonic`, which all processes of a machine share; the driver notes the
start of the process.
"""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

_NUM_GROUPS = 2
_CHUNK = 500
"""Number of samples in one pass of the evaluation."""


@dataclass(frozen=True)
class Worksheet:
    """Work, as the driver describes it."""

    data: str
    """Folder of the arrays that `benchmarks.export` wrote."""
    model: str
    cohort: int
    """Number of clients of one round."""
    epochs: int
    batch_size: int
    learning_rate: float
    rounds: int
    seed: int
    threads: int
    """Number of torch threads in each process."""
    processes: int
    """Number of processes that train."""
    result: str
    """File for the results."""
    concurrency: int | None = None
    """Number of clients that an asynchronous server keeps busy; None: it is synchronous."""
    buffer_size: int | None = None
    """Number of updates that such a server aggregates at a time."""

    @classmethod
    def read(cls, path: str) -> Worksheet:
        """Read the work from a JSON file and set torch to its number of threads."""
        sheet = cls(**json.loads(Path(path).read_text(encoding="utf-8")))
        torch.set_num_threads(sheet.threads)
        return sheet

    def array(self, name: str) -> Any:
        """Map one exported array into memory."""
        return np.load(Path(self.data) / f"{name}.npy", mmap_mode="r", allow_pickle=False)

    @property
    def num_clients(self) -> int:
        """Number of clients N."""
        return len(self.array("offsets")) - 1

    def client(self, number: int) -> tuple[Tensor, Tensor]:
        """Return copies of the samples and labels of one client."""
        start, stop = (int(row) for row in self.array("offsets")[number : number + 2])
        inputs = torch.from_numpy(np.array(self.array("train_inputs")[start:stop]))
        labels = torch.from_numpy(np.array(self.array("train_labels")[start:stop]))
        return inputs, labels

    def network(self) -> nn.Sequential:
        """Build the network with the initial weights."""
        shape = tuple(self.array("train_inputs").shape[1:])
        network = build(self.model, shape, int(self.array("num_classes")))
        nn.utils.vector_to_parameters(
            torch.from_numpy(np.array(self.array("initial"))), network.parameters()
        )
        return network

    def accuracy(self, network: nn.Module) -> float:
        """Return the share of the server's test samples that a network classifies correctly."""
        inputs = torch.from_numpy(np.array(self.array("test_inputs")))
        labels = torch.from_numpy(np.array(self.array("test_labels")))
        network.eval()
        right = 0
        with torch.no_grad():
            for part, wanted in zip(inputs.split(_CHUNK), labels.split(_CHUNK), strict=True):
                right += int((network(part).argmax(dim=1) == wanted).sum())
        return right / len(labels)


@dataclass
class Sheet:
    """Measurements of an adapter."""

    began_at_s: float = math.nan
    """Start of the first round."""
    round_ended_at_s: list[float] = field(default_factory=list)
    accuracy: float | None = None
    """Accuracy on the server's test set after the last round."""

    def begin(self) -> None:
        """Note the start of the first round."""
        self.began_at_s = time.monotonic()

    def end_round(self) -> None:
        """Note the end of a round."""
        self.round_ended_at_s.append(time.monotonic())

    def write(self, work: Worksheet) -> None:
        """Write the sheet for the driver.

        Raises:
            RuntimeError: the number of rounds is not the one requested.
        """
        if len(self.round_ended_at_s) != work.rounds:
            raise RuntimeError(f"{len(self.round_ended_at_s)} of {work.rounds} rounds were run")
        Path(work.result).write_text(json.dumps(vars(self)), encoding="utf-8")


def train(network: nn.Module, inputs: Tensor, labels: Tensor, work: Worksheet) -> None:
    """Train local epochs by plain SGD, for peers that leave the loop to their users.

    Batches are sliced from a shuffled index, which is faster than torch's DataLoader.
    """
    network.train()
    optimizer = torch.optim.SGD(network.parameters(), lr=work.learning_rate)
    for _ in range(work.epochs):
        for batch in torch.randperm(len(labels)).split(work.batch_size):
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(inputs[batch]), labels[batch]).backward()
            optimizer.step()


# --- networks -----------------------------------------------------------------------------------


def build(model: str, shape: tuple[int, ...], num_classes: int) -> nn.Sequential:
    """Build a network by its name in scenarios.

    The models are logistic, 2nn, fedgra-cnn, and resnet18 with group normalisation.

    Raises:
        ValueError: no such network.
    """
    match model:
        case "logistic":
            return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), num_classes))
        case "2nn":
            return nn.Sequential(
                nn.Flatten(),
                nn.Linear(math.prod(shape), 200),
                nn.ReLU(),
                nn.Linear(200, 200),
                nn.ReLU(),
                nn.Linear(200, num_classes),
            )
        case "fedgra-cnn":
            return nn.Sequential(
                nn.Conv2d(shape[0], 32, 5, padding=2),
                nn.Sigmoid(),
                nn.MaxPool2d(2),
                nn.Conv2d(32, 64, 5, padding=2),
                nn.ReLU(),
                nn.MaxPool2d(2),
                nn.Flatten(),
                nn.Linear(64 * (shape[1] // 4) * (shape[2] // 4), 512),
                nn.ReLU(),
                nn.Linear(512, num_classes),
            )
        case "resnet18":
            return _resnet18(shape[0], num_classes)
    raise ValueError(f"no network has the name {model!r}")


class _Residual(nn.Module):
    """Residual block: relu(body(x) + shortcut(x))."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(before, width, 3, stride, 1, bias=False),
            nn.GroupNorm(_NUM_GROUPS, width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, 1, 1, bias=False),
            nn.GroupNorm(_NUM_GROUPS, width),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or before != width:
            self.shortcut = nn.Sequential(
                nn.Conv2d(before, width, 1, stride, bias=False), nn.GroupNorm(_NUM_GROUPS, width)
            )

    def forward(self, maps: Tensor) -> Tensor:
        return torch.relu(self.body(maps) + self.shortcut(maps))


def _resnet18(channels: int, num_classes: int) -> nn.Sequential:
    layers: list[nn.Module] = [
        nn.Conv2d(channels, 64, 3, 1, 1, bias=False),
        nn.GroupNorm(_NUM_GROUPS, 64),
        nn.ReLU(),
    ]
    before = 64
    for width in (64, 128, 256, 512):
        layers += [_Residual(before, width, 1 if width == 64 else 2), _Residual(width, width, 1)]
        before = width
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, num_classes))
    return nn.Sequential(*layers, *head)
