"""Adapter of FedLab (https://github.com/SMILELab-FL/FedLab): standalone pipeline, serial FedAvg.

    python -m benchmarks.peers.fedlab_ WORK.json

FedLab imports torchvision for data sets that are not used here. Beside a CPU build of torch, pip
installs the CUDA build of torchvision, whose import fails ("operator torchvision::nms does not
exist"). An empty module replaces it.

FedLab's FedAvg averages models without weights. Here they have the numbers of samples as weights,
as in the other peers, which matters where clients have different numbers.
"""

from __future__ import annotations

import logging
import random
import sys
import types
from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.peers.worksheet import Sheet, Worksheet, loss

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
from fedlab.utils import Aggregators, SerializationTool  # noqa: E402


class Shares:
    """Samples of the clients, in the loaders that FedLab's own data sets return."""

    def __init__(self, work: Worksheet) -> None:
        self.clients = [TensorDataset(*work.client(number)) for number in range(work.num_clients)]

    def get_dataloader(self, number: int, batch_size: int) -> DataLoader[Any]:
        """Return the batches of one client, reshuffled in every epoch."""
        return DataLoader(self.clients[number], batch_size=batch_size, shuffle=True)


class Handler(FedAvgServerHandler):
    """FedLab's FedAvg with weights, and with given cohorts where clients take turns."""

    def __init__(self, work: Worksheet) -> None:
        # FedLab rounds the cohort down; half a client is added against 0.1 * 100 = 9.99...
        ratio = (work.cohort + 0.5) / work.num_clients
        super().__init__(work.network(), work.rounds, ratio)
        self.work = work

    def sample_clients(self) -> Any:
        """Return the cohort of a round."""
        if self.work.takes_turns:
            return self.work.turn(self.round)
        return super().sample_clients()

    def global_update(self, buffer: Any) -> None:
        """Average the models, weighted by their numbers of samples."""
        models, weights = zip(*buffer, strict=True)
        average = Aggregators.fedavg_aggregate(list(models), list(weights))
        SerializationTool.deserialize_model(self._model, average)


class Trainer(FedAvgSerialClientTrainer):
    """FedLab's serial training, which tells the number of samples."""

    def train(self, model_parameters: Any, train_loader: Any) -> list[Any]:
        """Return the trained weights and the number of samples."""
        return [*super().train(model_parameters, train_loader), len(train_loader.dataset)]


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
    handler = Handler(work)
    trainer = Trainer(work.network(), work.num_clients)
    trainer.setup_dataset(Shares(work))
    trainer.setup_optim(work.epochs, work.batch_size, work.learning_rate)
    trainer.criterion = loss
    pipeline = Pipeline(handler, trainer, sheet)
    sheet.begin()
    pipeline.main()
    sheet.accuracy = work.accuracy(handler.model)
    sheet.write(work)


if __name__ == "__main__":
    main()
