"""Server of the app: a strategy of Flower by name, and the accuracy on samples of its own."""

import torch
from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp, strategy
from torch import nn

from adam_central.task import digits, make_net

app = ServerApp()
STRATEGIES = {
    "fedavg": strategy.FedAvg,
    "fedavgm": strategy.FedAvgM,
    "fedadam": strategy.FedAdam,
    "fedadagrad": strategy.FedAdagrad,
    "fedyogi": strategy.FedYogi,
    "fedprox": lambda **settings: strategy.FedProx(proximal_mu=0.1, **settings),
    "fedmedian": strategy.FedMedian,
}


def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:
    """Return loss and accuracy of a model on the samples that no client has."""
    net = make_net()
    net.load_state_dict(arrays.to_torch_state_dict())
    net.eval()
    images, labels = digits()
    with torch.no_grad():
        scores = net(images[1500:])
    return MetricRecord(
        {
            "loss": nn.functional.cross_entropy(scores, labels[1500:]).item(),
            "accuracy": float((scores.argmax(1) == labels[1500:]).float().mean()),
        }
    )


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train for some rounds."""
    config = context.run_config
    chosen = STRATEGIES[config["strategy"]](
        fraction_train=0.3, fraction_evaluate=0.0, min_available_nodes=2
    )
    result = chosen.start(
        grid=grid,
        initial_arrays=ArrayRecord(make_net().state_dict()),
        num_rounds=config["num-server-rounds"],
        timeout=config["timeout-s"],
        evaluate_fn=evaluate,
    )
    print("accuracies:", [m["accuracy"] for m in result.evaluate_metrics_serverapp.values()])
