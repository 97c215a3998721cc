"""Adapter of Flower (https://flower.ai): its simulation engine with Ray, and its own FedAvg.

    python -m benchmarks.peers.flower WORK.json

There is one Ray actor per core with one thread each, because more threads than cores make it
several times slower. Flower leaves the training loop of a client to its users; here it is
`worksheet.train`. Each actor maps the data from the file, copies the client's samples once, and
builds one network, which takes the weights of each message. A node is not tied to a client: where
clients take turns, the message names its client.
"""

from __future__ import annotations

import logging
import sys
from functools import cache
from typing import Any

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from torch import nn

from benchmarks.peers.worksheet import Sheet, Worksheet, train

_CLIENT = "client"
"""Key of the message that names the client."""
_ANY = 1e-9
"""Share of the nodes that rounds down to 0, so that `min_train_nodes` alone decides."""


@cache
def _work(path: str) -> Worksheet:
    """Read the work, once per process."""
    return Worksheet.read(path)


@cache
def _network(path: str) -> nn.Module:
    """Build the network, once per process; an actor trains one client at a time."""
    return _work(path).network()


def client_app(path: str) -> ClientApp:
    """Return the app of a node, which trains the model that it receives."""
    app = ClientApp()

    @app.train()
    def fit(message: Message, context: Context) -> Message:
        work = _work(path)
        named = message.content["config"].get(_CLIENT, context.node_config["partition-id"])
        number = int(named)
        network = _network(path)
        network.load_state_dict(message.content["arrays"].to_torch_state_dict())
        inputs, labels = work.client(number)
        train(network, inputs, labels, work)
        content = RecordDict(
            {
                "arrays": ArrayRecord(network.state_dict()),
                "metrics": MetricRecord({"num-examples": len(labels)}),
            }
        )
        return Message(content=content, reply_to=message)

    return app


class TimedFedAvg(FedAvg):
    """Flower's FedAvg, which notes the time of each aggregation."""

    def __init__(self, work: Worksheet, sheet: Sheet, **options: Any) -> None:
        super().__init__(**options)
        self.work = work
        self.sheet = sheet

    def configure_train(self, server_round: int, arrays: Any, config: Any, grid: Any) -> Any:
        """Sample nodes as Flower does, and name their clients where clients take turns."""
        messages = list(super().configure_train(server_round, arrays, config, grid))
        if self.work.takes_turns:
            for message, number in zip(messages, self.work.turn(server_round - 1), strict=True):
                named = ConfigRecord({**config, _CLIENT: number})
                message.content = RecordDict({"arrays": arrays, "config": named})
        return messages

    def aggregate_train(self, server_round: int, replies: Any) -> Any:
        """Aggregate as Flower does, and note the end of the round."""
        answers = list(replies)
        faults = [answer.error.reason for answer in answers if answer.has_error()]
        if faults:
            raise RuntimeError(f"a client failed: {faults[0]}")
        aggregated = super().aggregate_train(server_round, answers)
        self.sheet.end_round()
        return aggregated


def server_app(path: str) -> ServerApp:
    """Return the app of the server: rounds, then one evaluation."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        work, sheet = _work(path), Sheet()
        torch.manual_seed(work.seed)
        strategy = TimedFedAvg(
            work,
            sheet,
            fraction_train=_ANY,
            min_train_nodes=work.cohort,
            min_available_nodes=work.num_clients,
            fraction_evaluate=0.0,
        )
        network = work.network()
        sheet.begin()
        result = strategy.start(
            grid, ArrayRecord(network.state_dict()), num_rounds=work.rounds, timeout=600
        )
        network.load_state_dict(result.arrays.to_torch_state_dict())
        sheet.accuracy = work.accuracy(network)
        sheet.write(work)

    return app


def main() -> None:
    """Run the work that the command line names."""
    path = sys.argv[1]
    work = _work(path)
    logging.getLogger("flwr").setLevel(logging.WARNING)
    run_simulation(
        server_app=server_app(path),
        client_app=client_app(path),
        num_supernodes=work.num_clients,
        backend_config={
            "init_args": {"num_cpus": work.processes, "include_dashboard": False},
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
        },
    )


if __name__ == "__main__":
    # Ray's workers import code by the name of its module, which must not be __main__.
    from benchmarks.peers import flower

    flower.main()
