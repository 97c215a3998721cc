"""Client of the app."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from torch_quickstart.task import Net, load_data
from torch_quickstart.task import test as test_fn
from torch_quickstart.task import train as train_fn

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train the model that came on the client's own samples."""
    net = Net()
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    batches, _ = load_data(
        context.node_config["partition-id"], context.node_config["num-partitions"]
    )
    loss = train_fn(
        net, batches, context.run_config["local-epochs"], message.content["config"]["lr"]
    )
    metrics = MetricRecord({"train_loss": loss, "num-examples": len(batches.dataset)})
    content = RecordDict({"arrays": ArrayRecord(net.state_dict()), "metrics": metrics})
    return Message(content=content, reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Evaluate the model that came on the client's own samples."""
    net = Net()
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    _, batches = load_data(
        context.node_config["partition-id"], context.node_config["num-partitions"]
    )
    loss, accuracy = test_fn(net, batches)
    metrics = MetricRecord(
        {"eval_loss": loss, "eval_acc": accuracy, "num-examples": len(batches.dataset)}
    )
    return Message(content=RecordDict({"metrics": metrics}), reply_to=message)
