"""Server of the app: the initial weights come from a client."""

from flwr.common import Context
from flwr.server import ServerApp, ServerAppComponents, ServerConfig
from flwr.server.strategy import FedAvg


def mean_accuracy(metrics: list[tuple[int, dict]]) -> dict:
    """Return the mean accuracy of the clients by their samples."""
    total = sum(num for num, _ in metrics)
    return {"accuracy": sum(num * each["accuracy"] for num, each in metrics) / total}


def server_fn(context: Context) -> ServerAppComponents:
    """Return strategy and configuration."""
    strategy = FedAvg(
        fraction_fit=0.3, fraction_evaluate=0.3, evaluate_metrics_aggregation_fn=mean_accuracy
    )
    config = ServerConfig(
        num_rounds=context.run_config["num-server-rounds"],
        round_timeout=context.run_config["round-timeout-s"],
    )
    return ServerAppComponents(strategy=strategy, config=config)


app = ServerApp(server_fn=server_fn)
