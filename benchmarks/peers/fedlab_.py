"""Adapter of FedLab (https://github.com/SMILELab-FL/FedLab): standalone pipeline, serial FedAvg.

    python -m benchmarks.peers.fedlab_ WORK.json

FedLab imports torchvision for data sets that are not used here. Beside a CPU build of torch, pip
installs the CUDA build of torchvision, whose import fails ("operator torchvision::nms does not
exist"). An empty module replaces it.
"""

from __future__ import annotations

import logging
import random
import sys
import types
from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.peers.worksheet import Sheet, Worksheet

_vision: Any = types.ModuleType("torchvision")
for _name in ("datasets", "transforms"):
    _part = types.ModuleType(f"torchvision.{_name}")
    setattr(_vision, _name, _part)
    sys.modules[_part.__name__] = _part
sys.modules[_vision.__name__] = _vision

from fedlab.contrib.algorithm.fedavg import (  # noqa: E402
    FedAvgSerialClientTrainer,
    FedAvgServerHandler,
)
from fedlab.core.standalone import StandalonePipeline  # noqa: E402


class Shares:
    """Samples of the clients, in the loaders that FedLab's own data sets return."""

    def __init__(self, work: Worksheet) -> None:
        self.clients = [TensorDataset(*work.client(number)) for number in range(work.num_clients)]

    def get_dataloader(self, number: int, batch_size: int) -> DataLoader[Any]:
        """Return the batches of one client, reshuffled in every epoch."""
        return DataLoader(self.clients[number], batch_size=batch_size, shuffle=True)


class Pipeline(StandalonePipeline):
    """FedLab's rounds, timed instead of evaluated."""

    def __init__(self, handler: Any, trainer: Any, sheet: Sheet) -> None:
        super().__init__(handler, trainer)
        self.sheet = sheet

    def evaluate(self) -> None:
        """Note the end of a round, at which FedLab calls this."""
        self.sheet.end_round()


def main() -> None:
    """Run the work that the command line names."""
    work, sheet = Worksheet.read(sys.argv[1]), Sheet()
    random.seed(work.seed)
    torch.manual_seed(work.seed)
    logging.disable(logging.INFO)
    # FedLab rounds the cohort down; half a client is added against 0.1 * 100 = 9.99...
    ratio = (work.cohort + 0.5) / work.num_clients
    handler = FedAvgServerHandler(work.network(), work.rounds, ratio)
    trainer = FedAvgSerialClientTrainer(work.network(), work.num_clients)
    trainer.setup_dataset(Shares(work))
    trainer.setup_optim(work.epochs, work.batch_size, work.learning_rate)
    pipeline = Pipeline(handler, trainer, sheet)
    sheet.begin()
    pipeline.main()
    sheet.accuracy = work.accuracy(handler.model)
    sheet.write(work)


if __name__ == "__main__":
    main()
