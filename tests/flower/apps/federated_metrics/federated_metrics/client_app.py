"""Client of the app: it trains, and it evaluates by digit."""

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from torch import nn

from federated_metrics.task import DIGITS, Net, digits, rows_of

app = ClientApp()


def net_of(message: Message) -> Net:
    """Return the model that came."""
    net = Net()
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    return net


def my_rows(context: Context) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the rows of this client."""
    config = context.node_config
    return rows_of(config["partition-id"], config["num-partitions"])


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train the model that came on the client's own samples."""
    net, (images, labels) = net_of(message), digits()
    mine, _ = my_rows(context)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    net.train()
    losses = []
    for _ in range(context.run_config["train.epochs"]):
        for rows in mine[torch.randperm(len(mine))].split(10):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(images[rows]), labels[rows])
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    metrics = MetricRecord({"train_loss": losses[-1], "num-examples": len(mine)})
    content = RecordDict({"arrays": ArrayRecord(net.state_dict()), "metrics": metrics})
    return Message(content=content, reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Count shown and recognised samples of each digit among the client's own."""
    net, (images, labels) = net_of(message), digits()
    _, mine = my_rows(context)
    shown = torch.zeros(DIGITS, dtype=torch.int64)
    recognised = torch.zeros(DIGITS, dtype=torch.int64)
    loss = 0.0
    net.eval()
    with torch.no_grad():
        for rows in mine.split(message.content["config"]["batch-size"]):
            scores = net(images[rows])
            loss += nn.functional.cross_entropy(scores, labels[rows], reduction="sum").item()
            is_right = scores.argmax(1) == labels[rows]
            shown += torch.bincount(labels[rows], minlength=DIGITS)
            recognised += torch.bincount(labels[rows][is_right], minlength=DIGITS)
    metrics = MetricRecord(
        {
            "eval_loss": loss / len(mine),
            "shown": shown.tolist(),
            "recognised": recognised.tolist(),
            "num-examples": len(mine),
        }
    )
    return Message(content=RecordDict({"metrics": metrics}), reply_to=message)
