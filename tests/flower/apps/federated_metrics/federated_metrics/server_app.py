"""Server of the app: federated evaluation, with accuracies that only the server can know."""

import json

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, MetricRecord, RecordDict
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from federated_metrics.task import Net

app = ServerApp()


def by_digit(replies: list[RecordDict], weighted_by_key: str) -> MetricRecord:
    """Return accuracy over all samples, the mean and the least over the digits, and the loss."""
    metrics = [reply["metrics"] for reply in replies]
    shown = np.sum([each["shown"] for each in metrics], axis=0)
    recognised = np.sum([each["recognised"] for each in metrics], axis=0)
    of_digits = recognised[shown > 0] / shown[shown > 0]
    weights = [each[weighted_by_key] for each in metrics]
    return MetricRecord(
        {
            "accuracy": float(recognised.sum() / shown.sum()),
            "balanced_accuracy": float(of_digits.mean()),
            "worst_digit": float(of_digits.min()),
            "eval_loss": float(np.average([m["eval_loss"] for m in metrics], weights=weights)),
        }
    )


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train for some rounds, and tell the metrics of all of them."""
    config = context.run_config
    strategy = FedAvg(
        fraction_train=config["train.fraction"],
        fraction_evaluate=config["evaluate.fraction"],
        evaluate_metrics_aggr_fn=by_digit,
    )
    result = strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(Net().state_dict()),
        num_rounds=config["num-server-rounds"],
        timeout=config["timeout-s"],
        evaluate_config=ConfigRecord({"batch-size": config["evaluate.batch-size"]}),
    )
    metrics = [dict(each) for each in result.evaluate_metrics_clientapp.values()]
    print("metrics:", json.dumps(metrics))
