"""Input and output of the peers' adapters: data, model, work and a sheet of results.

An adapter runs in its peer's own environment, so this module imports torch, numpy and the standard
library only, never fleetsim. The driver writes the work as JSON and the data as plain arrays
(`benchmarks.export`). `Worksheet` reads them, and `Sheet` collects the measurements. The networks
are in `networks`.

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

from benchmarks.peers.networks import Form, build, channels_last, in_nhwc

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
    sizes: dict[str, int] = field(default_factory=dict)
    """Sizes of a network for text, by the keys of a scenario."""
    is_channels_last: bool = False
    """True if images are stored in NHWC."""
    takes_turns: bool = False
    """True if cohorts are given, see `turn`, because clients have different numbers of samples."""

    @classmethod
    def read(cls, path: str) -> Worksheet:
        """Read the work from a JSON file and set torch to its number of threads."""
        sheet = cls(**json.loads(Path(path).read_text(encoding="utf-8")))
        torch.set_num_threads(sheet.threads)
        return sheet

    def array(self, name: str) -> Any:
        """Map one exported array into memory."""
        return _mapped(Path(self.data), name)

    @property
    def num_clients(self) -> int:
        """Number of clients N."""
        return len(self.array("offsets")) - 1

    def client(self, number: int) -> tuple[Tensor, Tensor]:
        """Return copies of the samples and labels of one client."""
        start, stop = (int(row) for row in self.array("offsets")[number : number + 2])
        inputs = torch.from_numpy(np.array(self.array("train_inputs")[start:stop]))
        labels = torch.from_numpy(np.array(self.array("train_labels")[start:stop]))
        if self.is_channels_last:
            inputs = in_nhwc(inputs)
        return inputs, labels

    def turn(self, number: int) -> list[int]:
        """Return the cohort of a round, from 0, where clients take turns: the next in order."""
        start = number * self.cohort
        return [client % self.num_clients for client in range(start, start + self.cohort)]

    def network(self) -> nn.Sequential:
        """Build the network with the initial weights."""
        network = build(self.model, form_of(Path(self.data)), self.sizes)
        nn.utils.vector_to_parameters(
            torch.from_numpy(np.array(self.array("initial"))), network.parameters()
        )
        return channels_last(network) if self.is_channels_last else network

    def accuracy(self, network: nn.Module) -> float:
        """Return the share of the server's test labels that a network predicts correctly."""
        inputs = torch.from_numpy(np.array(self.array("test_inputs")))
        labels = torch.from_numpy(np.array(self.array("test_labels")))
        network.eval()
        right = 0
        with torch.no_grad():
            for part, wanted in zip(inputs.split(_CHUNK), labels.split(_CHUNK), strict=True):
                right += int((network(part).argmax(dim=-1) == wanted).sum())
        return right / labels.numel()


def _mapped(data: Path, name: str) -> Any:
    return np.load(data / f"{name}.npy", mmap_mode="r", allow_pickle=False)


def form_of(data: Path) -> Form:
    """Return the shape of samples and labels that were exported to a folder."""
    is_text = (data / "vocabulary_size.npy").is_file()
    return Form(
        tuple(_mapped(data, "train_inputs").shape[1:]),
        int(_mapped(data, "num_classes")),
        int(_mapped(data, "vocabulary_size")) if is_text else None,
        is_sequence=_mapped(data, "train_labels").ndim > 1,
    )


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


def loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the mean cross-entropy: logits [n, C] and labels [n], or [n, t, C] and [n, t]."""
    return nn.functional.cross_entropy(logits.flatten(0, -2), labels.flatten())


def train(network: nn.Module, inputs: Tensor, labels: Tensor, work: Worksheet) -> None:
    """Train local epochs by plain SGD, for peers that leave the loop to their users.

    Batches are sliced from a shuffled index, which is faster than torch's DataLoader.
    """
    network.train()
    optimizer = torch.optim.SGD(network.parameters(), lr=work.learning_rate)
    for _ in range(work.epochs):
        for batch in torch.randperm(len(labels)).split(work.batch_size):
            optimizer.zero_grad()
            loss(network(inputs[batch]), labels[batch]).backward()
            optimizer.step()
