"""Client of the app."""

import numpy as np
from flwr.client import ClientApp, NumPyClient
from flwr.common import Context

from legacy_numpy.task import digits, gradient, loss_and_accuracy


class SoftmaxClient(NumPyClient):
    """Softmax regression on the samples of one client."""

    def __init__(self, partition: int, num_partitions: int) -> None:
        images, labels = digits()
        mine = np.arange(partition, 1500, num_partitions)
        self.images, self.labels = images[mine], labels[mine]

    def get_parameters(self, config: dict) -> list[np.ndarray]:
        """Return the initial weights, drawn from numpy's generator."""
        return [0.01 * np.random.standard_normal((64, 10))]

    def fit(self, parameters: list[np.ndarray], config: dict) -> tuple:
        """Train for three passes."""
        [weights] = parameters
        for _ in range(3):
            weights = weights - 0.5 * gradient(weights, self.images, self.labels)
        loss, _ = loss_and_accuracy(weights, self.images, self.labels)
        return [weights], len(self.labels), {"train_loss": loss}

    def evaluate(self, parameters: list[np.ndarray], config: dict) -> tuple:
        """Evaluate on the client's own samples."""
        loss, accuracy = loss_and_accuracy(parameters[0], self.images, self.labels)
        return loss, len(self.labels), {"accuracy": accuracy}


def client_fn(context: Context):
    """Return the client of a node."""
    config = context.node_config
    return SoftmaxClient(config["partition-id"], config["num-partitions"]).to_client()


app = ClientApp(client_fn=client_fn)
