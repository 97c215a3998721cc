"""Adapter of BlazeFL (https://github.com/kitsuyaazuma/blazefl): its FedAvg in a pool of threads.

    python3.14t -m benchmarks.peers.blazefl_ WORK.json

BlazeFL's threads train in parallel only where Python is free-threaded, so this is required. Its
training has torch's cross-entropy built in, which takes no sequences of fleetsim's form, so the
adapter has the same loop with another loss. BlazeFL's progress bar is left out.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from blazefl.contrib import (
    FedAvgBaseServerHandler,
    FedAvgThreadPoolClientTrainer,
    FedAvgUplinkPackage,
)
from blazefl.core import deserialize_model, serialize_model
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.peers.worksheet import Sheet, Worksheet, loss


class Models:
    """Selector that knows one network, for BlazeFL's interface."""

    def __init__(self, work: Worksheet) -> None:
        self.work = work

    def select_model(self, model_name: str) -> torch.nn.Module:
        """Return a new network with the initial weights."""
        return self.work.network()


class Shares:
    """Samples of the clients, in the loaders that BlazeFL's own data sets return."""

    def __init__(self, work: Worksheet) -> None:
        self.clients = [TensorDataset(*work.client(number)) for number in range(work.num_clients)]

    def get_dataloader(
        self, type_: Any, cid: int, batch_size: int, generator: torch.Generator | None = None
    ) -> DataLoader[Any]:
        """Return the batches of one client, reshuffled in every epoch."""
        return DataLoader(
            self.clients[cid], batch_size=batch_size, shuffle=True, generator=generator
        )


class Handler(FedAvgBaseServerHandler):
    """BlazeFL's FedAvg, with given cohorts where clients take turns."""

    def __init__(self, work: Worksheet, shares: Shares) -> None:
        super().__init__(
            model_selector=Models(work),
            model_name=work.model,
            dataset=shares,
            global_round=work.rounds,
            num_clients=work.num_clients,
            # BlazeFL rounds the cohort down; half a client is added against 0.1 * 100 = 9.99...
            sample_ratio=(work.cohort + 0.5) / work.num_clients,
            device="cpu",
            batch_size=work.batch_size,
            seed=work.seed,
        )
        self.work = work

    def sample_clients(self) -> list[int]:
        """Return the cohort of a round."""
        if self.work.takes_turns:
            return self.work.turn(self.round)
        sampled: list[int] = super().sample_clients()
        return sampled


class Trainer(FedAvgThreadPoolClientTrainer):
    """BlazeFL's threads without a progress bar, and with a loss that takes sequences, too."""

    def progress_fn(self, it: Any) -> Any:
        """Return the futures as they are."""
        return it

    def train(
        self,
        model: torch.nn.Module,
        model_parameters: torch.Tensor,
        train_loader: DataLoader[Any],
        device: str,
        epochs: int,
        lr: float,
        stop_event: Any,
        cid: int,
    ) -> Any:
        """Train one client as BlazeFL does, with another loss."""
        deserialize_model(model, model_parameters)
        model.train()
        optimizer = torch.optim.SGD(model.parameters(), lr=lr)
        for _ in range(epochs):
            for data, target in train_loader:
                optimizer.zero_grad()
                loss(model(data), target).backward()
                optimizer.step()
        return FedAvgUplinkPackage(cid, serialize_model(model), len(self.dataset.clients[cid]))


def require_free_threads() -> None:
    """Refuse a Python in which threads do not compute at the same time.

    Raises:
        RuntimeError: the interpreter has its lock, or a library switched it on again.
    """
    if getattr(sys, "_is_gil_enabled", lambda: True)():
        raise RuntimeError("BlazeFL needs a free-threaded Python without its lock: python3.14t")


def main() -> None:
    """Run the work that the command line names."""
    work, sheet = Worksheet.read(sys.argv[1]), Sheet()
    require_free_threads()
    run(work, sheet)
    sheet.write(work)


def run(work: Worksheet, sheet: Sheet) -> None:
    """Train all rounds and evaluate the last model."""
    shares = Shares(work)
    handler = Handler(work, shares)
    trainer = Trainer(
        model_selector=Models(work),
        model_name=work.model,
        dataset=shares,
        device="cpu",
        num_clients=work.num_clients,
        epochs=work.epochs,
        batch_size=work.batch_size,
        lr=work.learning_rate,
        seed=work.seed,
        num_parallels=work.processes,
    )
    sheet.begin()
    while not handler.is_stopped():
        trainer.local_process(handler.downlink_package(), handler.sample_clients())
        for package in trainer.uplink_package():
            handler.load(package)
        sheet.end_round()
    sheet.accuracy = work.accuracy(handler.model)


if __name__ == "__main__":
    main()
