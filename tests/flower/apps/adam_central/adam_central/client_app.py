"""Client of the app, which counts its trainings in its own state."""

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from torch import nn

from adam_central.task import digits, make_net

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train on batches in an order of the client's own, drawn from torch's generator."""
    net = make_net()
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    images, labels = digits()
    mine = torch.arange(
        context.node_config["partition-id"], 1500, context.node_config["num-partitions"]
    )
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    net.train()
    for _ in range(3):
        for rows in mine[torch.randperm(len(mine))].split(10):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(images[rows]), labels[rows])
            loss.backward()
            optimizer.step()
    if "memory" not in context.state:
        context.state["memory"] = ConfigRecord({"trainings": 0})
    context.state["memory"]["trainings"] += 1
    metrics = {
        "train_loss": loss.item(),
        "num-examples": len(mine),
        "trainings": context.state["memory"]["trainings"],
    }
    content = RecordDict(
        {"arrays": ArrayRecord(net.state_dict()), "metrics": MetricRecord(metrics)}
    )
    return Message(content=content, reply_to=message)
