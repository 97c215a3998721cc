"""Adapter of pfl-research (https://github.com/apple/pfl-research): FederatedAveraging on PyTorch.

    python -m benchmarks.peers.pfl_research WORK.json
    python -m torch.distributed.run --standalone --nproc-per-node 2 \
        -m benchmarks.peers.pfl_research WORK.json

pfl slices a client's tensors in their order and does not reshuffle between epochs. It evaluates
the sampled users in its first iteration; the metric here costs nothing. Its sampler takes users in
turn. Updates weigh as many samples as they come from, as those of the other peers do.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByDatapoints
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNTrainHyperParams
from pfl.metrics import Metrics, Weighted
from pfl.model.pytorch import PyTorchModel
from torch import Tensor, nn

from benchmarks.peers.worksheet import Sheet, Worksheet, loss


class Network(nn.Module):
    """Network with the loss and the metrics that pfl requires."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def loss(self, inputs: Tensor, labels: Tensor) -> Tensor:
        """Return the mean cross-entropy."""
        return loss(self.network(inputs), labels)

    def metrics(self, inputs: Tensor, labels: Tensor) -> dict[str, Any]:
        """Return a metric that costs nothing."""
        return {"samples": Weighted(len(labels), 1)}


class RoundTimer(TrainingProcessCallback):
    """Callback that notes the time of each aggregation."""

    def __init__(self, sheet: Sheet) -> None:
        self.sheet = sheet

    def on_train_begin(self, *, model: Any) -> Metrics:
        """Note the start of the first round."""
        self.sheet.begin()
        return Metrics()

    def after_central_iteration(
        self, aggregate_metrics: Any, model: Any, *, central_iteration: int
    ) -> tuple[bool, Metrics]:
        """Note the end of a round."""
        self.sheet.end_round()
        return False, Metrics()


def _step(
    network: Network, optimizer: Any, batch: Any, train_kwargs: Any, arguments: Any, **_: Any
) -> None:
    optimizer.zero_grad()
    network.loss(*batch).backward()
    optimizer.step()


def main() -> None:
    """Run the work that the command line names."""
    work, sheet = Worksheet.read(sys.argv[1]), Sheet()
    np.random.seed(work.seed)
    torch.manual_seed(work.seed)
    clients = [PyTorchTensorDataset(work.client(number)) for number in range(work.num_clients)]
    sampler = get_user_sampler("minimize_reuse", list(range(work.num_clients)))
    # pfl spreads users of different sizes over its processes by their numbers of samples.
    sizes = dict(enumerate(map(len, clients))) if work.takes_turns else None
    dataset = FederatedDataset(clients.__getitem__, sampler, sizes)
    network = Network(work.network())
    model = PyTorchModel(
        network,
        local_optimizer_create=torch.optim.SGD,
        central_optimizer=torch.optim.SGD(network.parameters(), lr=1.0),
    )
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=work.rounds,
            evaluation_frequency=work.rounds,
            train_cohort_size=work.cohort,
            val_cohort_size=0,
        ),
        SimulatedBackend(
            training_data=dataset, val_data=dataset, postprocessors=[WeightByDatapoints()]
        ),
        model,
        NNTrainHyperParams(
            local_num_epochs=work.epochs,
            local_learning_rate=work.learning_rate,
            local_batch_size=work.batch_size,
        ),
        callbacks=[RoundTimer(sheet)],
    )
    if int(os.environ.get("RANK", "0")) == 0:
        sheet.accuracy = work.accuracy(network.network)
        sheet.write(work)
    if torch.distributed.is_initialized():
        # If a process leaves before the others are done, they may abort.
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
